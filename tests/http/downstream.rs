//! Keys that a handler sends to another service.

use crate::bench::{Bench, both};
use crate::client::KEY;
use crate::script::{Script, status};
use crate::server::{Run, Server};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, Method, Request, StatusCode};
use idempotent_http::client::{RequestBuilderExt as _, Retry};
use idempotent_http::downstream::{DerivedKeyLayer, KeyName};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, current, idempotent};
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower_layer::Layer as _;
use tower_service::Service;

/// The service that handlers send their requests to: it hears keys, and is content.
async fn provider() -> Script {
    Script::new(|_| status(200)).await
}

/// Handles orders by requests to `provider`. The first run of a path fails when it has sent them.
async fn shop(bench: &Bench, provider: &Script) -> Server {
    let (client, url) = (provider.server.client.clone(), provider.server.url("/"));
    let layered = DerivedKeyLayer::new("payments").layer(client.clone());
    let answer = move |run: Run| {
        let (client, mut layered, url) = (client.clone(), layered.clone(), url.clone());
        async move {
            for name in ["stripe.charge", "ship"] {
                client.post(&url).derived_key(name).send().await.unwrap();
            }
            layered.call(client.post(&url).build().unwrap()).await.unwrap();
            let is_first = current().unwrap().attempt() == 1;
            let failed = is_first && run.parts.uri.path() == "/orders";
            if failed { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED }
        }
    };
    bench.serve(bench.layer(), answer).await
}

fn heard(provider: &Script) -> Vec<String> {
    provider.keys().into_iter().map(|key| key.expect("every request has a key")).collect()
}

#[tokio::test]
async fn two_attempts_of_one_key_send_the_same_keys_downstream() {
    for bench in both().await {
        let provider = provider().await;
        let server = shop(&bench, &provider).await;
        assert_eq!(server.post("/orders", "k").await.status, StatusCode::BAD_GATEWAY);
        assert_eq!(server.post("/orders", "k").await.status, StatusCode::CREATED);
        // This one is a replay: nothing is sent.
        assert!(server.post("/orders", "k").await.is_replay());
        let keys = heard(&provider);
        assert_eq!((keys.len(), bench.runs()), (6, 2));
        assert_eq!(keys[..3], keys[3..]);
        let names: HashSet<_> = keys[..3].iter().collect();
        assert_eq!(names.len(), 3, "other names, other keys: {keys:?}");
        assert!(keys.iter().all(|key| !key.contains('k')), "the client's key is not sent on");
    }
}

#[tokio::test]
async fn other_keys_and_paths_send_other_keys_downstream() {
    for bench in both().await {
        let provider = provider().await;
        let server = shop(&bench, &provider).await;
        for (path, key) in [("/refunds", "k"), ("/refunds", "l"), ("/returns", "k")] {
            assert_eq!(server.post(path, key).await.status, StatusCode::CREATED);
        }
        let keys: HashSet<_> = heard(&provider).into_iter().collect();
        assert_eq!(keys.len(), 9);
    }
}

#[idempotent(key = "order", mode = "strong", name = "http-downstream.pay")]
async fn pay(order: u64, provider: &Script, key: Option<&str>) -> Result<u16, Error> {
    let mut request = provider.post();
    if let Some(key) = key {
        request = request.header(KEY, key);
    }
    let sent = Retry::new().send(request.derived_key("stripe.charge")).await.unwrap();
    Ok(sent.status().as_u16())
}

#[tokio::test]
async fn an_attributed_function_sends_its_derived_key_also_with_retries() {
    for bench in both().await {
        let provider = Script::new(|request| status(if request == 0 { 503 } else { 200 })).await;
        scoped(bench.idem.clone(), pay(1, &provider, None)).await.unwrap();
        let keys = heard(&provider);
        assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
        assert_eq!(keys[0].len(), 32, "{keys:?}");
    }
}

#[tokio::test]
async fn a_key_that_the_caller_set_is_kept() {
    let bench = Bench::memory(idempotent_runtime::Config::new());
    let provider = provider().await;
    scoped(bench.idem.clone(), pay(1, &provider, Some("mine"))).await.unwrap();
    assert_eq!(heard(&provider), ["mine"]);
    let lines = bench.idem.operation("o").key("k").run(async {
        let request = provider.post().header(KEY, "mine").derived_key("stripe.charge");
        Ok::<_, Error>(request.build().unwrap().headers().get_all(KEY).iter().count())
    });
    assert_eq!(lines.await.unwrap(), 1);
}

#[tokio::test]
async fn outside_of_an_attempt_nothing_is_added() {
    let provider = provider().await;
    provider.post().derived_key("stripe.charge").send().await.unwrap();
    let client = provider.server.client.clone();
    let mut layered = DerivedKeyLayer::new("payments").layer(client.clone());
    layered.call(client.post(provider.server.url("/")).build().unwrap()).await.unwrap();
    assert_eq!(provider.keys(), [None, None]);
}

