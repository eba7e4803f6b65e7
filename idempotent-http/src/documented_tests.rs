//! Defaults that pages and doc comments state are those of the code.

use crate::exchange::Exchange;
use crate::quota::MOST_SCOPES;
use crate::{FormTokens, IdempotencyLayer};
use http::Response;
use idempotent_runtime::Idempotency;
use idempotent_runtime::codec::StoredBytes;
use std::time::Duration;

/// A file of the workspace as one line, without the marks of comments.
fn text(file: &str) -> String {
    let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("///").trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// A number with a comma between thousands.
fn grouped(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

fn assert_stated(file: &str, sentences: &[String]) {
    let text = text(file);
    for sentence in sentences {
        assert!(text.contains(sentence), "{file} does not say: {sentence}");
    }
}

#[test]
fn the_documented_defaults_are_those_of_the_code() {
    let idem = Idempotency::in_memory().unwrap();
    let layer = IdempotencyLayer::new(&idem, "shop").settings();
    let orphans = grouped(layer.max_orphans);
    let request_bytes = format!("{} MiB", layer.max_request_bytes >> 20);
    assert_eq!(layer.max_request_bytes % (1 << 20), 0);
    let response_bytes = format!("{} KiB", layer.max_response_bytes >> 10);
    assert_eq!(layer.max_response_bytes % (1 << 10), 0);
    let retention = format!("{} hours", layer.retention.unwrap().as_secs() / 3_600);
    let pause = layer.stream_after.as_millis();
    assert_eq!(layer.wait, Some(Duration::ZERO));
    let mut form = None;
    let _ = FormTokens::new(&idem, "order")
        .with(|it| form = Some((it.expire, it.max_bytes, it.max_orphans)));
    let (expire, form_bytes, form_orphans) = form.unwrap();
    // Pages write it as a word.
    assert_eq!(expire, Duration::from_secs(10 * 60));
    assert_eq!(form_orphans, layer.max_orphans);
    let form_bytes = format!("{} KiB", form_bytes >> 10);

    assert_stated(
        "docs/http.md",
        &[
            format!("stored for `retention`, {retention} by default"),
            format!("| how long responses are kept | {retention} |"),
            "| how long a repeat waits | not at all |".to_owned(),
            format!(
                "`max_orphaned_handlers`: while there are {orphans} handlers whose client has gone"
            ),
            "Forms have the same limit".to_owned(),
            format!("for longer than `stream_after` ({pause} ms by default)"),
            "| after ten minutes, or with a token that nobody issued |".to_owned(),
            format!("| over the limit ({form_bytes} by default), cut off, or not decodable |"),
        ],
    );
    assert_stated("docs/http-layers.md", &[format!("While {orphans} handlers go on like that")]);
    assert_stated(
        "docs/http-differences.md",
        &[
            format!("up to `max_request_bytes`, {request_bytes} by default"),
            format!("While {orphans} handlers go on without a client"),
            format!("up to `max_response_bytes`, {response_bytes} by default"),
        ],
    );
    assert_stated(
        "idempotent-http/src/layer.rs",
        &[
            format!("Responses of up to {response_bytes} are kept for {retention}, if"),
            format!("end without a pause of {pause} milliseconds"),
            format!("Sets the retention of responses; {retention} by default"),
            format!("layer in this process; {orphans} by default"),
        ],
    );
    assert_stated(
        "idempotent-http/src/layer/responses.rs",
        &[format!("in a response that is stored; {pause} milliseconds by default")],
    );
    assert_stated(
        "idempotent-http/src/form.rs",
        &[
            "tokens for one kind of form. They are valid for ten minutes".to_owned(),
            format!("a larger one is refused (413). {form_bytes} by default"),
            format!("whose client has gone; {orphans} by default"),
        ],
    );
}

#[test]
fn the_documented_bytes_of_a_response_are_those_that_are_stored() {
    let response = Response::builder().status(200).header("a", "b").body("c".into()).unwrap();
    let mut bytes = Vec::new();
    Exchange::<()>::Whole { response, trailers: None }.write_to(&mut bytes).unwrap();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let page = text("docs/wire-format.md");
    let (_, example) = page.split_once("the header `a: b` and the body `c`:").unwrap();
    let example = example.split("```").nth(1).unwrap().strip_prefix("text").unwrap();
    assert_eq!(example.replace(' ', ""), digits);
}

#[test]
fn the_documented_number_of_scopes_is_that_of_the_code() {
    let stated = format!("up to {} scopes at a time", grouped(MOST_SCOPES));
    assert_stated("docs/http.md", std::slice::from_ref(&stated));
    assert_stated("idempotent-http/src/quota.rs", &[stated]);
}
