use super::refusals::{Part, part};
use super::*;
use crate::problem;
use crate::{KeySource, Payload};
use http::HeaderName;
use http::request::Parts;
use idempotent_runtime::Idempotency;
use idempotent_runtime::problem::{Problem, ProblemType};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(&Idempotency::in_memory().unwrap(), "shop")
}

/// A document of an application, without the layer.
fn shop() -> OpenApi {
    let document = json!({
        "openapi": "3.2.0",
        "info": {"title": "shop", "version": "1"},
        "paths": {
            "/orders": {
                "get": {"responses": {"200": {"description": "all orders"}}},
                "put": {"responses": {"200": {"description": "replaced"}}},
                "post": {
                    "parameters": [{"name": "dry-run", "in": "query", "required": false}],
                    "responses": {
                        "201": {"description": "ordered"},
                        "422": {
                            "description": "no such item",
                            "headers": {"Retry-After": {"description": "the application's own"}},
                            "content": {"application/json": {"schema": {"type": "string"}}}
                        },
                        "503": {"description": "closed"}
                    }
                }
            },
            "/payments": {"post": {"responses": {"200": {"description": "paid"}}}}
        }
    });
    serde_json::from_value(document).unwrap()
}

fn described(docs: &IdempotencyDocs) -> Value {
    let mut document = shop();
    docs.modify(&mut document);
    serde_json::to_value(&document).unwrap()
}

#[test]
fn the_document_is_this() {
    let docs = IdempotencyDocs::of(&layer().require_key()).only(|path| path == "/orders");
    let document = described(&docs);
    let expected: Value = serde_json::from_str(include_str!("orders.json")).unwrap();
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(document, expected, "the document is\n{text}");
}

#[test]
fn a_document_that_is_described_twice_does_not_change() {
    let docs = IdempotencyDocs::of(&layer().require_key());
    let mut document = shop();
    docs.modify(&mut document);
    let once = serde_json::to_value(&document).unwrap();
    docs.modify(&mut document);
    assert_eq!(serde_json::to_value(&document).unwrap(), once);
}

/// The codes of the refusals that are added to an operation, by status.
fn codes(layer: &IdempotencyLayer) -> BTreeMap<u16, Vec<&'static str>> {
    let refusals = refusals::refusals(&layer.settings()).into_iter();
    refusals.map(|(status, kinds)| (status, kinds.iter().map(|it| it.code()).collect())).collect()
}

fn statuses(layer: &IdempotencyLayer) -> Vec<u16> {
    codes(layer).into_keys().collect()
}

fn body_key() -> KeySource {
    KeySource::json_pointer("/id")
}

/// Layers that differ in what they refuse, and the codes that they refuse with beside or instead of
/// those of a layer without any settings.
fn variations() -> Vec<(IdempotencyLayer, &'static [&'static str], &'static [&'static str])> {
    let hour = Duration::from_secs(3_600);
    let of_exchanges: &[_] =
        &["overloaded", "handler-failed", "body-too-large", "body-incomplete", "body-undecodable"];
    let unknown = |_: &Parts| async { Ok::<_, Infallible>(None) };
    vec![
        (layer(), &[], &[]),
        (layer().require_key(), &["missing-key"], &[]),
        (layer().payload(Payload::Ignored), &[], &["payload-mismatch"]),
        (layer().scope(|_| None), &["scope-missing"], &[]),
        (layer().scope_async(unknown), &["scope-missing", "scope-unavailable"], &[]),
        (layer().new_keys_per_scope(1, hour), &["too-many-keys"], &[]),
        (layer().key_from(body_key()), &[], &[]),
        // Functions further in refuse too.
        (layer().ambient_only(), &["missing-key", "duplicate", "failed-before"], of_exchanges),
        // The body is read for its key.
        (
            layer().ambient_only().key_from(body_key()),
            &["missing-key", "duplicate", "failed-before"],
            &["overloaded", "handler-failed"],
        ),
        // Keys are not counted where nothing is stored.
        (
            layer().ambient_only().new_keys_per_scope(1, hour),
            &["missing-key", "duplicate", "failed-before"],
            of_exchanges,
        ),
    ]
}

#[test]
fn refusals_are_those_of_the_layer() {
    let all = |layer: &IdempotencyLayer| -> BTreeSet<_> {
        codes(layer).into_values().flatten().collect()
    };
    let usual = all(&layer());
    for (number, (layer, added, removed)) in variations().into_iter().enumerate() {
        let mut expected = usual.clone();
        expected.extend(added);
        expected.retain(|code| !removed.contains(code));
        assert_eq!(all(&layer), expected, "variation {number}");
    }
    let usual = codes(&layer());
    assert_eq!(usual[&400], ["invalid-key", "body-incomplete", "body-undecodable"]);
    assert_eq!(usual[&500], ["result-unreadable", "misconfigured", "handler-failed"]);
    assert!(usual[&503].contains(&"overloaded"));
}

#[test]
fn every_problem_is_documented_or_cannot_happen() {
    let variations = variations();
    for kind in problem::all() {
        let parts: Vec<_> =
            variations.iter().map(|(layer, ..)| part(kind, &layer.settings())).collect();
        assert!(!parts.contains(&None), "{} is not classified", kind.code());
        // A problem that no variation causes belongs to another service.
        let is_elsewhere = parts.iter().all(|part| *part == Some(Part::Elsewhere));
        let is_possible = parts.contains(&Some(Part::Possible));
        assert!(is_elsewhere != is_possible, "{}: {parts:?}", kind.code());
    }
}

