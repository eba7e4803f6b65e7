//! gRPC behind the layer: tonic's own server and client.

use crate::bench::{Bench, both};
use crate::server::Run;
use bytes::{Buf as _, BufMut as _, Bytes};
use http::{HeaderMap, StatusCode};
use http_body_util::channel::Channel as Pieces;
use idempotent_http::{IdempotencyLayer, problem};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::testing::Ledger;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::{Server, TcpIncoming};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// The request whose handler panics.
const PANIC: u8 = 99;

/// Takes orders, or says why not: its requests are the codes of what it answers.
#[derive(Clone)]
struct Orders {
    ledger: Ledger,
}

impl NamedService for Orders {
    const NAME: &'static str = "shop.Orders";
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl tower::Service<http::Request<tonic::body::Body>> for Orders {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let ledger = self.ledger.clone();
        let create = tower::service_fn(move |request: Request<Bytes>| {
            let run = ledger.record("create");
            async move {
                match request.get_ref()[0] {
                    PANIC => panic!("the handler panics, as it should"),
                    0 => Ok(Response::new(Bytes::from(format!("order {run}")))),
                    code => Err(Status::new(Code::from(i32::from(code)), format!("run {run}"))),
                }
            }
        });
        Box::pin(async move { Ok(Grpc::new(Plain).unary(create, request).await) })
    }
}

