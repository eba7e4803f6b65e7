//! The layer together with others, and on servers other than axum's.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::server::{Gate, Run, Server, counted, held, number, serve};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use idempotent_http::{FormTokens, RequestBody, problem};
use idempotent_runtime::testing::Ledger;
use std::any::Any;
use std::convert::Infallible;
use std::time::Duration;
use support::{until, until_async};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceBuilder, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

const LONG: Duration = Duration::from_secs(3600);
const TEXT: &str = "a text that is long enough to be worth compressing";

/// A request is handled once, and its repeat is a replay.
async fn handles_once(bench: &Bench, server: &Server) {
    let before = bench.runs();
    let first = server.post_body("/orders", "k", "lamp").await;
    first.is_first(200, &format!("run {}", before + 1));
    server.post_body("/orders", "k", "lamp").await.is_replay_of(&first);
    assert_eq!(bench.runs(), before + 1);
}

#[tokio::test]
async fn one_builder_holds_the_layer_and_those_of_tower_http() {
    for bench in both().await {
        let layers = ServiceBuilder::new()
            .layer(TraceLayer::new_for_http())
            .layer(CorsLayer::permissive())
            .layer(CompressionLayer::new())
            .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG))
            .layer(bench.layer())
            .layer(TraceLayer::new_for_http())
            .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, LONG))
            .layer(CorsLayer::permissive())
            .layer(CatchPanicLayer::new());
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        handles_once(&bench, &server).await;
    }
}

#[tokio::test]
async fn cors_outside_marks_replays_too() {
    for bench in both().await {
        let layers = ServiceBuilder::new().layer(CorsLayer::permissive()).layer(bench.layer());
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        handles_once(&bench, &server).await;
        let post = server.keyed("/orders", "k").header("origin", "https://shop.test").body("lamp");
        let replay = send(post).await;
        assert!(replay.is_replay());
        assert_eq!(replay.header("access-control-allow-origin"), Some("*"));
        let preflight = server.request(Method::OPTIONS, "/orders");
        let preflight = preflight.header("access-control-request-method", "POST");
        assert_eq!(send(preflight.header("origin", "https://shop.test")).await.status, 200);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_timeout_outside_answers_its_client_and_the_handler_runs_to_its_end() {
    for bench in both().await {
        let gate = Gate::shut();
        let timeout =
            TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(10));
        let layers = ServiceBuilder::new().layer(timeout).layer(bench.layer());
        let server = serve(counted(&bench.ledger, held(&gate)).layer(layers)).await;
        // One that does not even begin in time is sent again, and may find the one before under way.
        until_async(|| async {
            let reply = server.post("/orders", "k").await;
            assert!(reply.status == 504 || reply.status == 409, "{reply:?}");
            bench.runs() == 1
        })
        .await;
        gate.admit(1);
        until(|| bench.idem.in_flight() == 0).await;
        let patient = bench.serve(bench.layer(), number).await;
        let replay = patient.post("/orders", "k").await;
        assert!(replay.is_replay() && replay.text() == "run 1", "{replay:?}");
    }
}

#[tokio::test]
async fn a_timeout_inside_frees_the_key() {
    for bench in both().await {
        let gate = Gate::shut();
        let timeout =
            TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(10));
        let layers = ServiceBuilder::new().layer(bench.layer()).layer(timeout);
        let server = serve(counted(&bench.ledger, held(&gate)).layer(layers)).await;
        server.post("/orders", "k").await.is_first(408, "");
        server.post("/orders", "k").await.is_first(408, "");
        assert_eq!(bench.runs(), 2);
    }
}

async fn text(_: Run) -> &'static str {
    TEXT
}

