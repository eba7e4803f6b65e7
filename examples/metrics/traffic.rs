//! Calls of every kind, in rounds, so that every metric is counted.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use idempotent_runtime::store::{Next, Seen, Store as _, StoreErrorKind, Swap};
use idempotent_runtime::testing::{Fault, FaultStore, Verb};
use idempotent_runtime::{
    Abandon, Error, Fingerprint, Idempotency, Mode, OnStoreError, Operation, idempotent,
};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

const MOMENT: Duration = Duration::from_millis(20);
const SHORT_LEASE: Duration = Duration::from_millis(150);

#[idempotent(key = "number", name = "orders.create")]
async fn create_order(number: u64) -> Result<u64, Error> {
    sleep(Duration::from_millis(number % 5)).await;
    Ok(number)
}

/// The clients of the service, and the faults of its store.
pub(crate) struct Traffic {
    idem: Idempotency,
    store: FaultStore,
    service: Router,
}

/// The error of a body, or the refusal of a call.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A body that is done at once.
async fn done() -> Result<u64, Failure> {
    Ok(1)
}

/// A body that takes so long.
async fn takes(time: Duration) -> Result<u64, Failure> {
    sleep(time).await;
    Ok(1)
}

impl Traffic {
    pub(crate) fn new(idem: Idempotency, store: FaultStore, service: Router) -> Self {
        Self { idem, store, service }
    }

    /// Makes so many rounds of calls, or goes on for ever.
    pub(crate) async fn rounds(&self, rounds: Option<u64>) {
        for round in 1..=rounds.unwrap_or(u64::MAX) {
            self.round(round).await;
        }
    }

    /// Makes calls of every kind. What they answer is of no interest here: it is counted.
    ///
    /// One kind after the other, since the faults of the store hit the next call.
    pub(crate) async fn round(&self, round: u64) {
        self.repeats(round).await;
        self.waits(round).await;
        self.takeovers(round).await;
        self.failures(round).await;
        self.blocked_key(round).await;
        self.store_down(round).await;
        self.lost_answers(round).await;
        self.requests(round).await;
    }

    fn payment(&self, round: u64, what: &str) -> Operation<'_> {
        self.idem.operation("payments.charge").key((round, what))
    }

    fn report(&self, round: u64, what: &str) -> Operation<'_> {
        self.idem.operation("reports.build").key((round, what)).lease(SHORT_LEASE)
    }

    /// First calls, replays, and duplicates that are turned away.
    async fn repeats(&self, round: u64) {
        for order in 0..30 {
            let _ = create_order(round * 30 + order).await;
            if order % 3 != 0 {
                let _ = create_order(round * 30 + order).await;
            }
        }
        for _ in 0..2 {
            let _ = self.payment(round, "rejected").mode(Mode::Reject).run(done()).await;
        }
    }

    /// Duplicates that wait: one gets the answer, one gives up. The lease is renewed meanwhile.
    async fn waits(&self, round: u64) {
        let first = async {
            let _ = self.report(round, "slow").run(takes(SHORT_LEASE * 2)).await;
        };
        let patient = async {
            sleep(MOMENT).await;
            let _ = self.report(round, "slow").wait(Duration::from_secs(5)).run(done()).await;
        };
        let impatient = async {
            sleep(MOMENT).await;
            let _ = self.report(round, "slow").wait(MOMENT).run(done()).await;
        };
        tokio::join!(first, patient, impatient);
    }

    /// Bodies that run for longer than they may. Their lease is not renewed any more, and the next
    /// caller takes over.
    async fn takeovers(&self, round: u64) {
        let late = |what| self.report(round, what).max_run(MOMENT);
        let value = async {
            let _ = late("value").run(takes(SHORT_LEASE * 2)).await;
        };
        let error = async {
            let fails = async { takes(SHORT_LEASE * 2).await.and(Err("declined".into())) };
            let _ = late("error").run::<u64, Failure, _>(fails).await;
        };
        let next = async {
            sleep(SHORT_LEASE + MOMENT).await;
            let _ = self.report(round, "value").run(done()).await;
            let _ = self.report(round, "error").run(done()).await;
        };
        tokio::join!(value, error, next);
    }

    /// Bodies that fail, panic or are dropped, and calls that are refused.
    async fn failures(&self, round: u64) {
        let _ = self
            .payment(round, "fails")
            .run(async { Err::<u64, Failure>("declined".into()) })
            .await;
        let idem = self.idem.clone();
        let panics = tokio::spawn(async move {
            let body = async { std::panic::resume_unwind(Box::new("a panic")) };
            idem.operation("payments.charge")
                .key(("panics", round))
                .run::<u64, Failure, _>(body)
                .await
        });
        let _ = panics.await;
        let _ = timeout(MOMENT, self.payment(round, "dropped").run(takes(SHORT_LEASE))).await;
        for amount in [500, 600] {
            let payment = self.payment(round, "mismatch").fingerprint(Fingerprint::of(&amount));
            let _ = payment.run(done()).await;
        }
        let _ = self.idem.operation("payments.charge").key("").run(done()).await;
        // JSON has no such number: the success is recorded without it.
        let number = async { Ok::<_, Failure>(f64::NAN) };
        let _ = self.payment(round, "not a number").run(number).await;
        let text = async { Ok::<_, Failure>("read as a number".to_owned()) };
        let _ = self.payment(round, "text").run(text).await;
        let _ = self.payment(round, "text").run(done()).await;
    }

    /// A key that blocks, because it is not known whether its body had an effect.
    async fn blocked_key(&self, round: u64) {
        let payment = || self.payment(round, "blocked").abandon(Abandon::Block);
        let _ = timeout(MOMENT, payment().run(takes(SHORT_LEASE))).await;
        while self.idem.in_flight() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let _ = payment().run(done()).await;
        // Its record would block for days. An operator who knows that nothing happened frees the key.
        let _ = payment().forget(true).await;
    }

    /// A store that cannot be reached: one call is refused, one runs without protection.
    async fn store_down(&self, round: u64) {
        self.store.down(Verb::Begin);
        let _ = self.payment(round, "refused").run(done()).await;
        let unprotected = self.payment(round, "unprotected").on_store_error(OnStoreError::Run);
        let _ = unprotected.run(done()).await;
        self.store.all_up();
    }

    /// Answers that are stored late or never, and a record that the store has lost.
    async fn lost_answers(&self, round: u64) {
        self.store.fault_next(Verb::Complete, Fault::Before(StoreErrorKind::Unavailable));
        let _ = self.payment(round, "recorded late").run(done()).await;
        self.store.fault_next(Verb::Complete, Fault::Before(StoreErrorKind::Undecodable));
        let _ = self.payment(round, "never recorded").run(done()).await;
        let payment = self.payment(round, "lost");
        let body = async {
            if let Ok(Some(record)) = payment.get().await
                && let Ok(key) = payment.record_key()
            {
                let seen = Seen::This { head: record.head, at_most: None };
                let swap = Swap { seen, next: Next::Nothing, verb: Verb::Forget };
                let _ = self.store.swap(&key, swap).await;
            }
            done().await
        };
        let _ = payment.clone().run(body).await;
    }

    /// Requests with a key, with the same key, and without one.
    async fn requests(&self, round: u64) {
        let key = format!("\"order-{round}\"");
        for key in [Some(&key), Some(&key), None] {
            let mut request = Request::post("/orders");
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            let Ok(request) = request.body(Body::empty()) else { continue };
            let _ = self.service.clone().oneshot(request).await;
        }
    }
}
