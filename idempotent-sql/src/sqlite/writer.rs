//! The writer: one thread with the one connection that writes, which commits in groups.
//!
//! Callers put requests into a bounded queue. The writer takes the write lock of the file, carries
//! out what has come in, each request as a compare-and-write of its own, and commits all of it at
//! once: that is one wait for the disk, however many wait for it. No caller is answered before the
//! commit has returned. While the disk is waited for, the next group gathers in the queue.
//!
//! A request that fails by itself fails alone. A group that was rolled back as a whole is carried
//! out again one request after the other, so that one that cannot be written does not fail the
//! others. A commit with an unknown outcome is unknown for all of the group.
//!
//! # Several processes
//! SQLite has no queue for its write lock: the process that asks at the right moment gets it. The writer asks
//! every half a millisecond, which is the same for all, and leaves gaps: a short one after each
//! commit for as long as others have written lately, and a longer one now and then when it has
//! written without a break, so that one that has not got in yet can.

use super::errors::{commit_error, ended, is_busy, is_rolled_back, store_error};
use super::file::{File, LOG_SIZE, TRY_AGAIN};
use super::records::{self, Values};
use super::turnstile::Turnstile;
use super::watches::Watches;
use crate::client::rusqlite::execute;
use crate::columns::KeyColumns;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Next, State, StoreError, StoreErrorKind, Swap, Swapped, WhenFull};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The most requests that wait for the writer; further callers wait to get in.
const QUEUE: usize = 1_024;
/// The most requests of a group.
const GROUP: usize = 256;
/// The time for which the callers of the last group are waited for: a fourth of a quick commit.
const GATHERING: Duration = Duration::from_micros(50);
/// The gap after a commit while others write too: long enough for one that tries every
/// [`TRY_AGAIN`] to get in every second or third time.
const GAP: Duration = Duration::from_micros(200);
/// The time for which others count as writing after they did.
const LATELY: Duration = Duration::from_millis(250);
/// The time without a break after which there is a gap that costs nothing.
const WITHOUT_BREAK: Duration = Duration::from_millis(25);
const LONG_GAP: Duration = Duration::from_micros(600);

/// The time for which those that read the log are waited for when it is to be cut.
const CUT_PATIENCE: Duration = Duration::from_millis(100);
/// The time after which that is tried again.
const CUT_AGAIN: Duration = Duration::from_secs(1);

/// The way to the writer. The writer ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Requests(mpsc::Sender<Request>);

struct Request {
    work: Work,
    /// The moment from which on its patience counts.
    asked: Instant,
}

#[expect(clippy::large_enum_variant, reason = "nearly all of them are swaps")]
enum Work {
    Swap { key: RecordKey, swap: Swap, answer: oneshot::Sender<Result<Swapped, StoreError>> },
    Expire { limit: i64, answer: oneshot::Sender<Result<u64, StoreError>> },
}

/// The outcome of a request.
enum Outcome {
    Swapped(Swapped),
    Expired(u64),
}

/// The failure of a whole transaction.
enum Failed {
    /// Nothing of it was carried out.
    RolledBack(StoreError),
    /// All of it was carried out, or nothing.
    Unknown(StoreError),
}

impl Requests {
    /// Starts the writer.
    pub(super) fn start(
        file: Arc<File>,
        connection: Connection,
        watches: Arc<Watches>,
    ) -> std::io::Result<Self> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (turns, log) = (Turns::new(), Log::of(&file));
        let turnstile = Arc::new(Turnstile::beside(&file.path));
        let mut writer =
            Writer { file, connection, queue, watches, turns, turnstile, log, last_group: 0 };
        let thread = std::thread::Builder::new().name("idempotent-sqlite-writer".to_owned());
        thread.spawn(move || writer.run())?;
        Ok(Self(requests))
    }

    pub(super) async fn swap(&self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Work::Swap { key: key.clone(), swap, answer }).await?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Removes at most so many records that have expired, and returns their number.
    pub(super) async fn expire(&self, limit: i64) -> Result<u64, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Work::Expire { limit, answer }).await?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn send(&self, work: Work) -> Result<(), StoreError> {
        let request = Request { work, asked: Instant::now() };
        self.0.send(request).await.map_err(|_| ended().without_effect())
    }
}

impl Request {
    /// `true` if its caller is gone: it need not be carried out.
    fn is_abandoned(&self) -> bool {
        match &self.work {
            Work::Swap { answer, .. } => answer.is_closed(),
            Work::Expire { answer, .. } => answer.is_closed(),
        }
    }

    /// `true` if it has to be taken also when the store is full.
    fn is_due(&self) -> bool {
        match &self.work {
            Work::Swap { swap, .. } => match swap.next {
                Next::Put { when_full, .. } => when_full == WhenFull::Take,
                Next::Extend { .. } | Next::Nothing => true,
            },
            Work::Expire { .. } => false,
        }
    }