#[tokio::test]
async fn a_request_that_could_not_be_built_still_says_why() {
    let bench = Bench::memory(idempotent_runtime::Config::new());
    let client = reqwest::Client::new();
    let broken = || client.post("http://localhost/").header("a\nb", "c");
    let before = broken().build().unwrap_err().to_string();
    let after =
        bench.idem.operation("o").key("k").run(async {
            Ok::<_, Error>(broken().derived_key("n").build().unwrap_err().to_string())
        });
    assert_eq!(after.await.unwrap(), before);
}

/// A client that answers with the headers of its request.
#[derive(Clone)]
struct Echo;

impl Service<Request<()>> for Echo {
    type Response = Request<()>;
    type Error = Infallible;
    type Future = Ready<Result<Request<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        ready(Ok(request))
    }
}

fn key_of(request: &Request<()>, header: &str) -> Option<String> {
    request.headers().get(header).map(|key| key.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_layer_names_keys_by_method_and_path_or_as_the_request_says() {
    let bench = Bench::memory(idempotent_runtime::Config::new());
    let layer = DerivedKeyLayer::new("payments");
    let (mut client, mut other) = (layer.layer(Echo), DerivedKeyLayer::new("mail").layer(Echo));
    let custom = HeaderName::from_static("request-token");
    let mut custom = layer.header(custom).layer(Echo);
    let request = |method: Method, uri: &str| Request::builder().method(method).uri(uri);
    let body = async {
        let mut sent = async |builder: http::request::Builder| {
            client.call(builder.body(()).unwrap()).await.unwrap()
        };
        let charges = "https://pay.example.com/v1/charges";
        let post = request(Method::POST, charges);
        let plain = sent(post).await;
        let debug = format!("{plain:?}");
        let plain = key_of(&plain, KEY).unwrap();
        assert!(!debug.contains(&plain), "{debug}");
        // A query may hold what differs from time to time.
        let again = sent(request(Method::POST, &format!("{charges}?trace=7"))).await;
        assert_eq!(key_of(&again, KEY).as_ref(), Some(&plain));
        let mut distinct = HashSet::from([plain]);
        let named = request(Method::POST, charges).extension(KeyName::new("stripe.charge"));
        let named = key_of(&sent(named).await, KEY).unwrap();
        assert_eq!(named, current().unwrap().derived_key("stripe.charge"));
        distinct.insert(named);
        distinct.extend(key_of(&sent(request(Method::PUT, charges)).await, KEY));
        distinct.extend(key_of(&sent(request(Method::POST, "/v1/refunds")).await, KEY));
        let elsewhere = other.call(request(Method::POST, charges).body(()).unwrap()).await.unwrap();
        distinct.extend(key_of(&elsewhere, KEY));
        assert_eq!(distinct.len(), 5, "{distinct:?}");
        // Left alone.
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(key_of(&sent(request(method, charges)).await, KEY), None);
        }
        let mine = sent(request(Method::POST, charges).header(KEY, "mine")).await;
        assert_eq!(key_of(&mine, KEY).as_deref(), Some("mine"));
        let token = custom.call(request(Method::POST, charges).body(()).unwrap()).await.unwrap();
        assert_eq!(key_of(&token, KEY), None);
        Ok::<_, Error>(distinct.contains(&key_of(&token, "request-token").unwrap()))
    };
    assert!(bench.idem.operation("o").key("k").run(body).await.unwrap());
}

#[tokio::test]
async fn a_layer_that_guards_the_provider_handles_a_repeated_request_once() {
    for bench in both().await {
        let ledger = &bench.ledger;
        let answer = async |run: Run| -> Response { format!("run {}", run.number).into_response() };
        let provider = bench.serve(bench.layer().name("provider").require_key(), answer).await;
        let url = provider.url("/charges");
        let client = provider.client.clone();
        let charge = async |fails: bool| {
            let body = async {
                let sent = client.post(&url).body("amount=5").derived_key("stripe.charge").send();
                let text = sent.await.unwrap().text().await.unwrap();
                if fails { Err(text) } else { Ok(text) }
            };
            let order = bench.idem.operation("order").key("42");
            order.run(async { Ok::<_, Error>(body.await) }).await.unwrap()
        };
        // The answer of the first was lost on the way back.
        assert_eq!(charge(true).await, Err("run 1".to_owned()));
        bench.idem.operation("order").key("42").forget(false).await.unwrap();
        assert_eq!(charge(false).await, Ok("run 1".to_owned()));
        assert_eq!(ledger.total(), 1);
    }
}
