//! Calls whose bodies and answers are written to a journal.

use crate::journal::{Journal, LeaseSeen, Source, Step};
use crate::kind::Kind;
use crate::plan::{BodyEnd, Plan};
use idempotent_runtime::store::Store;
use idempotent_runtime::{
    Abandon, AnswerPolicy, Config, Current, Error, ErrorKind, Idempotency, Mode, Operation,
    Outcome, current,
};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::{Dispatch, Level, Metadata, Subscriber, span};

/// Settings of calls. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    pub operation: String,
    pub abandon: Abandon,
    pub lease: u64,
    /// Time after which leases are no longer renewed.
    pub max_run: u64,
    pub wait: u64,
    /// Longer than any run: the checker knows of no second life of a key.
    pub expire: u64,
}

impl Terms {
    /// Short leases, so that a takeover is quick, and duplicates that wait for longer than one.
    pub fn new(operation: &str, abandon: Abandon) -> Self {
        let operation = operation.to_owned();
        Self { operation, abandon, lease: 400, max_run: 60_000, wait: 3_000, expire: 3_600_000 }
    }

    pub fn instance(&self, store: Arc<dyn Store>) -> Idempotency {
        let config = Config::new()
            .with_mode(Mode::Strong)
            .with_abandon(self.abandon)
            .with_lease(Duration::from_millis(self.lease))
            .with_max_run(Duration::from_millis(self.max_run))
            .with_wait(Duration::from_millis(self.wait))
            .with_expire(Duration::from_millis(self.expire));
        Idempotency::builder().shared_store(store).config(config).build().unwrap()
    }
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Value(String),
    OwnError,
    Refused(ErrorKind),
    Gone,
}

/// Makes calls and records them in a journal. Clones share one instance and journal.
#[derive(Clone, Debug)]
pub struct Caller {
    pub idem: Idempotency,
    pub journal: Journal,
    operation: Arc<str>,
    calls: Arc<AtomicU64>,
}

impl Caller {
    pub fn new(store: Arc<dyn Store>, terms: &Terms, journal: Journal) -> Self {
        let idem = terms.instance(store);
        Self { idem, journal, operation: terms.operation.as_str().into(), calls: Arc::default() }
    }

    pub fn operation(&self, key: &str) -> Operation<'_> {
        let operation = self.idem.operation(self.operation.to_string()).key(key);
        match Kind::of(key) {
            Some(kind) => kind.choose(operation),
            None => operation,
        }
    }

    /// Makes one call, in a task of its own that may be cancelled or panic.
    pub async fn call(&self, key: &str, plan: Plan) -> Told {
        let call = self.new_call(key);
        let task = tokio::spawn(call.clone().run(plan.clone()));
        supervise(task, &plan).await.unwrap_or_else(|| {
            call.note(Step::Gone);
            Told::Gone
        })
    }

    /// A call that is about to be made.
    pub(crate) fn new_call(&self, key: &str) -> Call {
        let call = Call {
            caller: self.clone(),
            key: key.to_owned(),
            number: self.calls.fetch_add(1, Relaxed),
            attempt: Arc::default(),
        };
        call.note(Step::Call);
        call
    }
}

/// Waits for a call, and cancels it if that is planned. `None` if it was cancelled or panicked.
pub(crate) async fn supervise<T>(mut task: JoinHandle<T>, plan: &Plan) -> Option<T> {
    let ended = match plan.cancel {
        None => task.await,
        Some(after) => match tokio::time::timeout(after, &mut task).await {
            Ok(ended) => ended,
            Err(_) => {
                task.abort();
                task.await
            }
        },
    };
    ended.ok()
}

#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) key: String,
    number: u64,
    /// The attempt, if the body has started.
    attempt: Arc<Mutex<Option<Current>>>,
}

impl Call {
    pub(crate) fn note(&self, step: Step) {
        self.caller.journal.step(&self.key, self.number, step);
    }

    /// The attempt's view of its lease.
    fn lease(&self) -> LeaseSeen {
        match &*self.attempt.lock().unwrap() {
            None => LeaseSeen::None,
            Some(attempt) if attempt.is_lost() => LeaseSeen::Lost,
            Some(_) => LeaseSeen::Held,
        }
    }

