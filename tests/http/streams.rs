//! Responses that do not announce their length: stored if they end in time, streamed if not.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::server::{Departures, Gate, Run, Server, counted, serve};
use crate::sizes::original_status;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body::{Frame, SizeHint};
use idempotent_http::{IdempotencyLayer, RequestBody};
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::State;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::until;
use tokio::task::JoinHandle;
use tower::{Layer as _, ServiceExt as _, service_fn};

const LONG: Duration = Duration::from_secs(3600);
/// The longest pause of a body that is stored, by default.
const PAUSE: Duration = Duration::from_millis(100);

/// A body whose pieces come when a test says so, seen from outside.
#[derive(Clone, Default)]
struct Pieces(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    ready: VecDeque<Bytes>,
    has_ended: bool,
    waker: Option<Waker>,
    is_dropped: bool,
}

impl Pieces {
    fn state(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    fn send(&self, piece: &'static str) {
        let mut state = self.state();
        state.ready.push_back(Bytes::from_static(piece.as_bytes()));
        state.waker.take().into_iter().for_each(Waker::wake);
    }

    fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.waker.take().into_iter().for_each(Waker::wake);
    }

    /// `true` if its reader has all that was sent, and waits for more.
    fn is_awaited(&self) -> bool {
        let state = self.state();
        state.ready.is_empty() && state.waker.is_some()
    }

    fn is_dropped(&self) -> bool {
        self.state().is_dropped
    }

    fn body(&self, announced: Option<u64>) -> Body {
        Body::new(Scripted { pieces: self.clone(), announced })
    }
}

struct Scripted {
    pieces: Pieces,
    announced: Option<u64>,
}

impl http_body::Body for Scripted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut state = self.pieces.state();
        match state.ready.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None if state.has_ended => Poll::Ready(None),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.pieces.state().is_dropped = true;
    }
}

/// The announcements of a handler about its body.
#[derive(Clone, Default)]
struct Said {
    /// By the body itself.
    length: Option<u64>,
    header: Option<(HeaderName, HeaderValue)>,
}

fn said(name: &'static str, value: &'static str) -> Said {
    let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
    Said { length: None, header: Some(header) }
}

fn answers(
    pieces: &Pieces,
    said: Said,
) -> impl Fn(Run) -> std::future::Ready<Response> + Clone + Send + Sync + 'static {
    let pieces = pieces.clone();
    move |_| {
        let mut response = pieces.body(said.length).into_response();
        response.headers_mut().extend(said.header.clone());
        std::future::ready(response)
    }
}

/// Sends a request, and waits until its handler's body pauses.
async fn begin(server: &Server, pieces: &Pieces) -> JoinHandle<reqwest::Response> {
    let request = server.keyed("/orders", "k");
    let first = tokio::spawn(async { request.send().await.unwrap() });
    until(|| pieces.is_awaited()).await;
    first
}

/// The head of a response, while the clock of the memory store's callers moves on.
async fn head(bench: &Bench, first: JoinHandle<reqwest::Response>) -> reqwest::Response {
    until(|| {
        bench.tick(PAUSE);
        first.is_finished()
    })
    .await;
    let first = first.await.unwrap();
    assert_eq!(first.status(), 200);
    first
}

#[track_caller]
fn is_live(response: &reqwest::Response) {
    assert_eq!(response.headers()["idempotent-stored"], "false");
    assert!(!response.headers().contains_key("idempotent-replayed"));
}

async fn read(response: reqwest::Response) -> Reply {
    let (status, headers) = (response.status(), response.headers().clone());
    Reply { status, headers, body: response.bytes().await.unwrap() }
}

