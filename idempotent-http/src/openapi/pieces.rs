//! The pieces of a document: parameter, responses, headers, schema.

use super::PROBLEM_SCHEMA;
use crate::key::MAX_LENGTH;
use crate::problem::TOO_MANY_KEYS;
use crate::settings::{Presence, Settings, Usage};
use idempotent_runtime::problem::{MEDIA_TYPE, ProblemType};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{Content, Ref, Required, Response, ResponseBuilder};

/// The parameter that carries the key; `None` if keys are in bodies only.
pub(super) fn key_parameter(settings: &Settings) -> Option<Parameter> {
    let sources = &settings.sources;
    let (name, place) = match (sources.headers.first(), &sources.query) {
        (Some(header), _) => (capitalized(header.as_str()), ParameterIn::Header),
        (None, Some(parameter)) => (parameter.clone(), ParameterIn::Query),
        (None, None) => return None,
    };
    let has_other_place =
        sources.reads_body() || (place == ParameterIn::Header && sources.query.is_some());
    let (required, without) = match (settings.presence, settings.usage) {
        (Presence::Required, _) if has_other_place => {
            (Required::False, " It may be in another part of the request instead.")
        }
        (Presence::Required, _) => (Required::True, ""),
        (Presence::Optional, Usage::Exchange) => {
            (Required::False, " Without one, each request is handled.")
        }
        // The functions further in decide about requests without a key.
        (Presence::Optional, Usage::AmbientToken) => (Required::False, ""),
    };
    let text = format!(
        "Identifies the request: 1 to {MAX_LENGTH} characters of printable ASCII, made by the client \
         and sent again with every repeat. A repeat is not handled again.{without}"
    );
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(text))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).min_length(Some(1))))
        .example(Some("\"0198c0e2-5d3e-7c11-9a53-2f6d1b7c8a10\"".into()));
    Some(parameter.build())
}

/// The response with which requests are refused for these reasons, which share a status.
pub(super) fn problem(kinds: &[ProblemType]) -> Response {
    let reasons: Vec<_> =
        kinds.iter().map(|kind| format!("`{}`: {}", kind.code(), kind.title())).collect();
    let codes = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(kinds.iter().map(|kind| kind.code())));
    let code =
        HeaderBuilder::new().schema(Some(codes)).description(Some("The code of the problem."));
    let content = Content::new(Some(Ref::from_schema_name(PROBLEM_SCHEMA)));
    let mut response = ResponseBuilder::new()
        .description(reasons.join("; "))
        .header("Idempotency-Problem", code.build())
        .content(MEDIA_TYPE, content);
    let says_when = |kind: &ProblemType| {
        kind.status() == 503 || matches!(*kind, ProblemType::IN_PROGRESS | TOO_MANY_KEYS)
    };
    if kinds.iter().any(says_when) {
        response = response.header("Retry-After", retry_after());
    }
    response.build()
}

pub(super) fn replayed() -> Header {
    let text = "`true` if this is a stored response: the request was handled before.";
    HeaderBuilder::new().schema(Some(only("true"))).description(Some(text)).build()
}

pub(super) fn stored() -> Header {
    let text = "`false` if the response was not stored: a repeat cannot be answered with it.";
    HeaderBuilder::new().schema(Some(only("false"))).description(Some(text)).build()
}

fn only(value: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some([value]))
}

fn retry_after() -> Header {
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let text = "Seconds after which to send the request again, with the same key.";
    HeaderBuilder::new().schema(Some(seconds)).description(Some(text)).build()
}

/// The body of a refusal.
pub(super) fn problem_schema() -> Schema {
    let text = |description: &str| {
        ObjectBuilder::new().schema_type(Type::String).description(Some(description))
    };
    let uri = text("The stable URI of the problem's type, which ends in its code.")
        .format(Some(SchemaFormat::Custom("uri".to_owned())));
    let status = ObjectBuilder::new().schema_type(Type::Integer).description(Some("The status."));
    let members = [
        ("type", uri),
        ("title", text("The problem in a few words.")),
        ("status", status),
        ("detail", text("This case, and whether the request was handled.")),
        ("code", text("The stable name of the problem.")),
    ];
    let described = "A refusal by the idempotency layer, as problem details (RFC 9457).";
    let object = ObjectBuilder::new().schema_type(Type::Object).description(Some(described));
    let add = |object: ObjectBuilder, (name, schema): (&str, ObjectBuilder)| {
        object.property(name, schema).required(name)
    };
    let original = ObjectBuilder::new().schema_type(Type::Integer).description(Some(
        "With `result-not-retained`: the status of the response that was not retained, if known.",
    ));
    members.into_iter().fold(object, add).property("original_status", original).into()
}

/// A header's name as documents write it: `Idempotency-Key`.
fn capitalized(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}
