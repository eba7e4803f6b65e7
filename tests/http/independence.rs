//! Independent keys: other methods, other paths, other scopes.

use crate::bench::{Bench, both};
use crate::client::{KEY, Reply, send};
use crate::server::{Run, Server, counted, number, serve};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, StatusCode};
use idempotent_http::{IdempotencyLayer, problem};
use idempotent_runtime::problem::ProblemType;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn safe_methods_pass_even_with_a_malformed_key() {
    for bench in both().await {
        let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
        let layer = bench.layer().require_key().methods(methods.clone());
        let server = bench.serve(layer, number).await;
        let mut runs = 0;
        for method in methods {
            for line in ["k", "k", "\"open"] {
                let reply = send(server.request(method.clone(), "/").header(KEY, line)).await;
                runs += 1;
                assert_eq!((reply.status.as_u16(), bench.runs()), (200, runs), "{method} {line}");
                assert!(!reply.is_replay());
            }
        }
        assert_eq!(bench.records().await, 0);
    }
}

#[tokio::test]
async fn put_and_delete_pass_unless_they_are_switched_on() {
    for bench in both().await {
        let call = async |server: &Server, method: Method| {
            send(server.request(method, "/orders/1").header(KEY, "k")).await
        };
        let server = bench.serve(bench.layer(), number).await;
        for method in [Method::PUT, Method::DELETE, Method::PUT, Method::DELETE] {
            assert!(!call(&server, method).await.is_replay());
        }
        assert_eq!((bench.runs(), bench.records().await), (4, 0));
        let layer = bench.layer().methods([Method::PUT, Method::DELETE]);
        let server = bench.serve(layer, number).await;
        for method in [Method::PUT, Method::DELETE] {
            let first = call(&server, method.clone()).await;
            call(&server, method).await.is_replay_of(&first);
        }
        assert_eq!(bench.runs(), 6);
        for _ in 0..2 {
            assert!(!call(&server, Method::POST).await.is_replay());
        }
    }
}

#[tokio::test]
async fn one_key_under_other_paths_and_methods_is_another_one() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let calls = [
            (Method::POST, "/orders"),
            (Method::PATCH, "/orders"),
            (Method::POST, "/orders/"),
            (Method::POST, "/orders/1"),
            (Method::POST, "/Orders"),
            (Method::POST, "/refunds"),
        ];
        let call = async |(method, path): (Method, &str)| {
            send(server.request(method, path).header(KEY, "k")).await
        };
        let mut first = Vec::new();
        for (index, of) in calls.clone().into_iter().enumerate() {
            let reply = call(of).await;
            reply.is_first(200, &format!("run {}", index + 1));
            first.push(reply);
        }
        for (of, first) in calls.into_iter().zip(&first) {
            call(of).await.is_replay_of(first);
        }
    }
}

/// A gateway passes the key of its client on: the service behind it handles the request, and the
/// gateway does not get its own record back.
#[tokio::test]
async fn services_of_different_names_on_one_store_do_not_answer_for_each_other() {
    for bench in both().await {
        let [gateway, orders] =
            ["gateway", "orders"].map(|name| IdempotencyLayer::new(&bench.idem, name));
        let orders = Arc::new(bench.serve(orders, number).await);
        let behind = Arc::clone(&orders);
        let passes_on = move |run: Run| {
            let behind = Arc::clone(&behind);
            async move {
                let key = run.parts.headers[KEY].to_str().unwrap().to_owned();
                format!("behind the gateway: {}", behind.post("/orders", &key).await.text())
            }
        };
        let gateway = bench.serve(gateway, passes_on).await;
        let first = gateway.post("/orders", "k").await;
        first.is_first(200, "behind the gateway: run 2");
        gateway.post("/orders", "k").await.is_replay_of(&first);
        let direct = orders.post("/orders", "k").await;
        assert_eq!((direct.text(), direct.is_replay()), ("run 2", true));
        assert_eq!((bench.runs(), bench.records().await), (2, 2));
    }
}

#[tokio::test]
async fn the_host_is_part_of_the_key_only_where_that_is_switched_on() {
    for bench in both().await {
        let post = async |server: &Server, host: &str| {
            send(server.keyed("/orders", "k").header("host", host)).await
        };
        let server = bench.serve(bench.layer(), number).await;
        let first = post(&server, "a.example").await;
        post(&server, "b.example").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);

        let server = bench.serve(bench.layer().key_host(true), number).await;
        let one = post(&server, "a.example").await;
        one.is_first(200, "run 2");
        let two = post(&server, "b.example").await;
        two.is_first(200, "run 3");
        post(&server, "a.example:8080").await.is_first(200, "run 4");
        post(&server, "A.Example").await.is_replay_of(&one);
        post(&server, "b.example").await.is_replay_of(&two);
        let absolute = server
            .write(
                b"POST http://a.example/orders HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\
                  idempotency-key: k\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
        absolute.is_replay_of(&one);

        let server = bench.serve(bench.layer().key_host(true).key_host(false), number).await;
        post(&server, "b.example").await.is_replay_of(&first);
    }
}

/// Who a request is from, as found out by the authentication layer.
#[derive(Clone)]
struct Principal(String);

fn principal(parts: &Parts) -> Option<String> {
    parts.extensions.get::<Principal>().map(|principal| principal.0.clone())
}

/// What credentials stand for whom.
type Credentials = Arc<Mutex<HashMap<&'static str, &'static str>>>;

