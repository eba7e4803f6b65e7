use super::*;
use crate::{KeySource, Payload};
use http::HeaderName;
use idempotent_runtime::Idempotency;
use idempotent_runtime::problem::{Problem, ProblemType};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(&Idempotency::in_memory().unwrap(), "shop")
}

/// A document as an application has it before.
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

/// The statuses of the refusals that are added to an operation without any responses.
fn statuses(layer: &IdempotencyLayer) -> Vec<String> {
    IdempotencyDocs::of(layer).responses().responses.into_keys().collect()
}

#[test]
fn refusals_are_those_of_the_layer() {
    assert_eq!(statuses(&layer()), ["400", "409", "413", "422", "503"]);
    assert_eq!(statuses(&layer().payload(Payload::Ignored)), ["400", "409", "413", "503"]);
    assert_eq!(statuses(&layer().scope(|_| None)), ["400", "403", "409", "413", "422", "503"]);
    // Bodies flow through a layer that only puts the key in place.
    assert_eq!(statuses(&layer().ambient_only()), ["400", "409", "422", "503"]);
    let by_field = || layer().key_from(KeySource::form_field("id"));
    assert_eq!(statuses(&by_field().ambient_only()), ["400", "409", "413", "422", "503"]);
    let counted = layer().new_keys_per_scope(9, Duration::from_secs(60));
    assert_eq!(statuses(&counted), ["400", "409", "413", "422", "429", "503"]);
    let codes = |layer: &IdempotencyLayer| {
        let responses = IdempotencyDocs::of(layer).responses();
        let refused = serde_json::to_value(&responses.responses["503"]).unwrap();
        assert!(refused["headers"]["Retry-After"].is_object());
        refused["headers"]["Idempotency-Problem"]["schema"]["enum"].to_string()
    };
    assert!(codes(&layer()).contains("overloaded"));
    assert!(!codes(&layer().scope(|_| None)).contains("scope-unavailable"));
    let later = layer().scope_async(|_| ready(Ok::<_, Infallible>(None)));
    assert!(codes(&later).contains("scope-unavailable"));
    let optional = described(&IdempotencyDocs::of(&layer()));
    let codes = &optional["paths"]["/orders"]["post"]["responses"]["400"]["headers"]["Idempotency-Problem"]
        ["schema"]["enum"];
    assert_eq!(*codes, json!(["invalid-key", "body-incomplete", "body-undecodable"]));
}

#[test]
fn the_key_is_where_the_layer_looks_for_it() {
    let place = |layer: IdempotencyLayer| {
        let key = serde_json::to_value(IdempotencyDocs::of(&layer).parameter()).unwrap();
        (key["name"].clone(), key["in"].clone(), key["required"].clone())
    };
    let header = HeaderName::from_static("x-request-token");
    assert_eq!(place(layer()), (json!("Idempotency-Key"), json!("header"), json!(false)));
    let own = layer().headers([header]).require_key();
    assert_eq!(place(own), (json!("X-Request-Token"), json!("header"), json!(true)));
    let query = layer().headers([]).query_parameter("token");
    assert_eq!(place(query), (json!("token"), json!("query"), json!(false)));
}

#[test]
fn a_key_that_bodies_carry_is_no_parameter_that_must_be_there() {
    let by_field = || layer().key_from(KeySource::form_field("id")).require_key();
    let either = serde_json::to_value(IdempotencyDocs::of(&by_field()).parameter()).unwrap();
    assert_eq!(either["required"], json!(false));
    let document = described(&IdempotencyDocs::of(&by_field().headers([])));
    assert_eq!(document["paths"]["/payments"]["post"]["parameters"], Value::Null);
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
    let problem = Problem::new(ProblemType::InProgress, "wait").to_json();
    let problem: Value = serde_json::from_str(&problem).unwrap();
    let schema = serde_json::to_value(IdempotencyDocs::schema()).unwrap();
    let members = |value: &Value| {
        let mut members: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        members.sort_unstable();
        members
    };
    assert_eq!(members(&schema["properties"]), members(&problem));
    let mut required: Vec<_> =
        schema["required"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    required.sort_unstable();
    assert_eq!(required, members(&problem));
}
