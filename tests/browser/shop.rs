//! The service of the example on a real port, watched from outside of it.

use crate::form::{MAKING_TAKES, Shop, router};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, map_response};
use axum::response::Response;
use http::Method;
use http::header::REFRESH;
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::{MemoryOptions, MemoryStore};
use idempotent_runtime::testing::ManualClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::until;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A shop that closes with this value.
pub(crate) struct OpenShop {
    pub(crate) shop: Arc<Shop>,
    pub(crate) clock: ManualClock,
    address: SocketAddr,
    posts: Arc<Posts>,
    task: JoinHandle<()>,
}

/// How a shop treats people.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Manner {
    /// As the example does.
    Usual,
    /// Takes seconds for an order, and answers no form until it is told to.
    Slow,
    /// As usual, but pages stay until somebody clicks.
    Still,
}

/// Forms that reached the server, and how many of them may be answered.
struct Posts {
    seen: AtomicUsize,
    answers: Semaphore,
}

impl OpenShop {
    pub(crate) async fn start(manner: Manner) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
        let idem = Idempotency::builder().store(store).clock(clock.clock()).build().unwrap();
        let (making, answers) = match manner {
            // Longer than it takes until the orders are shown.
            Manner::Slow => (Duration::from_secs(4), 0),
            Manner::Usual | Manner::Still => (MAKING_TAKES, Semaphore::MAX_PERMITS),
        };
        let shop = Shop::new(&idem, making);
        let posts = Arc::new(Posts { seen: AtomicUsize::new(0), answers: Semaphore::new(answers) });
        let mut router = watched(router(&shop), &posts);
        if manner == Manner::Still {
            router = router.layer(map_response(stay));
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shop, clock, address, posts, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Waits until this many forms have reached the server.
    pub(crate) async fn saw_posts(&self, count: usize) {
        until(|| self.posts.seen.load(SeqCst) >= count).await;
        assert_eq!(self.posts.seen.load(SeqCst), count);
    }

    /// Lets the answers of a slow shop go.
    pub(crate) fn answer(&self) {
        self.posts.answers.add_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn orders(&self) -> usize {
        self.shop.orders().len()
    }
}

impl Drop for OpenShop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn stay(mut response: Response) -> Response {
    response.headers_mut().remove(REFRESH);
    response
}

fn watched(router: Router, posts: &Arc<Posts>) -> Router {
    let posts = Arc::clone(posts);
    router.layer(from_fn(move |request: Request, next: Next| {
        let posts = Arc::clone(&posts);
        async move {
            let is_post = request.method() == Method::POST;
            if is_post {
                posts.seen.fetch_add(1, SeqCst);
            }
            let response = next.run(request).await;
            if is_post {
                drop(posts.answers.acquire().await);
            }
            response
        }
    }))
}
