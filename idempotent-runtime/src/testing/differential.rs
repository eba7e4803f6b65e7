//! Differential test of a store against the state table: the same random calls, the same answers,
//! the same records.
//!
//! Each seed makes one sequence of verbs on a few keys, with time passing in between, late and
//! repeated messages included. A failure names its seed and the calls that led to it.

use super::model::{BINDINGS, Call, Model, payloads, records_agree};
use super::subject::{MAX_SLACK, Subject};
use crate::config::Abandon;
use crate::key::{RecordKey, hex};
use crate::protocol::{
    BeginRequest, Begun, Binding, Failure, Forget, IfGone, Progress, Resolution, Resolve, Update,
    Updated,
};
use crate::store::{AttemptId, Claim, Store, Token, Value};
use crate::testing::model::Reply;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::fmt::Write as _;
use std::time::Duration;

const KEYS: usize = 2;
const CALLS: usize = 60;
/// The number of requests per key, after which earlier ones are sent again.
const REQUESTS: usize = 8;

/// The unit of spans, far above the slack, so that it is clear which of them are over.
const UNIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(1);

/// Runs one sequence for each seed.
///
/// ```
/// use idempotent_runtime::testing::{MemorySubject, differential};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// differential::check(&MemorySubject::new(), 0..50).await;
/// # }
/// ```
///
/// # Panics
/// An answer or a record of the store differs from the table's.
pub async fn check(subject: &dyn Subject, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        check_one(subject, seed).await;
    }
}

/// Runs the sequence of one seed.
///
/// # Panics
/// An answer or a record of the store differs from the table's.
pub async fn check_one(subject: &dyn Subject, seed: u64) {
    assert!(subject.slack() <= MAX_SLACK, "the subject's slack is over {MAX_SLACK:?}");
    let mut run = Run::new(subject, seed);
    for _ in 0..CALLS {
        run.go_on().await;
    }
}

/// A sequence in progress.
struct Run<'a> {
    subject: &'a dyn Subject,
    store: std::sync::Arc<dyn Store>,
    seed: u64,
    dice: Dice,
    keys: Vec<RecordKey>,
    tracks: Vec<Track>,
    history: String,
}

/// The model of one key, and the requests and attempts sent for it.
#[derive(Default)]
struct Track {
    model: Model,
    requests: Vec<BeginRequest>,
    attempts: Vec<AttemptId>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a dyn Subject, seed: u64) -> Self {
        let own = hex(&Token::random().to_bytes());
        let key = |index| RecordKey::from(&*format!("differential|{own}|{index}"));
        Self {
            subject,
            store: subject.store(),
            seed,
            dice: Dice::new(seed, subject.slack().is_zero()),
            keys: (0..KEYS).map(key).collect(),
            tracks: (0..KEYS).map(|_| Track::default()).collect(),
            history: String::new(),
        }
    }

    async fn go_on(&mut self) {
        if self.dice.one_in(4) {
            let by = self.dice.span();
            let _ = write!(self.history, "\n  {by:?} pass");
            self.subject.step(&self.keys, by).await;
            self.tracks.iter_mut().for_each(|track| track.model.step(by));
        } else {
            self.call().await;
        }
        for index in 0..KEYS {
            let expected = self.tracks[index].model.record();
            let shown = match self.store.load(&self.keys[index]).await {
                Ok(shown) => shown,
                Err(error) => self.fail(&format!("`get` was not answered: {error}")),
            };
            if !records_agree(shown.as_ref(), expected, self.subject.slack()) {
                self.fail(&format!("key {index} is {shown:?}, not {expected:?}"));
            }
        }
    }

    async fn call(&mut self) {
        let index = self.dice.below(KEYS);
        let call = self.tracks[index].next_call(&mut self.dice);
        let _ = write!(self.history, "\n  key {index}: {call:?}");
        let expected = self.tracks[index].answer(&call);
        let reply = match call.send(&*self.store, &self.keys[index]).await {
            Ok(reply) => reply,
            Err(error) => self.fail(&format!("not answered: {error}")),
        };
        let _ = write!(self.history, " -> {expected:?}");
        if !reply.agrees(&expected, self.subject.slack()) {
            self.fail(&format!("answered {reply:?}"));
        }
    }

    fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}; the table says:{}", self.seed, self.history)
    }
}

