//! Load generator: callers that keep calling while servers fail, and a ledger outside the servers.

use idempotent_runtime::store::Store;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, Mode};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What all callers call.
pub const OPERATION: &str = "load";

const CALLERS: usize = 16;
/// How many of them call each key.
const CALLS_PER_KEY: usize = 4;
const BODY: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_millis(2);
/// Time for which a call may be refused before that counts as a lack of progress.
const PATIENCE: Duration = Duration::from_secs(40);

/// Callers under way.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    instances: Vec<Idempotency>,
    keys: Keys,
    /// Tells the keys of this load from those of others.
    own: String,
    calls: AtomicUsize,
    answered: AtomicUsize,
    stop: AtomicBool,
    ledger: Ledger,
    /// How many bodies of a key run at this moment.
    running: Mutex<HashMap<String, usize>>,
    overlapped: Mutex<BTreeSet<String>>,
    refused: Mutex<BTreeMap<String, usize>>,
}

/// Which keys are called.
#[derive(Debug)]
pub enum Keys {
    /// One after the other, for as long as it takes.
    Endless,
    /// These, one after the other.
    These(Vec<String>),
}

/// How callers are set up here: leases are short, so that what was lost is soon taken over.
pub fn config() -> Config {
    Config::new()
        .with_mode(Mode::Strong)
        .with_lease(Duration::from_secs(2))
        .with_wait(Duration::from_secs(1))
        .with_retry_interval(Duration::from_millis(20))
}

/// An instance on a store of its own, as another process would have it.
pub fn instance(store: impl Store) -> Idempotency {
    Idempotency::builder().store(store).config(config()).build().unwrap()
}

impl Load {
    pub fn start(instances: Vec<Idempotency>, keys: Keys) -> Self {
        let shared = Arc::new(Shared {
            instances,
            keys,
            own: format!("{:016x}", rand::random::<u64>()),
            calls: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            ledger: Ledger::new(),
            running: Mutex::default(),
            overlapped: Mutex::default(),
            refused: Mutex::default(),
        });
        let caller = |_| tokio::spawn(Arc::clone(&shared).call_on());
        let callers = (0..CALLERS).map(caller).collect();
        Self { shared, callers }
    }

    /// Number of answered calls.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(SeqCst)
    }

    /// Returns `true` if all callers still have keys to call.
    pub fn is_calling(&self) -> bool {
        !self.callers.iter().any(JoinHandle::is_finished)
    }

    /// Waits until so many more calls have been answered.
    pub async fn until_answered(&self, more: usize) {
        let enough = self.answered() + more;
        super::until(|| self.answered() >= enough || !self.is_calling()).await;
        assert!(self.answered() >= enough, "a caller gave up");
    }

    /// Lets every caller finish its call, and every instance its work.
    pub async fn finish(self) -> Finished {
        self.shared.stop.store(true, SeqCst);
        self.finish_all().await
    }

    /// Lets callers go on until they have called every key.
    pub async fn finish_all(self) -> Finished {
        for caller in self.callers {
            caller.await.unwrap();
        }
        for instance in &self.shared.instances {
            super::until(|| instance.in_flight() == 0).await;
        }
        Finished(self.shared)
    }
}

impl Shared {
    async fn call_on(self: Arc<Self>) {
        while !self.stop.load(SeqCst) {
            let call = self.calls.fetch_add(1, SeqCst);
            let key = match &self.keys {
                Keys::Endless => format!("{}-{}", self.own, call / CALLS_PER_KEY),
                Keys::These(keys) => match keys.get(call / CALLS_PER_KEY) {
                    Some(key) => key.clone(),
                    None => return,
                },
            };
            self.until_answered(&self.instances[call % self.instances.len()], &key).await;
            self.answered.fetch_add(1, SeqCst);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Calls until there is an answer.
    async fn until_answered(&self, instance: &Idempotency, key: &str) -> usize {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let answer = instance.operation(OPERATION).key(key).run(self.body(key)).await;
            let error = match answer {
                Ok(number) => return number,
                Err(error) => error,
            };
            let expected = matches!(
                error.kind(),
                ErrorKind::StoreUnavailable
                    | ErrorKind::NotReplicated
                    | ErrorKind::InProgress
                    | ErrorKind::Superseded
            );
            assert!(expected, "refused for good: {error}");
            assert!(Instant::now() < give_up, "no progress: {error}");
            *self.refused.lock().unwrap().entry(format!("{:?}", error.kind())).or_default() += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn body(&self, key: &str) -> Result<usize, Error> {
        let running = Running::start(self, key);
        let number = self.ledger.record(key);
        tokio::time::sleep(BODY).await;
        drop(running);
        Ok(number)
    }
}

/// A body that runs.
struct Running<'a>(&'a Shared, &'a str);

impl<'a> Running<'a> {
    fn start(shared: &'a Shared, key: &'a str) -> Self {
        let mut running = shared.running.lock().unwrap();
        let count = running.entry(key.to_owned()).or_default();
        *count += 1;
        if *count > 1 {
            shared.overlapped.lock().unwrap().insert(key.to_owned());
        }
        Self(shared, key)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0.running.lock().unwrap().get_mut(self.1) {
            *count -= 1;
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Finished(Arc<Shared>);

impl Finished {
    /// Every key has one answer, which all instances give; no body ran beside another of its key, and
    /// none of them more often than `most`.
    pub async fn check(&self, most: usize) {
        self.check_answers(most).await;
        let overlapped = self.0.overlapped.lock().unwrap();
        assert!(overlapped.is_empty(), "two bodies at once: {overlapped:?}");
    }

    /// The same, where two bodies may run at once.
    pub async fn check_answers(&self, most: usize) {
        let Self(shared) = self;
        let keys: Vec<String> = shared.ledger.entries().into_keys().collect();
        assert!(!keys.is_empty(), "no body ran");
        for chunk in keys.chunks(CALLERS) {
            let each: Vec<_> = chunk
                .iter()
                .map(|key| {
                    let (shared, key) = (Arc::clone(shared), key.clone());
                    tokio::spawn(async move {
                        let mut answers = BTreeSet::new();
                        for instance in &shared.instances {
                            answers.insert(shared.until_answered(instance, &key).await);
                        }
                        assert_eq!(answers.len(), 1, "key {key} has the answers {answers:?}");
                    })
                })
                .collect();
            for check in each {
                check.await.unwrap();
            }
        }
        let often: BTreeMap<_, _> =
            shared.ledger.entries().into_iter().filter(|(_, ran)| *ran > most).collect();
        assert!(often.is_empty(), "ran more than {most} times: {often:?}");
    }

    /// The names of the records whose bodies ran more than once.
    pub fn ran_again(&self) -> Vec<String> {
        let name = |key: String| {
            let operation = self.0.instances[0].operation(OPERATION).key(key);
            super::redis::record_name(&operation.record_key().unwrap())
        };
        let entries = self.0.ledger.entries().into_iter();
        entries.filter(|(_, ran)| *ran > 1).map(|(key, _)| name(key)).collect()
    }

    /// How many bodies ran, of how many keys.
    pub fn bodies(&self) -> (usize, usize) {
        (self.0.ledger.total(), self.0.ledger.entries().len())
    }

    pub fn answered(&self) -> usize {
        self.0.answered.load(SeqCst)
    }

    /// Number of refused calls, by kind.
    pub fn refused(&self) -> BTreeMap<String, usize> {
        self.0.refused.lock().unwrap().clone()
    }
}