#[tokio::test]
async fn compression_outside_follows_each_client() {
    for bench in both().await {
        let layers = ServiceBuilder::new().layer(CompressionLayer::new()).layer(bench.layer());
        let server = serve(counted(&bench.ledger, text).layer(layers)).await;
        let first = send(server.keyed("/orders", "k").header("accept-encoding", "gzip")).await;
        assert_eq!(first.header("content-encoding"), Some("gzip"));
        let plain = server.post("/orders", "k").await;
        assert!(plain.is_replay() && plain.text() == TEXT, "{plain:?}");
        let again = send(server.keyed("/orders", "k").header("accept-encoding", "gzip")).await;
        again.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

/// A compressed body does not know its length; it does not pause either.
#[tokio::test]
async fn compression_inside_is_part_of_what_is_stored() {
    for bench in both().await {
        let layers = ServiceBuilder::new().layer(bench.layer()).layer(CompressionLayer::new());
        let server = serve(counted(&bench.ledger, text).layer(layers)).await;
        let first = send(server.keyed("/orders", "k").header("accept-encoding", "gzip")).await;
        assert_eq!(first.header("content-encoding"), Some("gzip"));
        assert_eq!(first.header("idempotent-stored"), None);
        let again = server.post("/orders", "k").await;
        again.is_replay_of(&first);
        assert_eq!(again.header("content-encoding"), Some("gzip"));
    }
}

const HEAD: &str =
    "POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: k\r\n";
const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n";

#[tokio::test]
async fn a_limit_outside_is_413_whether_or_not_the_length_is_announced() {
    for bench in both().await {
        let layers =
            ServiceBuilder::new().layer(RequestBodyLimitLayer::new(8)).layer(bench.layer());
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        // By the limit itself.
        assert_eq!(server.post_body("/orders", "k", "123456789").await.status, 413);
        let refused = server.write(format!("{HEAD}{CHUNKED}").as_bytes()).await;
        refused.is_problem(413, problem::BODY_TOO_LARGE.code());
        assert!(refused.text().contains("(it was not handled)"), "{refused:?}");
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        handles_once(&bench, &server).await;
    }
}

#[tokio::test]
async fn a_limit_inside_gets_what_was_read() {
    for bench in both().await {
        let layers =
            ServiceBuilder::new().layer(bench.layer()).layer(RequestBodyLimitLayer::new(8));
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        handles_once(&bench, &server).await;
        // The handler cannot read a body that is longer than the limit.
        let other = format!("{HEAD}{CHUNKED}").replace("key: k", "key: other");
        assert_eq!(server.write(other.as_bytes()).await.status, 400);
    }
}

/// "one lamp", compressed.
const GZIP: [u8; 28] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 207, 75, 85, 200, 73, 204, 45, 0, 0, 81, 102, 43, 150, 8,
    0, 0, 0,
];

/// A body that is no gzip, and one that is until it is.
fn damaged() -> [Vec<u8>; 2] {
    let mut damaged = GZIP.to_vec();
    damaged[12] ^= 0xff;
    [b"this is no gzip at all".to_vec(), damaged]
}

async fn echo(run: Run) -> Vec<u8> {
    run.body.to_vec()
}

#[tokio::test]
async fn a_body_that_cannot_be_decoded_is_refused_for_good() {
    for bench in both().await {
        let layers =
            ServiceBuilder::new().layer(RequestDecompressionLayer::new()).layer(bench.layer());
        let server = serve(counted(&bench.ledger, echo).layer(layers)).await;
        let post = async |body: Vec<u8>| {
            send(server.keyed("/orders", "k").header("content-encoding", "gzip").body(body)).await
        };
        for body in damaged() {
            let refused = post(body).await;
            refused.is_problem(400, problem::BODY_UNDECODABLE.code());
            assert!(refused.text().contains("(it was not handled)"), "{refused:?}");
        }
        // It ends early, as one does whose connection ends.
        let cut = post(GZIP[..20].to_vec()).await;
        cut.is_problem(400, problem::BODY_INCOMPLETE.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        let first = post(GZIP.to_vec()).await;
        first.is_first(200, "one lamp");
        // What was decoded counts, not how it came.
        server.post_body("/orders", "k", "one lamp").await.is_replay_of(&first);
    }
}

#[tokio::test]
async fn forms_tell_the_errors_of_their_bodies_apart() {
    for bench in both().await {
        let tokens = FormTokens::new(&bench.idem, "order");
        let layers = ServiceBuilder::new()
            .layer(RequestDecompressionLayer::new())
            .layer(RequestBodyLimitLayer::new(25))
            .layer(tokens.clone());
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        let token = tokens.issue(None).await.unwrap();
        let head = HEAD.replace("idempotency-key: k", &format!("form-token: {token}"));
        let long = format!("1a\r\n{}\r\n0\r\n\r\n", "x".repeat(26));
        let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{long}");
        let refused = server.write(chunked.as_bytes()).await;
        refused.is_problem(413, problem::BODY_TOO_LARGE.code());
        let post = async |body: Vec<u8>| {
            let request = server.request(Method::POST, "/orders").header("form-token", &token);
            send(request.header("content-encoding", "gzip").body(body)).await
        };
        for body in damaged() {
            post(body).await.is_problem(400, problem::BODY_UNDECODABLE.code());
        }
        post(GZIP[..20].to_vec()).await.is_problem(400, problem::BODY_INCOMPLETE.code());
        assert_eq!(bench.runs(), 0);
        // The token is as good as it was.
        assert_eq!(post(GZIP.to_vec()).await.text(), "run 1");
    }
}

async fn panics_first(run: Run) -> String {
    assert_ne!(run.number, 1, "the handler panics, as it should");
    number(run).await
}

fn custom(_: Box<dyn Any + Send>) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "custom").into_response()
}

