//! How do I keep records in a place of my own?
//!
//! A store reads a record, calls the state table, and writes what the table returns, as one atomic
//! step. This one keeps records in an append-only file, so that they survive a restart.
//!
//! It is for one process: the file is locked while the store is open. A line that a crash cut short
//! is ignored. Lines are not synced to disk, and the file is never compacted.
//!
//! ```text
//! cargo run --example custom_store
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::table::{self, Living, Step, Write};
use idempotent_runtime::store::{
    Answer, Armed, AttemptId, BeginRequest, Begun, Binding, Claim, Completed, Failure, Forgotten,
    Head, IfGone, Maintenance, Record, Renewed, Resolution, Resolved, Settled, State, Store,
    StoreError, StoreErrorKind, StoreFuture, Token, Value, Watch,
};
use idempotent_runtime::testing::{MAX_SLACK, Subject, contract};
use idempotent_runtime::{Error, Fingerprint, Idempotency, current, idempotent};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

#[derive(Debug)]
struct FileStore {
    records: Mutex<Records>,
    /// Sent to whenever a record changes: callers that wait for an answer need not poll.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Records {
    file: File,
    living: HashMap<String, Kept>,
}

#[derive(Debug)]
struct Kept {
    head: Head,
    value: Option<Value>,
    expires: Duration,
}

impl FileStore {
    /// Opens `path` and reads what it holds. Waits while another process has it open.
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path)?;
        file.lock()?;
        let mut living = HashMap::new();
        for line in BufReader::new(&file).lines() {
            let line: Line = match serde_json::from_str(&line?) {
                Ok(line) => line,
                // A line that a crash cut short was never acknowledged.
                Err(error) if error.is_eof() => continue,
                // To take a record that cannot be read for none would run its body again.
                Err(error) => return Err(error.into()),
            };
            match line.record {
                Some(record) => living.insert(line.key, record.into_kept()),
                None => living.remove(&line.key),
            };
        }
        let records = Mutex::new(Records { file, living });
        Ok(Self { records, changed: watch::Sender::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        // A verb writes its record in one go, so a panic leaves nothing half done.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One verb: read, decide, write. The lock makes it one step, and the line is written before
    /// anybody learns the answer.
    fn apply<A>(
        &self,
        key: &RecordKey,
        value: Option<Value>,
        step: impl FnOnce(Option<Living>) -> Step<A>,
    ) -> Result<(A, Option<Value>), StoreError> {
        let mut records = self.lock();
        let now = now();
        let (living, stored) = match records.get(key, now) {
            Some((kept, ttl)) => (Some(Living { head: kept.head, ttl }), kept.value.clone()),
            None => (None, None),
        };
        let (answer, write) = step(living);
        match write {
            Write::Keep => {}
            Write::Put { head, ttl } => {
                records.put(key, Some(Kept { head, value, expires: now + ttl }))?;
            }
            Write::Delete => records.put(key, None)?,
        }
        if write != Write::Keep {
            self.changed.send_replace(());
        }
        Ok((answer, stored))
    }

    fn answer<'a, A>(
        &self,
        key: &RecordKey,
        value: Option<Value>,
        step: impl FnOnce(Option<Living>) -> Step<A>,
    ) -> Answer<'a, A> {
        StoreFuture::ready(self.apply(key, value, step).map(|(answer, _)| answer))
    }
}

impl Records {
    fn get(&self, key: &RecordKey, now: Duration) -> Option<(&Kept, Duration)> {
        let kept = self.living.get(key.as_str())?;
        let ttl = kept.expires.saturating_sub(now);
        (!ttl.is_zero()).then_some((kept, ttl))
    }

    fn put(&mut self, key: &RecordKey, kept: Option<Kept>) -> Result<(), StoreError> {
        let key = key.as_str().to_owned();
        let line = Line { key, record: kept.as_ref().map(LineRecord::of) };
        self.append(&line).map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, "the file cannot be written")
                .with_source(error)
        })?;
        match kept {
            Some(kept) => self.living.insert(line.key, kept),
            None => self.living.remove(&line.key),
        };
        Ok(())
    }

    /// The line feed comes first: a line that could not be written in full does not spoil the next.
    fn append(&mut self, line: &Line) -> io::Result<()> {
        let text = format!("\n{}", serde_json::to_string(line)?);
        self.file.write_all(text.as_bytes())
    }
}

