//! Keys that are neither in a header nor in the query.

use crate::bench::both;
use crate::client::{KEY, Reply, send};
use crate::server::{Gate, Run, Server, held, number};
use http::Method;
use http::header::CONTENT_TYPE;
use idempotent_http::{IdempotencyLayer, KeySource, problem};
use idempotent_runtime::ambient;
use idempotent_runtime::problem::ProblemType;
use support::until;

const FORM: &str = "application/x-www-form-urlencoded";

async fn post(server: &Server, content_type: &str, body: impl Into<String>) -> Reply {
    let request = server.request(Method::POST, "/orders").header(CONTENT_TYPE, content_type);
    send(request.body(body.into())).await
}

#[tokio::test]
async fn a_member_of_the_body_is_the_key() {
    for bench in both().await {
        let layer = bench.layer().require_key().key_from(KeySource::json_pointer("/event/id"));
        let server = bench.serve(layer, number).await;
        let post = async |body: &'static str| post(&server, "application/json", body).await;
        let first = post(r#"{"event":{"id":"e-1"}}"#).await;
        first.is_first(200, "run 1");
        post(r#"{"event":{"id":"e-1"}}"#).await.is_replay_of(&first);
        post(r#"{"event":{"id":"e-2"}}"#).await.is_first(200, "run 2");
        let number = post(r#"{"event":{"id":3}}"#).await;
        number.is_first(200, "run 3");
        post(r#"{"event":{"id":3}}"#).await.is_replay_of(&number);
        let differs = post(r#"{"event":{"id":"e-1"},"n":1}"#).await;
        differs.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        for none in ["", "not json", "{}", r#"{"event":{"id":null}}"#] {
            post(none).await.is_problem(400, ProblemType::MISSING_KEY.code());
        }
        for bad in
            [r#"{"event":{"id":""}}"#, r#"{"event":{"id":{}}}"#, r#"{"event":{"id":"\u00fc"}}"#]
        {
            post(bad).await.is_problem(400, ProblemType::INVALID_KEY.code());
        }
        assert_eq!(bench.runs(), 3);
    }
}

/// A form with this token, as a browser writes it.
type Written = fn(&str) -> String;

/// A page with a token in a hidden field needs no script.
#[tokio::test]
async fn the_second_click_on_a_form_gets_the_first_answer() {
    const MULTIPART: &str = "multipart/form-data; boundary=b";
    let urlencoded = |token: &str| format!("item=lamp&token={token}");
    let in_parts = |token: &str| {
        format!(
            "--b\r\ncontent-disposition: form-data; name=\"item\"\r\n\r\nlamp\r\n\
             --b\r\ncontent-disposition: form-data; name=\"token\"\r\n\r\n{token}\r\n--b--\r\n"
        )
    };
    let kinds: [(&str, Written); 2] = [(FORM, urlencoded), (MULTIPART, in_parts)];
    for bench in both().await {
        let layer = bench.layer().require_key().key_from(KeySource::form_field("token"));
        let server = bench.serve(layer, number).await;
        for (index, (kind, form)) in kinds.into_iter().enumerate() {
            let token = format!("t-{index}");
            let first = post(&server, kind, form(&token)).await;
            first.is_first(200, &format!("run {}", index + 1));
            post(&server, kind, form(&token)).await.is_replay_of(&first);
            let empty = post(&server, kind, form("")).await;
            empty.is_problem(400, ProblemType::INVALID_KEY.code());
            let none = post(&server, kind, "item=lamp").await;
            none.is_problem(400, ProblemType::MISSING_KEY.code());
        }
        let twice = post(&server, FORM, "token=a&token=a").await;
        twice.is_problem(400, ProblemType::INVALID_KEY.code());
        assert_eq!(bench.runs(), kinds.len());
    }
}

#[tokio::test]
async fn a_second_click_while_the_first_is_handled_runs_nothing() {
    for bench in both().await {
        let gate = Gate::shut();
        let layer = bench.layer().key_from(KeySource::form_field("token"));
        let server = bench.serve(layer, held(&gate)).await;
        let request = || {
            let request = server.request(Method::POST, "/orders").header(CONTENT_TYPE, FORM);
            send(request.body("token=t-1"))
        };
        let first = tokio::spawn(request());
        until(|| bench.runs() == 1).await;
        request().await.is_problem(409, ProblemType::IN_PROGRESS.code());
        gate.admit(1);
        let first = first.await.unwrap();
        request().await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_function_finds_the_key() {
    let last_line = |body: &[u8]| {
        let text = std::str::from_utf8(body).ok()?;
        assert_ne!(text, "panics", "the function panics, as it should");
        text.lines().last().map(str::to_owned)
    };
    for bench in both().await {
        let by = KeySource::by(move |parts, body| {
            let tenant = parts.headers.get("x-tenant").and_then(|it| it.to_str().ok());
            Some(format!("{}/{}", tenant.unwrap_or_default(), last_line(body)?))
        });
        let server = bench.serve(bench.layer().headers([]).key_from(by), number).await;
        let first = post(&server, "text/plain", "one\nk").await;
        first.is_first(200, "run 1");
        post(&server, "text/plain", "one\nk").await.is_replay_of(&first);
        let request = server.request(Method::POST, "/orders").header("x-tenant", "acme");
        send(request.body("one\nk")).await.is_first(200, "run 2");
        for run in ["run 3", "run 4"] {
            post(&server, "text/plain", "").await.is_first(200, run);
        }
        post(&server, "text/plain", "panics")
            .await
            .is_problem(500, ProblemType::MISCONFIGURED.code());
        assert_eq!((bench.runs(), bench.records().await), (4, 2));
    }
}

#[tokio::test]
async fn a_key_in_the_body_must_not_disagree_with_a_header() {
    for bench in both().await {
        let server =
            bench.serve(bench.layer().key_from(KeySource::json_pointer("/id")), number).await;
        let post = async |key: &'static str| {
            send(server.keyed("/orders", key).body(r#"{"id":"k"}"#)).await
        };
        post("other").await.is_problem(400, ProblemType::INVALID_KEY.code());
        let first = post("k").await;
        first.is_first(200, "run 1");
        let alone = server.request(Method::POST, "/orders").body(r#"{"id":"k"}"#);
        send(alone).await.is_replay_of(&first);
    }
}

/// Without the body it is not known whether there is a key.
#[tokio::test]
async fn a_body_that_may_carry_the_key_is_read_up_to_the_limit() {
    for bench in both().await {
        let vary = |layer: IdempotencyLayer| {
            layer.key_from(KeySource::form_field("token")).max_request_bytes(16)
        };
        for layer in [vary(bench.layer()), vary(bench.layer().ambient_only())] {
            let server = bench.serve(layer, number).await;
            let large = post(&server, FORM, "item=lamp&color=red").await;
            large.is_problem(413, problem::BODY_TOO_LARGE.code());
            let mut raw = server.connect().await;
            raw.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\ntoken").await;
            raw.end().await;
            let cut_off = raw.read_to_end().await;
            assert!(!cut_off.starts_with(b"HTTP/1.1 200"), "{cut_off:?}");
            // Safe methods are not looked at.
            let safe = server.request(Method::GET, "/orders").body("item=lamp&color=red");
            assert_eq!(send(safe).await.status, 200);
        }
        assert_eq!((bench.runs(), bench.records().await), (2, 0));
    }
}

/// The handler sees the body, although the layer has read it.
async fn token_and_body(run: Run) -> String {
    let token = ambient::current().and_then(|ambient| ambient.token).unwrap_or_default();
    format!("{token}: {}", String::from_utf8_lossy(&run.body))
}

#[tokio::test]
async fn a_key_in_the_body_is_put_in_place_for_functions_too() {
    for bench in both().await {
        let layer = bench.layer().key_from(KeySource::form_field("token"));
        for layer in [layer.clone(), layer.ambient_only()] {
            let server = bench.serve(layer, token_and_body).await;
            let keyed = post(&server, FORM, "token=t-1&a=b").await;
            assert_eq!(keyed.text(), "t-1: token=t-1&a=b");
            post(&server, FORM, "a=b").await.is_first(200, ": a=b");
        }
        assert_eq!(bench.records().await, 1);
    }
}

#[tokio::test]
async fn a_client_is_told_where_its_key_belongs() {
    let sources = [
        (KeySource::json_pointer("/id"), "send the member /id of the JSON body"),
        (KeySource::form_field("token"), "send the field token of the form"),
        (KeySource::by(|_, _| None), "send a key"),
    ];
    for bench in both().await {
        for (source, text) in &sources {
            let layer = bench.layer().headers([]).require_key().key_from(source.clone());
            let server = bench.serve(layer, number).await;
            let missing = send(server.request(Method::POST, "/orders").header(KEY, "k")).await;
            missing.is_problem(400, ProblemType::MISSING_KEY.code());
            assert!(missing.text().contains(text), "{missing:?}");
        }
        assert_eq!(bench.runs(), 0);
    }
}