#[tokio::test]
async fn catch_panic_inside_answers_a_panic_and_the_key_is_free() {
    for bench in both().await {
        let catch = CatchPanicLayer::custom(custom);
        let layers = ServiceBuilder::new().layer(bench.layer()).layer(catch);
        let server = serve(counted(&bench.ledger, panics_first).layer(layers)).await;
        server.post("/orders", "k").await.is_first(500, "custom");
        server.post("/orders", "k").await.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn catch_panic_outside_sees_no_panic() {
    for bench in both().await {
        let catch = CatchPanicLayer::custom(custom);
        let layers = ServiceBuilder::new().layer(catch).layer(bench.layer());
        let server = serve(counted(&bench.ledger, panics_first).layer(layers)).await;
        let failed = server.post("/orders", "k").await;
        failed.is_problem(500, problem::HANDLER_FAILED.code());
        server.post("/orders", "k").await.is_first(200, "run 2");
        // A request without a key is not run by the layer.
        let unkeyed = counted(&Ledger::new(), panics_first);
        let catch = CatchPanicLayer::custom(custom);
        let layers = ServiceBuilder::new().layer(catch).layer(bench.layer());
        let server = serve(unkeyed.layer(layers)).await;
        send(server.request(Method::POST, "/orders")).await.is_first(500, "custom");
    }
}

/// A middleware that takes axum's body only.
async fn of_axum(request: Request, next: Next) -> Response {
    next.run(request).await
}

#[tokio::test]
async fn a_service_that_takes_one_type_of_body_only_is_adapted() {
    for bench in both().await {
        let layers = ServiceBuilder::new()
            .layer(bench.layer())
            .layer(MapRequestBodyLayer::new(Body::new))
            .layer(from_fn(of_axum));
        let server = serve(counted(&bench.ledger, number).layer(layers)).await;
        handles_once(&bench, &server).await;
        // Added one by one, layers of a router need no adapter.
        let router = counted(&bench.ledger, number).layer(from_fn(of_axum));
        let server = serve(router.layer(bench.layer().name("again"))).await;
        handles_once(&bench, &server).await;
    }
}

#[tokio::test]
async fn a_layer_that_is_off_leaves_everything_alone() {
    for bench in both().await {
        let off = bench.layer().require_key().scope(|_| None).max_request_bytes(1).enabled(false);
        let server = bench.serve(off.clone(), echo).await;
        for _ in 0..2 {
            server.post_body("/orders", "not \"a\" key", "lamp").await.is_first(200, "lamp");
            let unkeyed = server.request(Method::POST, "/orders").body("lamp");
            send(unkeyed).await.is_first(200, "lamp");
        }
        assert_eq!((bench.runs(), bench.records().await), (4, 0));
        // Another one further in guards what this one leaves alone.
        let router = counted(&bench.ledger, number).layer(bench.layer()).layer(off.clone());
        handles_once(&bench, &serve(router).await).await;
        let on = bench.serve(off.enabled(true), number).await;
        assert_eq!(on.post("/orders", "l").await.status, 403);
    }
}

/// Answers with the request's body and its trailers.
async fn with_trailers<B>(
    ledger: Ledger,
    request: http::Request<B>,
) -> Result<http::Response<Full<Bytes>>, Infallible>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    ledger.record(request.uri().path());
    let body = request.into_body().collect().await.unwrap();
    let none = HeaderMap::new();
    let checksum = body.trailers().unwrap_or(&none).get("x-checksum");
    let checksum = checksum.map_or("none", |value| value.to_str().unwrap()).to_owned();
    let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    Ok(http::Response::new(Full::from(format!("{body}, checksum {checksum}"))))
}

/// Serves a service on hyper's own bodies, without axum.
async fn on_hyper(bench: &Bench) -> Server {
    let ledger = bench.ledger.clone();
    let inner = service_fn(move |request: http::Request<RequestBody<Incoming>>| {
        with_trailers(ledger.clone(), request)
    });
    let service = bench.layer().layer(inner);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    Server::around(listener, move |connection| {
        let service = TowerToHyperService::new(service.clone());
        let connection = TokioIo::new(connection);
        tokio::spawn(async move {
            let builder = hyper::server::conn::http1::Builder::new();
            drop(builder.serve_connection(connection, service).await);
        });
    })
}

#[tokio::test]
async fn a_hyper_service_takes_the_layer_with_hypers_own_bodies() {
    for bench in both().await {
        let server = on_hyper(&bench).await;
        let first = server.post_body("/orders", "k", "lamp").await;
        first.is_first(200, "lamp, checksum none");
        server.post_body("/orders", "k", "lamp").await.is_replay_of(&first);
        let unkeyed = send(server.request(Method::POST, "/orders").body("chair")).await;
        unkeyed.is_first(200, "chair, checksum none");
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn trailers_of_a_request_reach_the_handler() {
    for bench in both().await {
        let server = on_hyper(&bench).await;
        let post = async |head: &str| -> Reply {
            let chunked = "trailer: x-checksum\r\ntransfer-encoding: chunked\r\n\r\n4\r\nlamp\r\n0\r\nx-checksum: abc\r\n\r\n";
            server.write(format!("{head}{chunked}").as_bytes()).await
        };
        let first = post(HEAD).await;
        first.is_first(200, "lamp, checksum abc");
        post(HEAD).await.is_replay_of(&first);
        let unkeyed = HEAD.replace("idempotency-key: k\r\n", "");
        post(&unkeyed).await.is_first(200, "lamp, checksum abc");
    }
}

/// A router is a service like any other.
#[tokio::test]
async fn a_layer_around_a_whole_router_guards_it() {
    for bench in both().await {
        let inner = counted(&bench.ledger, number);
        let outer = Router::new().fallback_service(bench.layer().layer(inner));
        handles_once(&bench, &serve(outer).await).await;
    }
}
