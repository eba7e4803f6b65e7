//! The pieces of a document: parameter, responses, headers, schema.

use super::PROBLEM_SCHEMA;
use crate::key::MAX_LENGTH;
use crate::payload::Payload;
use crate::scope::Scope;
use crate::settings::{Presence, Settings, Usage};
use idempotent_runtime::problem::{MEDIA_TYPE, ProblemType};
use std::collections::BTreeMap;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{Content, Ref, Required, Response, ResponseBuilder};

/// The problems that a layer with these settings, or a function further in, answers with.
pub(super) fn refusals(settings: &Settings) -> BTreeMap<u16, Vec<ProblemType>> {
    use ProblemType as P;
    let mut kinds = vec![P::InvalidKey, P::InProgress, P::OutcomeUnknown, P::Superseded];
    kinds.extend([P::ResultNotRetained, P::NotRecorded, P::StoreUnavailable, P::StoreFull]);
    kinds.extend([P::NotReplicated, P::ShuttingDown]);
    if settings.presence == Presence::Required {
        kinds.push(P::MissingKey);
    }
    if settings.scope.is_some() {
        kinds.push(P::ScopeMissing);
    }
    if let Some(Scope::Later(_)) = settings.scope {
        kinds.push(P::ScopeUnavailable);
    }
    if settings.usage == Usage::Exchange || settings.sources.reads_body() {
        kinds.extend([P::BodyIncomplete, P::BodyUndecodable, P::BodyTooLarge]);
    }
    match settings.usage {
        Usage::Exchange => {
            kinds.push(P::Overloaded);
            if settings.quota.is_some() {
                kinds.push(P::TooManyKeys);
            }
            if settings.payload != Payload::Ignored {
                kinds.push(P::PayloadMismatch);
            }
        }
        // Functions have modes and fingerprints of their own.
        Usage::AmbientToken => kinds.extend([P::Duplicate, P::PayloadMismatch]),
    }
    let mut by_status = BTreeMap::<u16, Vec<_>>::new();
    // In the order in which they are declared, so that a document does not change with this list.
    for kind in P::ALL.iter().filter(|kind| kinds.contains(kind)) {
        by_status.entry(kind.status()).or_default().push(*kind);
    }
    by_status
}

/// The parameter that carries the key.
pub(super) fn key_parameter(settings: &Settings) -> Parameter {
    let (name, place) = match (settings.sources.headers.first(), &settings.sources.query) {
        (Some(header), _) => (capitalized(header.as_str()), ParameterIn::Header),
        (None, Some(parameter)) => (parameter.clone(), ParameterIn::Query),
        (None, None) => ("Idempotency-Key".to_owned(), ParameterIn::Header),
    };
    let (required, without) = match settings.presence {
        // The body may carry it instead.
        Presence::Required if settings.sources.reads_body() => (Required::False, ""),
        Presence::Required => (Required::True, ""),
        Presence::Optional => (Required::False, " Without one, each request is handled."),
    };
    let text = format!(
        "Identifies the request: 1 to {MAX_LENGTH} characters of printable ASCII, made by the client \
         and sent again with every repeat. A repeat is not handled again.{without}"
    );
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(text))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).min_length(Some(1))))
        .example(Some("\"0198c0e2-5d3e-7c11-9a53-2f6d1b7c8a10\"".into()))
        .build()
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
    if kinds
        .iter()
        .any(|kind| *kind == ProblemType::InProgress || matches!(kind.status(), 429 | 503))
    {
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
    let uri = text("The stable address of the problem's description.")
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
    members.into_iter().fold(object, add).into()
}

/// A header's name as documents write it: `Idempotency-Key`.
fn capitalized(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}