    fn answer(self, outcome: Result<Outcome, StoreError>) {
        // A caller that no longer waits need not know.
        match (self.work, outcome) {
            (Work::Swap { answer, .. }, Ok(Outcome::Swapped(swapped))) => {
                let _ = answer.send(Ok(swapped));
            }
            (Work::Expire { answer, .. }, Ok(Outcome::Expired(count))) => {
                let _ = answer.send(Ok(count));
            }
            (Work::Swap { answer, .. }, Err(error)) => {
                let _ = answer.send(Err(error));
            }
            (Work::Expire { answer, .. }, Err(error)) => {
                let _ = answer.send(Err(error));
            }
            (Work::Swap { .. }, Ok(Outcome::Expired(_)))
            | (Work::Expire { .. }, Ok(Outcome::Swapped(_))) => {
                unreachable!("an outcome is that of its request")
            }
        }
    }
}

struct Writer {
    file: Arc<File>,
    connection: Connection,
    queue: mpsc::Receiver<Request>,
    watches: Arc<Watches>,
    turns: Turns,
    turnstile: Arc<Turnstile>,
    log: Log,
    /// The number of requests in the last group.
    last_group: usize,
}

impl Writer {
    fn run(&mut self) {
        loop {
            let next = match self.queue.try_recv() {
                Ok(request) => Some(request),
                Err(_) => {
                    self.turns.rest();
                    self.queue.blocking_recv()
                }
            };
            let Some(first) = next else { return };
            let turnstile = Arc::clone(&self.turnstile);
            let turn = turnstile.enter(first.asked + self.file.patience / 2);
            if let Err(error) = self.lock(&first) {
                first.answer(Err(error));
                continue;
            }
            let mut group = self.gather(first);
            group.retain(|request| !request.is_abandoned());
            self.carry_out(group);
            self.log.cut(&self.connection);
            drop(turn);
            self.turns.leave_gap(&self.connection);
        }
    }

    /// Takes the requests of a group. Those who were answered together mostly ask together again, within
    /// the time that it takes to wake them: as many as the last time are waited for, for a moment that is
    /// short beside a commit.
    fn gather(&mut self, first: Request) -> Vec<Request> {
        let mut group = vec![first];
        let give_up = Instant::now() + GATHERING;
        while group.len() < GROUP {
            match self.queue.try_recv() {
                Ok(request) => group.push(request),
                Err(_) if group.len() < self.last_group && Instant::now() < give_up => {
                    std::thread::yield_now();
                }
                Err(_) => break,
            }
        }
        self.last_group = group.len();
        group
    }