#[test]
fn refusals_that_say_when_to_come_back_have_the_header() {
    let hour = Duration::from_secs(3_600);
    let layer = layer().require_key().scope(|_| None).new_keys_per_scope(1, hour);
    let responses = serde_json::to_value(IdempotencyDocs::of(&layer).responses()).unwrap();
    let with_header = responses.as_object().unwrap().iter();
    let with_header = with_header.filter(|(_, it)| it["headers"]["Retry-After"].is_object());
    let with_header: Vec<_> = with_header.map(|(status, _)| status.as_str()).collect();
    assert_eq!(with_header, ["409", "429", "503"]);
}

#[test]
fn the_documented_statuses_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = std::fs::read_to_string(path).unwrap().replace('\n', " ");
    let list =
        |statuses: &[u16]| statuses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let hour = Duration::from_secs(3_600);
    let usual = statuses(&layer());
    let scoped = statuses(&layer().scope(|_| None));
    let counted = statuses(&layer().new_keys_per_scope(1, hour));
    let added = |to: &[u16]| {
        list(&to.iter().copied().filter(|status| !usual.contains(status)).collect::<Vec<_>>())
    };
    let sentence = format!(
        "the refusals ({}; {} with a scope; {} with `new_keys_per_scope`)",
        list(&usual),
        added(&scoped),
        added(&counted)
    );
    assert!(page.contains(&sentence), "{sentence}");
}

#[test]
fn the_key_is_where_the_layer_looks_for_it() {
    let place = |layer: IdempotencyLayer| {
        let key = IdempotencyDocs::of(&layer).parameter().expect("a parameter");
        let key = serde_json::to_value(key).unwrap();
        (key["name"].clone(), key["in"].clone(), key["required"].clone())
    };
    let header = HeaderName::from_static("x-request-token");
    assert_eq!(place(layer()), (json!("Idempotency-Key"), json!("header"), json!(false)));
    let own = layer().headers([header]).require_key();
    assert_eq!(place(own), (json!("X-Request-Token"), json!("header"), json!(true)));
    let query = layer().headers([]).query_parameter("token");
    assert_eq!(place(query), (json!("token"), json!("query"), json!(false)));
    // A request that has its key elsewhere is not refused.
    for elsewhere in [layer().key_from(body_key()), layer().query_parameter("token")] {
        let key = place(elsewhere.require_key());
        assert_eq!(key, (json!("Idempotency-Key"), json!("header"), json!(false)));
    }
}

#[test]
fn keys_in_bodies_only_are_no_parameter() {
    let docs = IdempotencyDocs::of(&layer().headers([]).key_from(body_key()).require_key());
    assert!(docs.parameter().is_none());
    let document = described(&docs);
    let paths = &document["paths"];
    let names = paths["/orders"]["post"]["parameters"].as_array().unwrap().iter();
    assert_eq!(names.map(|it| &it["name"]).collect::<Vec<_>>(), ["dry-run"]);
    assert!(paths["/payments"]["post"].get("parameters").is_none());
    assert!(paths["/payments"]["post"]["responses"]["409"].is_object());
}

#[test]
fn methods_and_paths_that_are_not_guarded_stay_as_they_are() {
    let before = serde_json::to_value(shop()).unwrap();
    let docs = IdempotencyDocs::of(&layer().methods([Method::PUT])).only(|path| path == "/orders");
    let after = described(&docs);
    for (path, method) in [("/orders", "get"), ("/orders", "post"), ("/payments", "post")] {
        assert_eq!(after["paths"][path][method], before["paths"][path][method], "{method} {path}");
    }
    assert_eq!(after["paths"]["/orders"]["put"]["parameters"][0]["name"], "Idempotency-Key");
}

#[test]
fn replays_are_marked_where_responses_are_stored_only() {
    let marks = |layer: IdempotencyLayer, status: &str| {
        let document = described(&IdempotencyDocs::of(&layer));
        let headers = &document["paths"]["/orders"]["post"]["responses"][status]["headers"];
        headers["Idempotent-Replayed"].is_object() && headers["Idempotent-Stored"].is_object()
    };
    assert!(marks(layer(), "201") && !marks(layer(), "503"));
    assert!(marks(layer().store_server_errors(), "503"));
    assert!(!marks(layer().ambient_only(), "201"));
}

#[test]
fn the_schema_has_the_members_of_a_problem() {
    let problem = Problem::new(ProblemType::RESULT_NOT_RETAINED, "not again");
    let json = |problem: &Problem| -> Value { serde_json::from_str(&problem.to_json()).unwrap() };
    let (least, most) = (json(&problem), json(&problem.original_status(201)));
    let schema = serde_json::to_value(IdempotencyDocs::schema()).unwrap();
    let members = |value: &Value| {
        let mut members: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        members.sort_unstable();
        members
    };
    assert_eq!(members(&schema["properties"]), members(&most));
    let mut required: Vec<_> =
        schema["required"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    required.sort_unstable();
    assert_eq!(required, members(&least));
}
