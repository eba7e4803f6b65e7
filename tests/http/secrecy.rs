//! Keys and responses do not leak into logs or other scopes.

use crate::bench::{Bench, both};
use crate::client::{KEY, Reply, send};
use crate::script::{Script, status};
use crate::server::{Run, number};
use http::{Method, StatusCode};
use idempotent_http::client::{RequestBuilderExt as _, Retry};
use idempotent_http::{FormTokens, IdempotencyLayer};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Verb;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use support::until;
use tracing_subscriber::EnvFilter;

/// What this process logs, whichever thread and test it comes from.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Everything that the crates under test say, and what all others say at their usual level.
    fn capture() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Self::default();
            let writer = log.clone();
            let filter = "info,idempotent=trace,idempotent_http=trace,idempotent_runtime=trace";
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::new(filter))
                .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
            log
        });
        log.clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// A key that occurs nowhere else.
fn secret() -> String {
    format!("secret-{:032x}", rand::random::<u128>())
}

fn shows(reply: &Reply, secret: &str) -> bool {
    let in_headers = reply.headers.values().any(|value| {
        value.as_bytes().windows(secret.len()).any(|window| window == secret.as_bytes())
    });
    in_headers || String::from_utf8_lossy(&reply.body).contains(secret)
}

/// Every way in which the layer answers by itself, under one key and with one secret payload.
async fn refusals(bench: &Bench, key: &str, payload: &str) -> Vec<Reply> {
    let layer = bench.layer().require_key().query_parameter("token").max_request_bytes(256);
    let answer = async |run: Run| match run.parts.uri.path() {
        "/fails" => Err(StatusCode::BAD_GATEWAY),
        "/panics" => panic!("the handler panics, as it should"),
        "/large" => Ok("x".repeat(2 << 20)),
        _ => Ok(number(run).await),
    };
    let server = bench.serve(layer.clone(), answer).await;
    let post = |path: &str| server.keyed(path, key).body(payload.to_owned());
    let mut replies = Vec::new();
    for path in ["/orders", "/orders", "/fails", "/panics", "/large", "/large"] {
        replies.push(send(post(path)).await);
    }
    replies.push(send(post("/orders").body("another body")).await);
    replies.push(send(post("/orders").body("x".repeat(257))).await);
    for line in [format!("\"{key}"), format!("{key}, {key}"), format!("{key} {key}"), key.repeat(9)]
    {
        replies.push(send(server.request(Method::POST, "/orders").header(KEY, line)).await);
    }
    replies.push(send(server.keyed(&format!("/orders?token={key}x"), key)).await);
    let scoped = bench.serve(layer.scope(|_| None), number).await;
    replies.push(send(scoped.keyed("/orders", key)).await);

    let (neighbour, store) = bench.neighbour().await;
    store.all_down();
    let down = bench.serve(IdempotencyLayer::new(&neighbour, "shop"), number).await;
    let refused = tokio::spawn(send(down.keyed("/orders", key)));
    until(|| {
        bench.tick(Duration::from_millis(10));
        refused.is_finished()
    })
    .await;
    replies.push(refused.await.unwrap());
    assert!(store.calls(Verb::Begin) > 0);

    let forms = crate::server::counted(&bench.ledger, number);
    let forms = crate::server::serve(forms.layer(FormTokens::new(&bench.idem, "order"))).await;
    replies.push(send(forms.request(Method::POST, "/").header("form-token", key)).await);
    replies
}

#[tokio::test]
async fn no_answer_and_no_line_of_the_log_shows_a_key_or_a_payload() {
    let log = Log::capture();
    for bench in both().await {
        let (key, payload) = (secret(), secret());
        let replies = refusals(&bench, &key, &payload).await;
        let problems = replies.iter().filter(|it| it.headers.contains_key("idempotency-problem"));
        assert_eq!(problems.count(), 12);
        for reply in &replies {
            assert!(!shows(reply, &key) && !shows(reply, &payload), "{reply:?}");
        }
        let log = log.text();
        // It does log: what is refused, and spans with the key's digest.
        assert!(log.contains("refused") && log.contains("operation=\"shop\""), "{log}");
        for secret in [&key, &payload] {
            let line = log.lines().find(|line| line.contains(secret.as_str()));
            assert_eq!(line, None);
        }
    }
}

#[tokio::test]
async fn the_log_says_what_is_set_up_wrongly_and_the_answer_does_not() {
    let log = Log::capture();
    for bench in both().await {
        let key = secret();
        let layer = bench.layer().retention(Duration::ZERO);
        let refused = bench.serve(layer, number).await.post("/orders", &key).await;
        refused.is_problem(500, ProblemType::MISCONFIGURED.code());
        let reason = "`retention` cannot be 0s";
        assert!(!refused.text().contains(reason), "{refused:?}");
        let log = log.text();
        assert!(log.contains(reason) && !log.contains(&key), "{log}");
    }
}

#[tokio::test]
async fn no_line_of_the_log_shows_a_form_token() {
    let log = Log::capture();
    for bench in both().await {
        let tokens = FormTokens::new(&bench.idem, "order");
        let fails = async |_: Run| StatusCode::BAD_GATEWAY;
        let router = crate::server::counted(&bench.ledger, fails).layer(tokens.clone());
        let server = crate::server::serve(router).await;
        let token = tokens.issue(None).await.unwrap();
        for _ in 0..2 {
            let reply = send(server.request(Method::POST, "/").header("form-token", &token)).await;
            assert_eq!(reply.status, 502);
            assert!(!shows(&reply, &token));
        }
        assert!(!log.text().contains(&token));
        assert!(!format!("{tokens:?}").contains(&token));
    }
}

#[tokio::test]
async fn no_line_of_the_log_shows_a_key_that_is_sent_downstream() {
    let log = Log::capture();
    for bench in both().await {
        let provider = Script::new(|request| status(if request == 0 { 503 } else { 200 })).await;
        let (client, url) = (provider.server.client.clone(), provider.server.url("/"));
        let charges = move |_: Run| {
            let charge = client.post(&url);
            async move {
                // Built inside of the attempt, and sent twice: that is logged.
                let charge = charge.derived_key("stripe.charge");
                Retry::new().send(charge).await.unwrap().status()
            }
        };
        let server = bench.serve(bench.layer(), charges).await;
        let key = secret();
        assert_eq!(server.post("/orders", &key).await.status, StatusCode::OK);
        let [Some(derived), Some(_)] = &provider.keys()[..] else { panic!("it is sent twice") };
        let log = log.text();
        assert!(log.contains("the request is sent again"), "{log}");
        assert!(!log.contains(derived.as_str()) && !log.contains(&key));
    }
}