/// Lets through who has a good credential, or none at all.
async fn authenticate(known: Credentials, mut request: Request, next: Next) -> Response {
    if let Some(credential) = request.headers().get(AUTHORIZATION) {
        let credential = credential.to_str().unwrap_or_default();
        let Some(name) = known.lock().unwrap().get(credential).copied() else {
            return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
        };
        request.extensions_mut().insert(Principal(name.to_owned()));
    }
    next.run(request).await
}

/// Answers with whose secret it is.
async fn secret(run: Run) -> String {
    format!("secret of {}", principal(&run.parts).unwrap_or_default())
}

async fn serve_scoped(bench: &Bench, known: &Credentials) -> Server {
    let known = Arc::clone(known);
    let router = counted(&bench.ledger, secret)
        .layer(bench.layer().scope(principal))
        .layer(from_fn(move |request, next| authenticate(Arc::clone(&known), request, next)));
    serve(router).await
}

async fn post_as(server: &Server, credential: &str) -> Reply {
    send(server.keyed("/orders", "k").header(AUTHORIZATION, credential).body("same")).await
}

fn two_principals() -> Credentials {
    Arc::new(Mutex::new(HashMap::from([("ada's", "ada"), ("bob's", "bob"), ("nobody's", "")])))
}

#[tokio::test]
async fn nobody_sees_the_response_of_another_principal() {
    for bench in both().await {
        let server = serve_scoped(&bench, &two_principals()).await;
        let ada = post_as(&server, "ada's").await;
        ada.is_first(200, "secret of ada");
        let bob = post_as(&server, "bob's").await;
        bob.is_first(200, "secret of bob");
        post_as(&server, "ada's").await.is_replay_of(&ada);
        post_as(&server, "bob's").await.is_replay_of(&bob);
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn a_scope_that_panics_is_500_and_nothing_is_handled() {
    for bench in both().await {
        let layer = bench.layer().scope(|_| panic!("the scope panics, as it should"));
        let server = bench.serve(layer, number).await;
        let refused = server.post("/orders", "k").await;
        refused.is_problem(500, ProblemType::MISCONFIGURED.code());
        assert!(refused.text().contains("(it was not handled)"), "{refused:?}");
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}

#[tokio::test]
async fn a_scoped_layer_refuses_keyed_requests_of_nobody() {
    for bench in both().await {
        let server = serve_scoped(&bench, &two_principals()).await;
        let nobody = server.post_body("/orders", "k", "same").await;
        nobody.is_problem(403, problem::SCOPE_MISSING.code());
        let empty = post_as(&server, "nobody's").await;
        empty.is_problem(403, problem::SCOPE_MISSING.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}

#[tokio::test]
async fn a_credential_that_was_revoked_gets_no_replay() {
    for bench in both().await {
        let known = two_principals();
        let server = serve_scoped(&bench, &known).await;
        let first = post_as(&server, "ada's").await;
        known.lock().unwrap().remove("ada's");
        let revoked = post_as(&server, "ada's").await;
        revoked.is_first(401, "who are you?");
        known.lock().unwrap().insert("ada's", "ada");
        post_as(&server, "ada's").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

/// Looks the principal of a credential up, as in a database.
async fn look_up(credential: Option<String>) -> Result<Option<String>, std::io::Error> {
    tokio::task::yield_now().await;
    match credential.as_deref() {
        Some("fails") => Err(std::io::Error::other("the database is down")),
        Some("panics") => panic!("the lookup panics, as it should"),
        Some(credential) => Ok(credential.strip_suffix("'s").map(str::to_owned)),
        None => Ok(None),
    }
}

fn looked_up(layer: IdempotencyLayer) -> IdempotencyLayer {
    layer.scope_async(|parts| {
        let credential = parts.headers.get(AUTHORIZATION).map(|it| it.to_str().unwrap().to_owned());
        assert_ne!(credential.as_deref(), Some("panics at once"), "as it should");
        look_up(credential)
    })
}

#[tokio::test]
async fn a_scope_that_is_looked_up_keeps_principals_apart() {
    for bench in both().await {
        let server = bench.serve(looked_up(bench.layer()), number).await;
        let ada = post_as(&server, "ada's").await;
        ada.is_first(200, "run 1");
        let bob = post_as(&server, "bob's").await;
        bob.is_first(200, "run 2");
        post_as(&server, "ada's").await.is_replay_of(&ada);
        post_as(&server, "bob's").await.is_replay_of(&bob);
        for nobody in ["nobody", "'s"] {
            post_as(&server, nobody).await.is_problem(403, problem::SCOPE_MISSING.code());
        }
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn a_scope_that_cannot_be_looked_up_is_refused_and_nothing_is_handled() {
    for bench in both().await {
        for layer in [bench.layer(), bench.layer().ambient_only()] {
            let server = bench.serve(looked_up(layer), number).await;
            let failed = post_as(&server, "fails").await;
            failed.is_problem(503, problem::SCOPE_UNAVAILABLE.code());
            assert_eq!(failed.retry_after(), 1);
            assert!(!failed.text().contains("database"), "{failed:?}");
            for panics in ["panics", "panics at once"] {
                post_as(&server, panics).await.is_problem(500, ProblemType::MISCONFIGURED.code());
            }
            // A function further in has keys of its own, which must not leave their scope.
            let unkeyed = server.request(Method::POST, "/orders").header(AUTHORIZATION, "fails");
            send(unkeyed).await.is_problem(503, problem::SCOPE_UNAVAILABLE.code());
        }
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}
