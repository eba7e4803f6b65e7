//! A service on a Redis that it shares with other processes. Its handler writes a journal, and may
//! be killed at any time. The tests in `tests/http` start it.
#![allow(clippy::print_stdout)]

use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderName};
use axum::routing::{get, post};
use axum::{Json, Router};
use cap::Cap;
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Current, Idempotency, current};
use std::alloc::System;
use std::time::Duration;
use support::http::{ATTEMPT, CALL, ENDS, NEVER, Orders, PANIC, State, TAKES, resident};
use support::journal::{Journal, LeaseSeen, Step};
use support::worker::end_with_whoever_started_this;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[derive(Clone, Debug)]
struct Service {
    idem: Idempotency,
    journal: Journal,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    end_with_whoever_started_this();
    let store = RedisStore::connect(&orders.url).await.expect("Redis is up");
    let idem = Idempotency::builder().store(store).build().expect("the configuration is valid");
    let journal = Journal::open(&orders.journal, orders.process);
    let layer = IdempotencyLayer::new(&idem, "shop")
        .require_key()
        .lease(Duration::from_millis(orders.lease));
    let service = Service { idem, journal };
    let app = Router::new()
        .route("/orders", post(create_order))
        .layer(layer)
        .route("/state", get(state))
        .with_state(service);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("there is a free port");
    println!("{}", listener.local_addr().expect("it has an address"));
    axum::serve(listener, app).await.expect("it serves until it is killed");
}

async fn state(Shared(service): Shared<Service>) -> Json<State> {
    Json(State {
        resident: resident(),
        allocated: ALLOCATOR.allocated() as u64,
        tasks: Handle::current().metrics().num_alive_tasks(),
        in_flight: service.idem.in_flight(),
    })
}

/// Answers with a text that no other execution has.
async fn create_order(
    Shared(Service { journal, .. }): Shared<Service>,
    headers: HeaderMap,
    key: String,
) -> ([(HeaderName, String); 1], String) {
    let sent = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| sent(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let attempt = current().expect("a handler has an attempt");
    let execution = Execution { journal, key, call: number(CALL), attempt, done: false };
    execution.note(Step::Start {
        number: execution.attempt.attempt(),
        fence: execution.attempt.fence(),
    });
    match number(TAKES) {
        0 => {}
        millis => tokio::time::sleep(Duration::from_millis(millis)).await,
    }
    match sent(ENDS) {
        Some(PANIC) => execution.panic(),
        Some(NEVER) => std::future::pending().await,
        _ => execution.end(),
    }
}

/// An execution of the handler. One that is dropped before its end was cancelled.
struct Execution {
    journal: Journal,
    key: String,
    call: u64,
    attempt: Current,
    done: bool,
}

impl Execution {
    fn note(&self, step: Step) {
        self.journal.step(&self.key, self.call, step);
    }

    fn lease(&self) -> LeaseSeen {
        if self.attempt.is_lost() { LeaseSeen::Lost } else { LeaseSeen::Held }
    }

    fn panic(mut self) -> ! {
        self.note(Step::Fail { lease: self.lease() });
        self.done = true;
        // Without the message that a panic prints.
        std::panic::resume_unwind(Box::new("planned"))
    }

    /// The effect, and its answer.
    fn end(mut self) -> ([(HeaderName, String); 1], String) {
        let fence = self.attempt.fence();
        let value = format!("{}/{fence}/{:016x}", self.key, rand::random::<u64>());
        self.note(Step::End { value: value.clone(), lease: self.lease() });
        self.done = true;
        let attempt = (HeaderName::from_static(ATTEMPT), self.attempt.attempt().to_string());
        ([attempt], value)
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.done {
            self.note(Step::Drop { lease: self.lease() });
        }
    }
}