impl Track {
    fn answer(&mut self, call: &Call) -> Reply {
        let reply = self.model.answer(call);
        if let (
            Call::Update(Update { attempt, to: Progress::Armed { linger } }),
            Reply::Updated(Updated::Done),
        ) = (call, &reply)
        {
            self.attempts.push(attempt.armed(*linger));
        }
        if let Reply::Begun(Begun::Fresh(attempt)) = &reply
            && !self.attempts.contains(attempt)
        {
            self.attempts.push(*attempt);
        }
        reply
    }

    fn next_call(&mut self, dice: &mut Dice) -> Call {
        if self.requests.is_empty() || dice.one_in(3) {
            return Call::Begin(self.next_request(dice));
        }
        let attempt = self.some_attempt(dice);
        let retention = dice.length();
        let to = match dice.below(16) {
            0..4 => {
                let if_gone = if dice.one_in(2) { IfGone::Rewrite } else { IfGone::Leave };
                Progress::Completed { value: dice.value(), retention, if_gone }
            }
            4 | 5 => Progress::Failed { failure: Failure::Free(dice.binding()), retention },
            6 => Progress::Failed { failure: Failure::Final(dice.value()), retention },
            7 | 8 => Progress::Abandoned { retention, binding: dice.binding() },
            9 => Progress::Released { retention, binding: dice.binding() },
            10 | 11 => Progress::Renewed { lease: dice.length() },
            12 | 13 => Progress::Armed { linger: dice.length() },
            14 => return Call::Forget(Forget { force: dice.one_in(2) }),
            _ => {
                let resolution = match dice.one_in(2) {
                    true => Resolution::Retry,
                    false => Resolution::Succeeded(dice.value()),
                };
                return Call::Resolve(Resolve { resolution, retention });
            }
        };
        Call::update(attempt, to)
    }

    /// Returns a new request in most cases, otherwise one that was sent before.
    fn next_request(&mut self, dice: &mut Dice) -> BeginRequest {
        if self.requests.len() >= REQUESTS || (!self.requests.is_empty() && dice.one_in(4)) {
            return self.requests[dice.below(self.requests.len())];
        }
        let request = dice.request();
        self.requests.push(request);
        request
    }

    /// Returns the last attempt in most cases, otherwise an earlier one or one that never got an
    /// answer.
    fn some_attempt(&self, dice: &mut Dice) -> AttemptId {
        match self.attempts.last() {
            Some(last) if !dice.one_in(3) => *last,
            Some(_) if dice.one_in(2) => self.attempts[dice.below(self.attempts.len())],
            _ => self.requests[dice.below(self.requests.len())].first_attempt(),
        }
    }
}

/// Random choices, the same for the same seed.
struct Dice {
    random: StdRng,
    /// `true` if the subject's clock stands still, so that single milliseconds can be told apart.
    exact: bool,
}

impl Dice {
    fn new(seed: u64, exact: bool) -> Self {
        Self { random: StdRng::seed_from_u64(seed), exact }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A lease or retention.
    fn length(&mut self) -> Duration {
        UNIT * [1, 2, 3, 10][self.below(4)]
    }

    fn binding(&mut self) -> Binding {
        BINDINGS[self.below(BINDINGS.len())]
    }

    /// A time to pass between two calls.
    fn span(&mut self) -> Duration {
        let span = UNIT * [1, 1, 2, 3, 10, 20][self.below(6)];
        match self.below(4) {
            0 if self.exact => span - TICK,
            1 if self.exact => TICK,
            _ => span,
        }
    }

    fn value(&mut self) -> Option<Value> {
        match self.below(4) {
            0 => None,
            1 => Some(Value::from(Vec::new())),
            _ => Some(Value::from(self.random.random::<[u8; 8]>().to_vec())),
        }
    }

    fn request(&mut self) -> BeginRequest {
        let fingerprint = match self.below(4) {
            0 | 1 => None,
            other => Some(payloads()[other - 2]),
        };
        let claim = match self.below(6) {
            0 => Claim::Window { window: self.length() },
            choice => Claim::Lease {
                lease: self.length(),
                linger: self.length(),
                abandon: if choice < 3 { Abandon::Block } else { Abandon::Retry },
            },
        };
        BeginRequest {
            token: Token::from_bytes(self.random.random()),
            fingerprint,
            fence_seed: self.random.random_range(0..1 << 52),
            claim,
        }
    }
}
