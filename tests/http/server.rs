//! A service on a real port. Its handlers note their runs in a ledger outside the store.

use crate::bench::Bench;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::testing::Ledger;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What a handler is called with.
pub(crate) struct Run {
    /// How often handlers ran, this time included.
    pub(crate) number: usize,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

/// A service that ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `router` on a free port.
pub(crate) async fn serve(router: Router) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Server::new(address, task)
}

impl Server {
    /// A server of any kind, which gets the connections to a port.
    pub(crate) fn around(
        listener: TcpListener,
        handle: impl Fn(TcpStream) + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let accept = async move {
            while let Ok((connection, _)) = listener.accept().await {
                handle(connection);
            }
        };
        Self::new(address, tokio::spawn(accept))
    }

    fn new(address: SocketAddr, task: JoinHandle<()>) -> Self {
        Self { address, client: client(), task }
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // A connection that the server closes must not be taken for a free one.
        .pool_max_idle_per_host(0)
        // Far beyond what any answer needs: a request that hangs is a test that fails.
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap()
}

/// Calls `answer` for every method, and counts its runs by path.
pub(crate) fn handler<F, A, R>(ledger: &Ledger, answer: F) -> MethodRouter
where
    F: Fn(Run) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
    R: IntoResponse,
{
    let ledger = ledger.clone();
    any(async move |request: Request| -> Response {
        let (parts, body) = request.into_parts();
        ledger.record(parts.uri.path());
        let number = ledger.total();
        match to_bytes(body, usize::MAX).await {
            Ok(body) => answer(Run { number, parts, body }).await.into_response(),
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        }
    })
}

/// As [`handler`], for every path.
pub(crate) fn counted<F, A, R>(ledger: &Ledger, answer: F) -> Router
where
    F: Fn(Run) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
    R: IntoResponse,
{
    Router::new().fallback(handler(ledger, answer))
}

/// Answers with the number of the run.
pub(crate) async fn number(run: Run) -> String {
    format!("run {}", run.number)
}

/// The future of a handler that answers with a number.
pub(crate) type Numbered = Pin<Box<dyn Future<Output = String> + Send>>;

/// As [`number`], when the gate lets it.
pub(crate) fn held(gate: &Gate) -> impl Fn(Run) -> Numbered + Clone + Send + Sync + 'static {
    held_if(gate, |_| true)
}

/// As [`number`]; the first run when the gate lets it.
pub(crate) fn held_first(gate: &Gate) -> impl Fn(Run) -> Numbered + Clone + Send + Sync + 'static {
    held_if(gate, |run| run.number == 1)
}

fn held_if(
    gate: &Gate,
    holds: fn(&Run) -> bool,
) -> impl Fn(Run) -> Numbered + Clone + Send + Sync + 'static {
    let gate = gate.clone();
    move |run| {
        let gate = gate.clone();
        Box::pin(async move {
            if holds(&run) {
                gate.pass().await;
            }
            number(run).await
        })
    }
}

impl Bench {
    /// `answer` behind `layer`.
    pub(crate) async fn serve<F, A, R>(&self, layer: IdempotencyLayer, answer: F) -> Server
    where
        F: Fn(Run) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        serve(counted(&self.ledger, answer).layer(layer)).await
    }
}

/// Holds handlers until a test lets them go.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    /// Lets this many handlers go.
    pub(crate) fn admit(&self, handlers: usize) {
        self.0.add_permits(handlers);
    }
}

/// Counts requests whose client went away before they were answered.
#[derive(Clone, Default)]
pub(crate) struct Departures(Arc<AtomicUsize>);

impl Departures {
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// The same router, watched from outside of its layers.
    pub(crate) fn watch(&self, router: Router) -> Router {
        let departures = self.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            let departure = Departure(Some(departures.clone()));
            async move {
                let response = next.run(request).await;
                departure.was_answered();
                response
            }
        }))
    }
}

/// Counted when it is dropped, unless the client was answered.
struct Departure(Option<Departures>);

impl Departure {
    fn was_answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if let Some(departures) = &self.0 {
            departures.0.fetch_add(1, SeqCst);
        }
    }
}
