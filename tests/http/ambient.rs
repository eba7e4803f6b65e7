//! Ambient key and scope of a request, for `#[idempotent]` functions further in.

use crate::bench::{Bench, both};
use crate::client::{KEY, Reply, send};
use crate::server::{Run, Server};
use http::request::Parts;
use http::{Method, StatusCode};
use idempotent_http::{IdempotencyLayer, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::{Ledger, scoped};
use idempotent_runtime::{Error, Idempotency, idempotent};

/// Runs once for each key of a request.
#[idempotent(mode = "strong", name = "http.by-request")]
async fn by_request(ledger: &Ledger) -> Result<String, Error> {
    Ok(format!("done {}", ledger.record("function")))
}

/// Runs once for each order.
#[idempotent(key = "order", mode = "strong", name = "http.by-order")]
async fn by_order(ledger: &Ledger, order: String) -> Result<String, Error> {
    Ok(format!("done {}", ledger.record("function")))
}

/// What the function further in does.
#[derive(Clone, Copy)]
enum Function {
    ByRequest,
    ByOrder,
}

async fn call(function: Function, idem: Idempotency, ledger: &Ledger) -> Result<String, Error> {
    match function {
        Function::ByRequest => scoped(idem, by_request(ledger)).await,
        Function::ByOrder => scoped(idem, by_order(ledger, "o-1".to_owned())).await,
    }
}

async fn serve(bench: &Bench, layer: IdempotencyLayer, function: Function) -> Server {
    let (idem, ledger) = (bench.idem.clone(), bench.ledger.clone());
    let answer = move |_: Run| {
        let (idem, ledger) = (idem.clone(), ledger.clone());
        async move { call(function, idem, &ledger).await }
    };
    bench.serve(layer, answer).await
}

/// The tests trust this header; a service takes the tenant from what its authentication found.
fn tenant(parts: &Parts) -> Option<String> {
    Some(parts.headers.get("x-tenant")?.to_str().ok()?.to_owned())
}

async fn post_as(server: &Server, tenant: &str, key: Option<&str>) -> Reply {
    let request = server.request(Method::POST, "/orders").header("x-tenant", tenant);
    send(match key {
        Some(key) => request.header(KEY, key),
        None => request,
    })
    .await
}

#[tokio::test]
async fn an_ambient_layer_puts_the_key_in_place_and_stores_nothing_itself() {
    for bench in both().await {
        let layer = bench.layer().ambient_only().max_request_bytes(4);
        let server = serve(&bench, layer, Function::ByRequest).await;
        for (key, done) in [("a", "done 1"), ("\"a\"", "done 1"), ("b", "done 2")] {
            server.post_body("/orders", key, "a body of any length").await.is_first(200, done);
        }
        assert_eq!((bench.ledger.ran("/orders"), bench.ledger.ran("function")), (3, 2));
        assert_eq!(bench.records().await, 2);
    }
}

#[tokio::test]
async fn without_a_key_there_is_no_token_for_the_function() {
    for bench in both().await {
        let server = serve(&bench, bench.layer().ambient_only(), Function::ByRequest).await;
        let missing = send(server.request(Method::POST, "/orders")).await;
        missing.is_problem(400, ProblemType::MISSING_KEY.code());
        assert_eq!(bench.ledger.ran("function"), 0);
        let layer = bench.layer().ambient_only().require_key();
        let server = serve(&bench, layer, Function::ByRequest).await;
        let refused = send(server.request(Method::POST, "/required")).await;
        refused.is_problem(400, ProblemType::MISSING_KEY.code());
        assert_eq!(bench.ledger.ran("/required"), 0);
    }
}

#[tokio::test]
async fn functions_of_different_scopes_do_not_share_a_key() {
    for bench in both().await {
        let layer = bench.layer().ambient_only().scope(tenant);
        let server = serve(&bench, layer, Function::ByRequest).await;
        for (tenant, done) in [("acme", "done 1"), ("blue", "done 2"), ("acme", "done 1")] {
            post_as(&server, tenant, Some("k")).await.is_first(200, done);
        }
        let nobody = server.post("/orders", "k").await;
        nobody.is_problem(403, problem::SCOPE_MISSING.code());
        assert_eq!(bench.ledger.ran("function"), 2);
    }
}

/// A client must not leave its tenant, nor meet another one, by leaving out a header.
#[tokio::test]
async fn a_functions_own_key_is_in_the_scope_whether_or_not_the_request_has_a_key() {
    for bench in both().await {
        for layer in [bench.layer().ambient_only().scope(tenant), bench.layer().scope(tenant)] {
            let before = bench.ledger.ran("function");
            let server = serve(&bench, layer, Function::ByOrder).await;
            for (tenant, key) in
                [("acme", Some("a")), ("acme", None), ("blue", None), ("blue", Some("b"))]
            {
                assert_eq!(post_as(&server, tenant, key).await.status, 200);
            }
            let ran = bench.ledger.ran("function");
            assert_eq!(ran, if before == 0 { 2 } else { before });
        }
    }
}

#[tokio::test]
async fn what_a_function_did_is_not_done_again_when_the_handler_fails_after_it() {
    for bench in both().await {
        let (idem, ledger) = (bench.idem.clone(), bench.ledger.clone());
        let fails_first = move |run: Run| {
            let (idem, ledger) = (idem.clone(), ledger.clone());
            async move {
                let done = call(Function::ByRequest, idem, &ledger).await.unwrap();
                let failed = ledger.ran(run.parts.uri.path()) == 1;
                if failed { Err(StatusCode::BAD_GATEWAY) } else { Ok(done) }
            }
        };
        let server = bench.serve(bench.layer(), fails_first).await;
        server.post("/orders", "k").await.is_first(502, "");
        let second = server.post("/orders", "k").await;
        second.is_first(200, "done 1");
        server.post("/orders", "k").await.is_replay_of(&second);
        assert_eq!((bench.ledger.ran("/orders"), bench.ledger.ran("function")), (2, 1));
    }
}