async fn not_retained(bench: &Bench, server: &Server) {
    assert_eq!(original_status(&server.post("/orders", "k").await), Some(200));
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_body_that_pauses_flows_and_is_not_retained() {
    let types = ["application/octet-stream", "application/grpc+proto"];
    let typed = types.map(|media_type| said("content-type", media_type));
    for said in typed.into_iter().chain([Said::default()]) {
        for bench in both().await {
            let pieces = Pieces::default();
            pieces.send("one");
            let server = bench.serve(bench.layer(), answers(&pieces, said.clone())).await;
            let mut live = head(&bench, begin(&server, &pieces).await).await;
            is_live(&live);
            assert_eq!(live.chunk().await.unwrap().unwrap(), "one");
            not_retained(&bench, &server).await;
            pieces.send("two");
            assert_eq!(live.chunk().await.unwrap().unwrap(), "two");
            pieces.end();
            assert_eq!(live.chunk().await.unwrap(), None);
            not_retained(&bench, &server).await;
        }
    }
}

/// Otherwise a client would not even get to know that its request was handled.
#[tokio::test]
async fn the_head_does_not_wait_for_a_first_piece_that_does_not_come() {
    for bench in both().await {
        let pieces = Pieces::default();
        let server = bench.serve(bench.layer(), answers(&pieces, Said::default())).await;
        let live = head(&bench, begin(&server, &pieces).await).await;
        is_live(&live);
        not_retained(&bench, &server).await;
        pieces.send("late");
        pieces.end();
        assert_eq!(read(live).await.text(), "late");
    }
}

/// Pieces come more often than the longest pause, and for ever.
#[tokio::test]
async fn a_body_of_small_pauses_flows_after_ten_of_the_longest() {
    let bench = Bench::memory(idempotent_runtime::Config::new());
    let pieces = Pieces::default();
    let server = bench.serve(bench.layer(), answers(&pieces, Said::default())).await;
    let first = begin(&server, &pieces).await;
    let small = PAUSE * 3 / 5;
    // Sixteen of them are less than ten of the longest.
    for _ in 0..16 {
        bench.tick(small);
        pieces.send("piece ");
        until(|| pieces.is_awaited()).await;
    }
    assert!(!first.is_finished());
    bench.tick(small);
    let live = first.await.unwrap();
    is_live(&live);
    pieces.end();
    assert_eq!(read(live).await.text(), "piece ".repeat(16));
    not_retained(&bench, &server).await;
}

#[tokio::test]
async fn a_body_that_ends_before_it_pauses_for_long_is_stored() {
    for bench in both().await {
        let pieces = Pieces::default();
        let layer = bench.layer().stream_after(LONG);
        let server = bench.serve(layer, answers(&pieces, Said::default())).await;
        let first = begin(&server, &pieces).await;
        for piece in ["one, ", "two, "] {
            pieces.send(piece);
            until(|| pieces.is_awaited()).await;
        }
        pieces.send("three");
        pieces.end();
        let first = read(first.await.unwrap()).await;
        first.is_first(200, "one, two, three");
        server.post("/orders", "k").await.is_replay_of(&first);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_body_that_announces_its_length_is_waited_for() {
    let by_itself = Said { length: Some(8), header: None };
    for said in [by_itself, said("content-length", "8")] {
        for bench in both().await {
            let pieces = Pieces::default();
            // Any pause is too long for others.
            let layer = bench.layer().stream_after(Duration::ZERO);
            let server = bench.serve(layer, answers(&pieces, said.clone())).await;
            let first = begin(&server, &pieces).await;
            pieces.send("one ");
            until(|| pieces.is_awaited()).await;
            bench.tick(LONG);
            assert!(!first.is_finished());
            pieces.send("lamp");
            pieces.end();
            let first = read(first.await.unwrap()).await;
            first.is_first(200, "one lamp");
            server.post("/orders", "k").await.is_replay_of(&first);
            assert_eq!(bench.runs(), 1);
        }
    }
}

#[tokio::test]
async fn where_no_pause_is_waited_for_only_what_is_there_is_stored() {
    for bench in both().await {
        let pieces = Pieces::default();
        let layer = bench.layer().stream_after(Duration::ZERO);
        let server = bench.serve(layer, answers(&pieces, Said::default())).await;
        pieces.send("all");
        pieces.end();
        let first = send(server.keyed("/orders", "k")).await;
        first.is_first(200, "all");
        server.post("/orders", "k").await.is_replay_of(&first);

        let pieces = Pieces::default();
        let layer = bench.layer().stream_after(Duration::ZERO);
        let server = bench.serve(layer, answers(&pieces, Said::default())).await;
        let live = server.keyed("/orders", "other").send().await.unwrap();
        is_live(&live);
    }
}

#[tokio::test]
async fn bodies_of_media_types_for_streams_flow_at_once() {
    let streams = [
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson; charset=utf-8",
        "application/jsonl",
        "application/json-seq",
        "application/stream+json",
        "application/grpc-web+proto",
        "multipart/x-mixed-replace; boundary=frame",
    ];
    for stream in streams {
        for bench in both().await {
            let pieces = Pieces::default();
            pieces.send("one");
            // No pause is too long.
            let layer = bench.layer().stream_after(LONG);
            let server = bench.serve(layer, answers(&pieces, said("content-type", stream))).await;
            let mut live = server.keyed("/orders", "k").send().await.unwrap();
            is_live(&live);
            assert_eq!(live.chunk().await.unwrap().unwrap(), "one", "{stream}");
            not_retained(&bench, &server).await;
        }
    }
}

#[tokio::test]
async fn a_whole_body_is_stored_whatever_its_media_type() {
    for bench in both().await {
        let whole = async |_: Run| ([("content-type", "application/x-ndjson")], "{}\n{}\n");
        let server = bench.serve(bench.layer(), whole).await;
        let first = server.post("/orders", "k").await;
        first.is_first(200, "{}\n{}\n");
        server.post("/orders", "k").await.is_replay_of(&first);
    }
}

const POST: &[u8] =
    b"POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";

/// A server, after a client has come and left while its response was gathered.
async fn left(bench: &Bench, layer: IdempotencyLayer, pieces: &Pieces) -> Server {
    let departures = Departures::default();
    let router = counted(&bench.ledger, answers(pieces, Said::default())).layer(layer);
    let server = serve(departures.watch(router)).await;
    let mut client = server.connect().await;
    client.write(POST).await;
    until(|| pieces.is_awaited()).await;
    drop(client);
    until(|| departures.count() == 1).await;
    server
}

#[tokio::test]
async fn a_stream_whose_client_has_gone_is_dropped_and_frees_nothing() {
    for bench in both().await {
        let pieces = Pieces::default();
        pieces.send("one");
        let server = left(&bench, bench.layer(), &pieces).await;
        until(|| {
            bench.tick(PAUSE);
            pieces.is_dropped() && bench.idem.in_flight() == 0
        })
        .await;
        let record = bench.record("/orders", "k").await.unwrap();
        assert_eq!(record.head.state, State::Succeeded);
        not_retained(&bench, &server).await;
    }
}

#[tokio::test]
async fn a_body_that_ends_in_time_is_stored_after_its_client_has_gone() {
    for bench in both().await {
        let pieces = Pieces::default();
        let server = left(&bench, bench.layer().stream_after(LONG), &pieces).await;
        pieces.send("all");
        pieces.end();
        until(|| bench.idem.in_flight() == 0).await;
        let replay = server.post("/orders", "k").await;
        assert!(replay.is_replay() && replay.text() == "all", "{replay:?}");
        assert_eq!(bench.runs(), 1);
    }
}

/// A repeat that waits for a response gets to know that it flows to somebody else.
#[tokio::test]
async fn one_who_waits_for_a_stream_is_told_when_it_begins_to_flow() {
    for bench in both().await {
        let (pieces, gate) = (Pieces::default(), Gate::shut());
        let answers = answers(&pieces, Said::default());
        let held = {
            let gate = gate.clone();
            move |run| {
                let (answers, gate) = (answers.clone(), gate.clone());
                async move {
                    gate.pass().await;
                    answers(run).await
                }
            }
        };
        let server = bench.serve(bench.layer().wait(LONG), held).await;
        let request = server.keyed("/orders", "k");
        let first = tokio::spawn(async { request.send().await.unwrap() });
        until(|| bench.runs() == 1).await;
        let repeat = tokio::spawn(send(server.keyed("/orders", "k")));
        gate.admit(1);
        is_live(&head(&bench, first).await);
        assert_eq!(original_status(&repeat.await.unwrap()), Some(200));
        assert_eq!(bench.runs(), 1);
    }
}

/// A panic of a timer after the handler has run would free the key of what happened.
#[test]
fn a_body_that_pauses_needs_no_timers_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let idem = Idempotency::in_memory().unwrap();
    let pieces = Pieces::default();
    let service = {
        let pieces = pieces.clone();
        IdempotencyLayer::new(&idem, "shop").layer(service_fn(
            move |_: Request<RequestBody<Body>>| {
                let response = Response::new(pieces.body(None));
                async { Ok::<_, Infallible>(response) }
            },
        ))
    };
    let request = Request::post("/orders").header("idempotency-key", "k");
    let request = request.body(Body::empty()).unwrap();
    let response = runtime.block_on(service.oneshot(request)).unwrap();
    assert_eq!(response.headers()["idempotent-stored"], "false");
    assert!(!pieces.is_dropped());
}
