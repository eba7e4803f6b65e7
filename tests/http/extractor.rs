//! The key of a request, as handlers get it.

use crate::bench::{Bench, both};
use crate::client::{KEY, send};
use crate::server::{Server, serve};
use axum::Router;
use axum::routing::{any, post};
use http::{HeaderName, Method};
use idempotent_http::{IdempotencyKey, IdempotencyLayer};
use idempotent_runtime::problem::ProblemType;
use support::events;

async fn required(key: IdempotencyKey) -> String {
    format!("key {}", key.as_str())
}

async fn optional(key: Option<IdempotencyKey>) -> String {
    key.map_or("none".to_owned(), |key| format!("key {}", key.as_str()))
}

fn router() -> Router {
    Router::new().route("/required", post(required)).route("/optional", any(optional))
}

/// The two uses of a layer.
fn uses(bench: &Bench) -> [IdempotencyLayer; 2] {
    [bench.layer(), bench.layer().ambient_only()]
}

async fn unkeyed(server: &Server, path: &str) -> crate::client::Reply {
    send(server.request(Method::POST, path)).await
}

#[tokio::test]
async fn a_handler_gets_the_key_that_the_layer_has_read() {
    for bench in both().await {
        for layer in uses(&bench) {
            let server = serve(router().layer(layer)).await;
            for path in ["/required", "/optional"] {
                let reply = server.post(path, r#""a \"b\"";p=1"#).await;
                assert_eq!((reply.status.as_u16(), reply.text()), (200, r#"key a "b""#));
            }
        }
    }
}

#[tokio::test]
async fn without_a_key_a_handler_that_needs_one_refuses() {
    for bench in both().await {
        for layer in uses(&bench) {
            let server = serve(router().layer(layer)).await;
            let missing = unkeyed(&server, "/required").await;
            missing.is_problem(400, ProblemType::MISSING_KEY.code());
            unkeyed(&server, "/optional").await.is_first(200, "none");
            // Whatever key such a request carries, the layer lets it pass.
            let safe = send(server.request(Method::GET, "/optional").header(KEY, "k")).await;
            safe.is_first(200, "none");
        }
    }
}

#[tokio::test]
async fn without_a_layer_every_request_is_refused_and_the_log_says_why() {
    let events = events::collect();
    let server = serve(router()).await;
    for path in ["/required", "/optional"] {
        let refused = server.post(path, "k").await;
        refused.is_problem(500, ProblemType::MISCONFIGURED.code());
    }
    let message = "a handler asks for the key of a request, and no layer is around it";
    assert_eq!(events.take(message).len(), 2);
}

#[tokio::test]
async fn the_key_of_an_outer_layer_stays_if_an_inner_one_finds_none() {
    for bench in both().await {
        let inner = bench.layer().headers([HeaderName::from_static("inner-key")]);
        for outer in uses(&bench) {
            let server = serve(router().layer(inner.clone()).layer(outer)).await;
            assert_eq!(server.post("/optional", "outer").await.text(), "key outer");
            let request = server.request(Method::POST, "/required").header("inner-key", "inner");
            assert_eq!(send(request).await.text(), "key inner");
        }
    }
}
