//! Handlers and commits that fail: an error response, no row, no record.

use super::shop::{Expect as _, Shop, Tx};
use axum::Router;
use axum::body::Body;
use axum::http::{Extensions, Method, Request, Response};
use axum::routing::post;
use idempotent_http::TransactionSlot;
use idempotent_sql::Transactions;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tower_layer::Layer as _;
use tower_service::Service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_leaves_nothing_and_frees_the_key() {
    let shop = Shop::open().await;
    let failed = shop.post("/panics", "k", "lamp").await;
    assert_eq!((failed.status, failed.problem()), (500, Some("handler-failed")));
    support::until_async(async || shop.rows("orders").await == 0).await;
    let again = shop.post("/panics", "k", "lamp").await;
    assert_eq!((again.status, shop.rows("orders").await), (200, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_database_refuses_is_no_success() {
    for path in ["/broken", "/swallowed"] {
        let shop = Shop::open().await;
        for calls in 1..3 {
            let reply = shop.post(path, "k", "lamp").await;
            assert_eq!((reply.status, reply.problem()), (503, Some("not-committed")), "{path}");
            assert!(reply.text().contains("nothing of it is left"), "{}", reply.text());
            assert_eq!(reply.header("retry-after"), None);
            assert_eq!((shop.rows("orders").await, shop.calls()), (0, calls), "{path}");
            let record = shop.layer.record(Method::POST, path, "k").get().await.unwrap();
            assert!(record.is_none(), "{record:?}");
        }
        let reply = shop.post_without_key(path, "lamp").await;
        assert_eq!((reply.status, shop.rows("orders").await), (503, 0), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_keeps_its_transaction_is_refused() {
    let shop = Shop::open().await;
    for path in ["/kept", "/streams-from-it"] {
        let reply = shop.post(path, "k", "lamp").await;
        assert_eq!((reply.status, reply.problem()), (500, Some("misconfigured")), "{path}");
        let reply = shop.post_without_key(path, "lamp").await;
        assert_eq!((reply.status, reply.problem()), (500, Some("misconfigured")), "{path}");
    }
    // Two handlers still have theirs.
    shop.handlers.end.notify_waiters();
    assert_eq!(shop.post("/orders", "other", "lamp").await.status, 201);
    support::until(|| shop.pool.num_idle() == shop.pool.size() as usize).await;
    assert_eq!(shop.rows("orders").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_gone_is_told_before_the_handler_runs() {
    let shop = Shop::open().await;
    shop.pool.close().await;
    for reply in
        [shop.post("/orders", "k", "lamp").await, shop.post_without_key("/orders", "lamp").await]
    {
        assert_eq!((reply.status, reply.problem()), (503, Some("store-unavailable")));
    }
    assert_eq!(shop.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_without_transactions_around_one_with_them_is_a_mistake() {
    let shop = Shop::open().await;
    let inner = shop.layer.clone().transactional(Transactions::of(&shop.pool));
    let app: Router = Router::new()
        .route("/orders", post(async || "handled"))
        .layer(inner)
        .layer(shop.layer.clone().name("outer"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut connection = support::http::Connection::open(address).await.unwrap();
    let request = super::shop::request("/orders", Some("k"), "lamp");
    let reply = connection.exchange(&request).await.unwrap();
    assert_eq!((reply.status, reply.problem()), (500, Some("misconfigured")));
}

/// A service that fails, and keeps a copy of what its requests carried.
#[derive(Clone, Default)]
struct Fails {
    /// It takes the transaction out first, and keeps that too.
    takes: bool,
    copies: Arc<Mutex<Vec<Extensions>>>,
    taken: Arc<Mutex<Vec<Tx>>>,
}

impl<B> Service<Request<B>> for Fails {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.takes {
            let taken = TransactionSlot::take_from(request.extensions());
            self.taken.lock().unwrap().push(taken.unwrap());
        }
        self.copies.lock().unwrap().push(request.extensions().clone());
        ready(Err("out of stock"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_service_reaches_its_caller_whatever_the_service_has_kept() {
    for takes in [false, true] {
        let shop = Shop::open().await;
        let service = Fails { takes, ..Fails::default() };
        let layer = shop.layer.clone().transactional(Transactions::of(&shop.pool));
        let mut guarded = layer.layer(service.clone());
        for key in [Some("\"k\""), None] {
            let request = Request::post("/orders");
            let request = match key {
                Some(key) => request.header("idempotency-key", key),
                None => request,
            };
            let failed = guarded.call(request.body(Body::from("lamp")).unwrap()).await;
            let failed = failed.map(|response| response.status());
            assert_eq!(failed, Err("out of stock"), "key {key:?}, taken {takes}");
        }
        assert_eq!(service.copies.lock().unwrap().len(), 2);
        service.taken.lock().unwrap().clear();
        support::until(|| shop.pool.num_idle() == shop.pool.size() as usize).await;
        // The key is free.
        assert_eq!(shop.post("/orders", "k", "lamp").await.status, 201);
    }
}