impl Store for FileStore {
    fn begin<'a>(&'a self, key: &'a RecordKey, request: &'a BeginRequest) -> Answer<'a, Begun> {
        let begun = self.apply(key, None, |record| table::begin(record, request));
        StoreFuture::ready(begun.map(|(begun, stored)| begun.with_value(|| stored)))
    }

    fn arm<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        linger: Duration,
    ) -> Answer<'a, Armed> {
        self.answer(key, None, |record| table::arm(record, attempt, linger))
    }

    fn complete<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        value: Option<Value>,
        retention: Duration,
        if_gone: IfGone,
    ) -> Answer<'a, Completed> {
        self.answer(key, value, |record| table::complete(record, attempt, retention, if_gone))
    }

    fn fail<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        failure: Failure,
        retention: Duration,
    ) -> Answer<'a, Settled> {
        let error = match &failure {
            Failure::Free(_) => None,
            Failure::Final(error) => error.clone(),
        };
        self.answer(key, error, |record| table::fail(record, attempt, &failure, retention))
    }

    fn abandon<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        self.answer(key, None, |record| table::abandon(record, attempt, retention, binding))
    }

    fn release<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        self.answer(key, None, |record| table::release(record, attempt, retention, binding))
    }

    fn renew<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        lease: Duration,
    ) -> Answer<'a, Renewed> {
        self.answer(key, None, |record| table::renew(record, attempt, lease))
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        let records = self.lock();
        let record = records
            .get(key, now())
            .map(|(kept, ttl)| Record::new(kept.head, kept.value.clone(), ttl));
        StoreFuture::ready(Ok(record))
    }

    fn forget<'a>(&'a self, key: &'a RecordKey, force: bool) -> Answer<'a, Forgotten> {
        self.answer(key, None, |record| table::forget(record, force))
    }

    fn resolve<'a>(
        &'a self,
        key: &'a RecordKey,
        resolution: Resolution,
        retention: Duration,
    ) -> Answer<'a, Resolved> {
        let value = match &resolution {
            Resolution::Succeeded(value) => value.clone(),
            Resolution::Retry => None,
        };
        self.answer(key, value, |record| table::resolve(record, &resolution, retention))
    }

    /// Wakes for every record, which is allowed. Changes count from here, polled or not.
    fn watch<'a>(&'a self, _: &'a RecordKey) -> Answer<'a, Watch> {
        let mut changed = self.changed.subscribe();
        StoreFuture::ready(Ok(Watch::new(async move { drop(changed.changed().await) })))
    }

    fn maintain(&self) -> Maintenance {
        let mut records = self.lock();
        let now = now();
        let before = records.living.len();
        records.living.retain(|_, kept| kept.expires > now);
        let mut done = Maintenance::default();
        done.expired = (before - records.living.len()) as u64;
        done
    }
}

/// One line of the file. Times are wall time, which goes on while the process is down.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    record: Option<LineRecord>,
}

#[derive(Serialize, Deserialize)]
struct LineRecord {
    state: State,
    token: [u8; 16],
    number: u32,
    fence: u64,
    fingerprint: Option<[u8; 16]>,
    claim: Claim,
    expires: Duration,
    value: Option<Vec<u8>>,
}

impl LineRecord {
    fn of(kept: &Kept) -> Self {
        let Head { attempt, state } = kept.head;
        Self {
            state,
            token: attempt.token.to_bytes(),
            number: attempt.number,
            fence: attempt.fence,
            fingerprint: attempt.fingerprint.map(Fingerprint::to_bytes),
            claim: attempt.claim,
            expires: kept.expires,
            value: kept.value.as_ref().map(|value| value.as_bytes().to_vec()),
        }
    }

    fn into_kept(self) -> Kept {
        let attempt = AttemptId {
            token: Token::from_bytes(self.token),
            number: self.number,
            fence: self.fence,
            fingerprint: self.fingerprint.map(Fingerprint::from_bytes),
            claim: self.claim,
        };
        let head = Head { attempt, state: self.state };
        Kept { head, value: self.value.map(Value::from), expires: self.expires }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How the contract suite lets time pass: the records get older at once.
struct Examined(Arc<FileStore>);

impl Subject for Examined {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        let mut records = self.0.lock();
        for key in keys {
            if let Some(kept) = records.living.get_mut(key.as_str()) {
                kept.expires = kept.expires.saturating_sub(by);
            }
        }
        StoreFuture::ready(())
    }

    /// Wall time goes on while a case runs.
    fn slack(&self) -> Duration {
        MAX_SLACK
    }
}

#[idempotent(key = "number", name = "invoices.print", expire = "24h", mode = "strong", with = idem)]
async fn print_invoice(idem: &Idempotency, number: u32) -> Result<String, Error> {
    let attempt = current().map_or(0, |attempt| attempt.attempt());
    Ok(format!("invoice {number}, printed by process {}, attempt {attempt}", process_number()))
}

static PROCESS: AtomicU32 = AtomicU32::new(0);

fn process_number() -> u32 {
    PROCESS.load(Relaxed)
}

/// What each process does: open the store, print an invoice, go away.
async fn process(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    PROCESS.fetch_add(1, Relaxed);
    let idem = Idempotency::builder().store(FileStore::open(path)?).build()?;
    let printed = print_invoice(&idem, 18).await?;
    println!("process {}  print_invoice(18) -> {printed}", process_number());
    idem.shutdown(Duration::from_secs(1)).await;
    Ok(printed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("custom_store.{}.jsonl", std::process::id()));
    let first = process(&path).await?;
    let second = process(&path).await?;
    assert_eq!(first, second, "the second process got the answer of the first");

    println!("\nthe file");
    let text = std::fs::read_to_string(&path)?;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let line: Line = serde_json::from_str(line)?;
        let record = line.record.ok_or("nothing was deleted")?;
        let state = format!("{:?}", record.state);
        println!("  {}  {state:<10}  attempt {}", line.key, record.number);
    }

    contract::all(&Examined(Arc::new(FileStore::open(&path)?))).await;
    println!("\nthe contract suite: passed");
    std::fs::remove_file(&path)?;
    Ok(())
}