    /// Begins a transaction that holds the write lock.
    fn lock(&self, request: &Request) -> Result<(), StoreError> {
        if !self.connection.is_autocommit() {
            // An earlier one could not be rolled back.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let give_up = request.asked + self.file.patience;
        loop {
            match execute(&self.connection, "BEGIN IMMEDIATE", &[]) {
                Ok(_) => return Ok(()),
                Err(error) if is_busy(&error) && Instant::now() < give_up => {
                    std::thread::sleep(TRY_AGAIN);
                }
                Err(error) => return Err(store_error(error, &self.file)),
            }
        }
    }

    /// Carries out a group in the transaction that has begun, and answers.
    fn carry_out(&mut self, mut group: Vec<Request>) {
        match self.transact(&group, Values::Kept) {
            Ok(outcomes) => {
                for (request, outcome) in group.into_iter().zip(outcomes) {
                    match outcome {
                        Err(error) if error.kind() == StoreErrorKind::Full => {
                            self.make_room(request, error);
                        }
                        outcome => self.answer(request, outcome),
                    }
                }
            }
            Err(Failed::Unknown(error)) => {
                tracing::warn!(target: "idempotent", %error, "the outcome of a commit is unknown");
                for request in group {
                    request.answer(Err(StoreError::new(error.kind(), error.to_string())));
                }
            }
            Err(Failed::RolledBack(error)) if group.len() <= 1 => {
                let Some(request) = group.pop() else { return };
                match error.kind() {
                    StoreErrorKind::Full => self.make_room(request, error),
                    _ => request.answer(Err(error)),
                }
            }
            Err(Failed::RolledBack(_)) => {
                for request in group {
                    match self.lock(&request) {
                        Ok(()) => self.carry_out(vec![request]),
                        Err(error) => request.answer(Err(error)),
                    }
                }
            }
        }
    }

    /// Carries out a request for which there was no room: after expired records have made some, and,
    /// if it has to be taken, beyond the limit or without its value.
    fn make_room(&mut self, request: Request, mut full: StoreError) {
        let mut attempts = Vec::new();
        if self.expire_some() {
            attempts.push((self.file.max_pages, Values::Kept));
        }
        if request.is_due() {
            attempts.extend([(None, Values::Kept), (None, Values::LeftOut)]);
        }
        for (pages, values) in attempts {
            let _ = self.file.limit(&self.connection, pages);
            let outcome = self.alone(&request, values);
            let _ = self.file.limit(&self.connection, self.file.max_pages);
            match outcome {
                Err(error) if error.kind() == StoreErrorKind::Full => full = error,
                outcome => return self.answer(request, outcome),
            }
        }
        request.answer(Err(full));
    }

    fn expire_some(&mut self) -> bool {
        let (answer, _unheard) = oneshot::channel();
        let work = Work::Expire { limit: GROUP as i64, answer };
        let expired = self.alone(&Request { work, asked: Instant::now() }, Values::Kept);
        matches!(expired, Ok(Outcome::Expired(1..)))
    }

    /// Carries out one request in a transaction of its own.
    fn alone(&mut self, request: &Request, values: Values) -> Result<Outcome, StoreError> {
        self.lock(request)?;
        match self.transact(std::slice::from_ref(request), values) {
            Ok(mut outcomes) => outcomes.pop().unwrap_or_else(|| Err(ended().without_effect())),
            Err(Failed::RolledBack(error) | Failed::Unknown(error)) => Err(error),
        }
    }

    /// Carries out requests in the transaction that has begun, and commits.
    fn transact(
        &self,
        group: &[Request],
        values: Values,
    ) -> Result<Vec<Result<Outcome, StoreError>>, Failed> {
        let mut outcomes = Vec::with_capacity(group.len());
        for request in group {
            let outcome = self.perform(request, values);
            if self.connection.is_autocommit() {
                // SQLite has rolled back all of it, as it does when the disk fails.
                let error = outcome.err().unwrap_or_else(|| ended().without_effect());
                return Err(Failed::RolledBack(error));
            }
            outcomes.push(outcome);
        }
        let Err(error) = execute(&self.connection, "COMMIT", &[]) else { return Ok(outcomes) };
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let is_rolled_back = is_rolled_back(&error);
        let error = commit_error(error, &self.file);
        Err(if is_rolled_back { Failed::RolledBack(error) } else { Failed::Unknown(error) })
    }

    fn perform(&self, request: &Request, values: Values) -> Result<Outcome, StoreError> {
        match &request.work {
            Work::Swap { key, swap, .. } => {
                let key = KeyColumns::of(key);
                let swapped = records::swap(&self.connection, &self.file, &key, swap, values)?;
                Ok(Outcome::Swapped(swapped))
            }
            Work::Expire { limit, .. } => {
                let expired = records::expire(&self.connection, &self.file, *limit);
                expired.map(Outcome::Expired).map_err(|error| store_error(error, &self.file))
            }
        }
    }

    /// Answers, after the commit, and wakes the callers that wait for an attempt that has ended.
    fn answer(&self, request: Request, outcome: Result<Outcome, StoreError>) {
        if let Work::Swap { key, swap, .. } = &request.work
            && let Ok(Outcome::Swapped(Swapped::Done | Swapped::DoneWithoutValue)) = &outcome
            && ends_attempt(&swap.next)
        {
            self.watches.ended(&KeyColumns::of(key));
        }
        request.answer(outcome);
    }
}

fn ends_attempt(next: &Next) -> bool {
    match next {
        Next::Put { head, .. } => head.state != State::Processing,
        Next::Extend { .. } => false,
        Next::Nothing => true,
    }
}

/// The write-ahead log.
///
/// SQLite puts it into the file by itself as it grows, but begins it anew only when nobody reads it
/// at that moment. With many readers that may not come to pass for long.
struct Log {
    path: PathBuf,
    /// The moment before which it is not tried again to cut it.
    wait_until: Option<Instant>,
}

impl Log {
    fn of(file: &File) -> Self {
        let mut path = file.path.clone().into_os_string();
        path.push("-wal");
        Self { path: path.into(), wait_until: None }
    }

    /// Waits for those that read it, and cuts it, if it has grown too long.
    fn cut(&mut self, connection: &Connection) {
        let is_long = std::fs::metadata(&self.path).is_ok_and(|log| log.len() > LOG_SIZE);
        if !is_long || self.wait_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let _ = connection.busy_timeout(CUT_PATIENCE);
        let cut =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        let _ = connection.busy_timeout(Duration::ZERO);
        // Another connection has been reading for long: nothing can be done about it here.
        self.wait_until = (cut != Ok(0)).then(|| Instant::now() + CUT_AGAIN);
    }
}

/// Turns with other connections that write to the file.
struct Turns {
    /// The number by which SQLite tells that others have written.
    version: i64,
    others_wrote: Option<Instant>,
    /// The last moment at which others could get in.
    break_at: Instant,
}

impl Turns {
    fn new() -> Self {
        Self { version: 0, others_wrote: None, break_at: Instant::now() }
    }

    /// Nothing is to be done: others can get in.
    fn rest(&mut self) {
        self.break_at = Instant::now();
    }

    /// Leaves a gap after a commit, if others may be waiting.
    fn leave_gap(&mut self, connection: &Connection) {
        let version = connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut version| version.query_row([], |row| row.get(0)));
        if let Ok(version) = version
            && version != self.version
        {
            // Not the first time, when it is anybody's.
            if self.version != 0 {
                self.others_wrote = Some(Instant::now());
            }
            self.version = version;
        }
        if self.others_wrote.is_some_and(|at| at.elapsed() < LATELY) {
            std::thread::sleep(GAP);
            self.rest();
        } else if self.break_at.elapsed() > WITHOUT_BREAK {
            std::thread::sleep(LONG_GAP);
            self.rest();
        }
    }
}