    async fn run(self, plan: Plan) -> Told {
        let operation = self.caller.operation(&self.key);
        let body = self.clone().body(plan);
        if Kind::of(&self.key) == Some(Kind::Detach) {
            let answer = operation.run_detached(AnswerPolicy::kept(), body).await;
            // The event is emitted in the task of the body, which is not heard here.
            return self.tell(answer, true);
        }
        let (answer, unrecorded) = listen(operation.run_detailed(body)).await;
        self.tell(answer, unrecorded)
    }

    /// Records the answer to the caller.
    pub(crate) fn tell(
        &self,
        answer: Result<Outcome<String>, BodyError>,
        unrecorded: bool,
    ) -> Told {
        let lease = self.lease();
        match answer {
            Ok(Outcome { value, replayed, attempt: number, .. }) => {
                let from = match (replayed, unrecorded) {
                    (true, _) => Source::Replayed,
                    (false, true) => Source::RanUnrecorded,
                    (false, false) => Source::Ran,
                };
                self.note(Step::Value { from, number, value: value.clone(), lease });
                Told::Value(value)
            }
            Err(BodyError::Own) => {
                self.note(Step::OwnError);
                Told::OwnError
            }
            Err(BodyError::Refused(error)) => {
                let kind = format!("{:?}", error.kind());
                self.note(Step::Refused { kind, body_ran: error.body_ran(), lease });
                Told::Refused(error.kind())
            }
        }
    }

    async fn body(self, plan: Plan) -> Result<String, BodyError> {
        let attempt = current().expect("a body has an attempt");
        let (number, fence) = (attempt.attempt(), attempt.fence());
        self.note(Step::Start { number, fence });
        *self.attempt.lock().unwrap() = Some(attempt.clone());
        let mut unfinished = Unfinished(Some(&self));
        let mut work = pin!(work(&plan));
        tokio::select! {
            biased;
            () = &mut work => {}
            () = attempt.lost() => {
                self.note(Step::Lost);
                work.await;
            }
        }
        self.end(&plan, &mut unfinished)
    }

    /// Ends the body as planned.
    pub(crate) fn end(
        &self,
        plan: &Plan,
        unfinished: &mut Unfinished<'_>,
    ) -> Result<String, BodyError> {
        match plan.end {
            BodyEnd::Value => {
                // No two bodies return the same value, so that a mix-up is noticed.
                let value = format!("{}/{:016x}", self.key, rand::random::<u64>());
                self.note(Step::End { value: value.clone(), lease: self.lease() });
                unfinished.0 = None;
                Ok(value)
            }
            BodyEnd::Error => {
                self.note(Step::Fail { lease: self.lease() });
                unfinished.0 = None;
                Err(BodyError::Own)
            }
            // Without the message that a panic prints.
            BodyEnd::Panic => std::panic::resume_unwind(Box::new("planned")),
        }
    }
}

pub(crate) async fn work(plan: &Plan) {
    if !plan.length.is_zero() {
        tokio::time::sleep(plan.length).await;
    }
    if let Some(path) = &plan.until {
        until_exists(path).await;
    }
}

/// Guard that records the drop of a body.
pub(crate) struct Unfinished<'a>(pub(crate) Option<&'a Call>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            call.note(Step::Drop { lease: call.lease() });
        }
    }
}

#[derive(Debug)]
pub(crate) enum BodyError {
    Own,
    Refused(Error),
}

impl From<Error> for BodyError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Waits for a file, by which one process tells another to go on.
pub async fn until_exists(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for an answer, and tells whether it was returned unrecorded.
pub(crate) async fn listen<T>(call: impl Future<Output = T>) -> (T, bool) {
    let answer = call.with_subscriber(LISTENERS[0].clone()).await;
    // The event was emitted on this thread, in the poll that has just returned.
    (answer, UNRECORDED.replace(false))
}

thread_local! {
    static UNRECORDED: Cell<bool> = const { Cell::new(false) };
}

/// Hears that an answer was returned although the store had not acknowledged it. The answer itself
/// does not say so, and such a call may be followed by another run.
///
/// There are two because with a single one `tracing` decides for the whole process by what listens
/// in the task that meets an event first, and in the task of a detached body nothing does.
static LISTENERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [Dispatch::new(Listener), Dispatch::new(Listener)]);

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "idempotent" && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(bool);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0 |= field.name() == "message"
                    && format!("{value:?}").contains("answer not recorded yet");
            }
        }
        let mut message = Message(false);
        event.record(&mut message);
        if message.0 {
            UNRECORDED.set(true);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
