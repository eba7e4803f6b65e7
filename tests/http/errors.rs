//! Errors of `#[idempotent]` functions as responses.

use crate::bench::{Bench, both, both_with};
use crate::client::send;
use crate::server::{Gate, Run, Server};
use axum::Router;
use http::Method;
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::{Ledger, scoped};
use idempotent_runtime::{Config, Error, Idempotency, idempotent};
use std::time::Duration;
use support::until;

/// What the functions work with.
#[derive(Clone)]
struct Shop {
    idem: Idempotency,
    ledger: Ledger,
    gate: Gate,
}

#[idempotent(key = "order", mode = "reject", message = "this order was sent", name = "shop.reject")]
async fn reject(shop: &Shop, order: String) -> Result<String, Error> {
    shop.gate.pass().await;
    Ok(format!("made {}", shop.ledger.record(order)))
}

#[idempotent(key = "order", mode = "strong", fingerprint = "item", wait = 0, name = "shop.strong")]
async fn strong(shop: &Shop, order: String, item: String) -> Result<String, Error> {
    Ok(format!("made {}", shop.ledger.record(order)))
}

async fn serve(bench: &Bench, gate: &Gate) -> Server {
    // No layer: the functions guard themselves.
    crate::server::serve(shop(bench, gate)).await
}

/// `/reject/{order}` and `/strong/{order}/{item}`.
fn shop(bench: &Bench, gate: &Gate) -> Router {
    let (idem, ledger) = (bench.idem.clone(), Ledger::new());
    let shop = Shop { idem, ledger, gate: gate.clone() };
    let answer = move |run: Run| {
        let shop = shop.clone();
        async move {
            let parts: Vec<String> =
                run.parts.uri.path().split('/').skip(1).map(str::to_owned).collect();
            let call = async {
                match &parts[..] {
                    [mode, order] if mode == "reject" => reject(&shop, order.clone()).await,
                    [_, order, item] => strong(&shop, order.clone(), item.clone()).await,
                    _ => unreachable!("no such route"),
                }
            };
            scoped(shop.idem.clone(), call).await
        }
    };
    crate::server::counted(&bench.ledger, answer)
}

async fn post(server: &Server, path: &str) -> crate::client::Reply {
    send(server.request(Method::POST, path)).await
}

#[tokio::test]
async fn duplicates_and_calls_in_progress_are_conflicts_with_the_functions_message() {
    for bench in both().await {
        let gate = Gate::shut();
        let server = serve(&bench, &gate).await;
        let first = tokio::spawn(send(server.request(Method::POST, "/reject/1")));
        until(|| bench.idem.in_flight() == 1).await;
        let in_progress = post(&server, "/reject/1").await;
        in_progress.is_problem(409, ProblemType::IN_PROGRESS.code());
        assert!((1..=30).contains(&in_progress.retry_after()));
        gate.admit(1);
        first.await.unwrap().is_first(200, "made 1");
        let duplicate = post(&server, "/reject/1").await;
        duplicate.is_problem(409, ProblemType::DUPLICATE.code());
        assert_eq!(duplicate.header("retry-after"), None);
        assert!(in_progress.text().contains("this order was sent (it was not handled)"));
        assert!(duplicate.text().contains("this order was sent (it was not handled again)"));
    }
}

#[tokio::test]
async fn a_refusal_that_passes_is_not_stored_by_a_layer_around_the_function() {
    for bench in both().await {
        let gate = Gate::shut();
        let server = crate::server::serve(shop(&bench, &gate).layer(bench.layer())).await;
        let first = tokio::spawn(send(server.keyed("/reject/1", "a")));
        until(|| bench.idem.in_flight() == 2).await;
        // Another key, so the layer lets it through; the order is the same.
        server.post("/reject/1", "b").await.is_problem(409, ProblemType::IN_PROGRESS.code());
        gate.admit(1);
        first.await.unwrap().is_first(200, "made 1");
        let later = server.post("/reject/1", "b").await;
        later.is_problem(409, ProblemType::DUPLICATE.code());
    }
}

#[tokio::test]
async fn another_payload_is_unprocessable() {
    for bench in both().await {
        let server = serve(&bench, &Gate::shut()).await;
        post(&server, "/strong/1/lamp").await.is_first(200, "made 1");
        post(&server, "/strong/1/lamp").await.is_first(200, "made 1");
        let mismatch = post(&server, "/strong/1/chair").await;
        mismatch.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
    }
}

#[tokio::test]
async fn an_answer_that_was_not_kept_is_a_conflict() {
    for bench in both_with(Config::new().with_max_value_bytes(4)).await {
        let server = serve(&bench, &Gate::shut()).await;
        post(&server, "/strong/1/lamp").await.is_first(200, "made 1");
        let again = post(&server, "/strong/1/lamp").await;
        again.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
    }
}

#[tokio::test]
async fn an_empty_key_is_a_bad_request() {
    for bench in both().await {
        let server = serve(&bench, &Gate::shut()).await;
        post(&server, "/strong//lamp").await.is_problem(400, ProblemType::INVALID_KEY.code());
    }
}

#[tokio::test]
async fn after_a_shutdown_the_service_is_unavailable_and_says_when_to_come_back() {
    for bench in both().await {
        let server = serve(&bench, &Gate::shut()).await;
        bench.idem.shutdown(Duration::from_secs(60)).await;
        let refused = post(&server, "/strong/1/lamp").await;
        refused.is_problem(503, ProblemType::SHUTTING_DOWN.code());
        assert!(refused.retry_after() >= 1);
    }
}