struct Shop {
    orders: tonic::client::Grpc<Channel>,
    server: JoinHandle<()>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shop {
    async fn open(bench: &Bench, layer: IdempotencyLayer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let orders = Orders { ledger: bench.ledger.clone() };
        let server = Server::builder().layer(layer).add_service(orders);
        let server = server.serve_with_incoming(TcpIncoming::from(listener));
        let server = tokio::spawn(async move { server.await.unwrap() });
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        Self { orders: tonic::client::Grpc::new(channel), server }
    }

    /// Asks for an answer of this code.
    async fn create(&self, key: &str, code: Code) -> Result<Response<Bytes>, Status> {
        self.send(key, code as u8).await
    }

    async fn send(&self, key: &str, message: u8) -> Result<Response<Bytes>, Status> {
        let mut request = Request::new(Bytes::from(vec![message]));
        request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
        let path = http::uri::PathAndQuery::from_static("/shop.Orders/Create");
        let mut orders = self.orders.clone();
        orders.ready().await.unwrap();
        orders.unary(request, path, Plain).await
    }
}

#[tokio::test]
async fn a_unary_call_is_replayed_with_its_status() {
    for bench in both().await {
        let shop = Shop::open(&bench, bench.layer()).await;
        let first = shop.create("k", Code::Ok).await.unwrap();
        assert_eq!(first.get_ref(), "order 1");
        assert!(first.metadata().get("idempotent-replayed").is_none());
        assert!(first.metadata().get("idempotent-stored").is_none());
        let again = shop.create("k", Code::Ok).await.unwrap();
        assert_eq!(again.get_ref(), "order 1");
        assert_eq!(again.metadata().get("idempotent-replayed").unwrap(), "true");
        assert_eq!(again.metadata().get("grpc-status"), first.metadata().get("grpc-status"));
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn an_outcome_that_a_repeat_would_get_as_well_is_replayed() {
    for bench in both().await {
        let shop = Shop::open(&bench, bench.layer()).await;
        for code in [Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition] {
            let run = bench.runs() + 1;
            let key = format!("{code:?}");
            for _ in 0..2 {
                let status = shop.create(&key, code).await.unwrap_err();
                assert_eq!((status.code(), status.message()), (code, &*format!("run {run}")));
            }
            assert_eq!(bench.runs(), run);
        }
    }
}

#[tokio::test]
async fn an_outcome_that_passes_frees_the_key() {
    for bench in both().await {
        let shop = Shop::open(&bench, bench.layer()).await;
        for code in [Code::Unavailable, Code::ResourceExhausted, Code::Aborted, Code::Internal] {
            let key = format!("{code:?}");
            for _ in 0..2 {
                let run = bench.runs() + 1;
                let status = shop.create(&key, code).await.unwrap_err();
                assert_eq!((status.code(), status.message()), (code, &*format!("run {run}")));
            }
        }
        assert_eq!(bench.runs(), 8);
    }
}

#[tokio::test]
async fn the_outcomes_that_are_stored_can_be_chosen() {
    for bench in both().await {
        let layer = bench.layer().store_statuses(|status| status == StatusCode::NOT_FOUND);
        let shop = Shop::open(&bench, layer).await;
        for _ in 0..2 {
            let status = shop.create("k", Code::NotFound).await.unwrap_err();
            assert_eq!(status.message(), "run 1");
        }
        for run in [2, 3] {
            let order = shop.create("other", Code::Ok).await.unwrap();
            assert_eq!(order.get_ref(), &format!("order {run}"));
        }
    }
}

/// The outcome of a call comes last, if the call has sent anything before.
#[tokio::test]
async fn an_outcome_in_the_trailers_counts() {
    // The last one ends without any.
    for (outcome, is_stored) in [(Some("5"), true), (Some("14"), false), (None, false)] {
        for bench in both().await {
            let answer = move |run: Run| async move {
                let (mut sender, body) = Pieces::<Bytes, Infallible>::new(2);
                sender.send_data(format!("run {}", run.number).into()).await.unwrap();
                if let Some(outcome) = outcome {
                    let outcome = ("grpc-status".parse().unwrap(), outcome.parse().unwrap());
                    sender.send_trailers(HeaderMap::from_iter([outcome])).await.unwrap();
                }
                ([("content-type", "application/grpc")], axum::body::Body::new(body))
            };
            let server = bench.serve(bench.layer(), answer).await;
            let first = server.post("/orders", "k").await;
            first.is_first(200, "run 1");
            let again = server.post("/orders", "k").await;
            match is_stored {
                true => again.is_replay_of(&first),
                false => again.is_first(200, "run 2"),
            }
        }
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_frees_the_key() {
    for bench in both().await {
        let shop = Shop::open(&bench, bench.layer()).await;
        for _ in 0..2 {
            let failed = shop.send("k", PANIC).await.unwrap_err();
            assert_eq!(failed.code(), Code::Internal, "{failed:?}");
            let problem = failed.metadata().get("idempotency-problem").unwrap();
            assert_eq!(problem, problem::HANDLER_FAILED.code());
        }
        assert_eq!(bench.runs(), 2);
    }
}

#[track_caller]
fn is_refusal(answer: Result<Response<Bytes>, Status>, code: Code, problem: ProblemType) {
    let refusal = answer.unwrap_err();
    assert_eq!(refusal.code(), code, "{refusal:?}");
    assert_eq!(refusal.metadata().get("idempotency-problem").unwrap(), problem.code());
    assert!(refusal.message().starts_with(problem.code()), "{refusal:?}");
    assert!(refusal.message().contains("(it was not handled"), "{refusal:?}");
}

#[tokio::test]
async fn a_refusal_is_a_status_that_a_grpc_client_understands() {
    for bench in both().await {
        let shop = Shop::open(&bench, bench.layer()).await;
        shop.create("k", Code::Ok).await.unwrap();
        let mismatch = shop.create("k", Code::NotFound).await;
        is_refusal(mismatch, Code::FailedPrecondition, ProblemType::PAYLOAD_MISMATCH);
        let invalid = shop.create("k, k", Code::Ok).await;
        is_refusal(invalid, Code::InvalidArgument, ProblemType::INVALID_KEY);

        let small = bench.layer().max_response_bytes(4);
        let small = Shop::open(&bench, small).await;
        let first = small.create("large", Code::Ok).await.unwrap();
        assert_eq!(first.metadata().get("idempotent-stored").unwrap(), "false");
        let again = small.create("large", Code::Ok).await;
        is_refusal(again, Code::AlreadyExists, ProblemType::RESULT_NOT_RETAINED);
        assert_eq!(bench.runs(), 2);
    }
}

/// A call that fails before it has a message to send has its status in the head, on the web too.
#[tokio::test]
async fn the_status_of_a_call_from_a_browser_decides_if_it_is_in_the_head() {
    for (status, is_stored) in [("5", true), ("14", false)] {
        for bench in both().await {
            let answer = async move |run: Run| {
                let kind = ("content-type", "application/grpc-web+proto");
                let number = if run.number == 1 { "1" } else { "2" };
                [kind, ("grpc-status", status), ("x-run", number)]
            };
            let server = bench.serve(bench.layer(), answer).await;
            let first = server.post("/orders", "k").await;
            let again = server.post("/orders", "k").await;
            assert_eq!(again.is_replay(), is_stored, "{status}");
            let runs = if is_stored { "1" } else { "2" };
            assert_eq!((first.header("x-run"), again.header("x-run")), (Some("1"), Some(runs)));
        }
    }
}
