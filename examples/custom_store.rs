//! Records in a place of your own: a store that keeps them in an append-only file.
//!
//! A store compares and swaps; the rules are the library's. Records survive a restart here. One
//! process at a time has the file. A line that a crash cut short is ignored; lines are not synced to
//! disk, and the file is never compacted.
//!
//! ```text
//! cargo run --example custom_store
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Next, Record, Seen, Store, StoreError, StoreErrorKind, StoreFuture, Swap, Swapped, wire,
};
use idempotent_runtime::testing::{MAX_SLACK, Subject, contract};
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug)]
struct FileStore(Mutex<Records>);

#[derive(Debug)]
struct Records {
    file: File,
    by_key: HashMap<String, Kept>,
}

/// The bytes of a record, none if it was deleted. It expires by wall time, which goes on while the
/// process is down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    bytes: Vec<u8>,
    expires: Duration,
}

impl FileStore {
    /// Opens `path` and reads what it holds. Waits while another process has it open.
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path)?;
        file.lock()?;
        let mut by_key = HashMap::new();
        for line in BufReader::new(&file).lines() {
            match serde_json::from_str::<(String, Kept)>(&line?) {
                Ok((key, kept)) => drop(by_key.insert(key, kept)),
                // A line that a crash cut short was never acknowledged.
                Err(error) if error.is_eof() => {}
                // To take a record that cannot be read for none would run its body again.
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(Mutex::new(Records { file, by_key })))
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        // A record is written in one go, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records {
    fn load(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let Some(kept) = self.by_key.get(key.as_str()) else { return Ok(None) };
        let ttl = kept.expires.saturating_sub(now());
        if kept.bytes.is_empty() || ttl.is_zero() {
            return Ok(None);
        }
        let (head, value) = wire::decode(&kept.bytes)?;
        Ok(Some(Record::new(head, value, ttl)))
    }

    /// The line is written before anybody learns of it. The line feed comes first: a line that could
    /// not be written in full does not spoil the next.
    fn write(&mut self, key: &RecordKey, bytes: Vec<u8>, ttl: Duration) -> Result<(), StoreError> {
        let line = (key.as_str().to_owned(), Kept { bytes, expires: now() + ttl });
        let written = serde_json::to_string(&line).map_err(io::Error::from);
        written.and_then(|text| write!(self.file, "\n{text}")).map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, "the file cannot be written")
                .with_source(error)
        })?;
        self.by_key.insert(line.0, line.1);
        Ok(())
    }

    /// The lock around this makes it one step.
    fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let found = self.load(key)?;
        let holds = match (&swap.seen, &found) {
            (Seen::Nothing, None) => true,
            (Seen::This { head, at_most }, Some(record)) => {
                record.head == *head && at_most.is_none_or(|at_most| record.ttl <= at_most)
            }
            _ => false,
        };
        match (swap.next, found) {
            (_, found) if !holds => return Ok(Swapped::Found(found.map(Into::into))),
            (Next::Put { head, value, ttl, .. }, _) => {
                self.write(key, wire::encode(&head, value.as_ref()), ttl)?;
            }
            (Next::Extend { ttl }, Some(record)) if ttl > record.ttl => {
                self.write(key, wire::encode(&record.head, record.value.as_ref()), ttl)?;
            }
            (Next::Extend { .. }, _) => {}
            (Next::Nothing, _) => self.write(key, Vec::new(), Duration::ZERO)?,
        }
        Ok(Swapped::Done)
    }
}

impl Store for FileStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::ready(self.lock().load(key))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::ready(self.lock().swap(key, swap))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Lets time pass for the contract suite: the records get older at once.
struct Examined(Arc<FileStore>);

impl Subject for Examined {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        let mut records = self.0.lock();
        for key in keys {
            if let Some(kept) = records.by_key.get_mut(key.as_str()) {
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
async fn print_invoice(idem: &Idempotency, number: u32, process: u32) -> Result<String, Error> {
    Ok(format!("invoice {number}, printed by process {process}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("custom_store.{}.jsonl", std::process::id()));
    for process in 1..=2 {
        let idem = Idempotency::builder().store(FileStore::open(&path)?).build()?;
        let printed = print_invoice(&idem, 18, process).await?;
        println!("process {process}  print_invoice(18) -> {printed}");
        assert_eq!(printed, "invoice 18, printed by process 1");
        idem.shutdown(Duration::from_secs(1)).await;
    }
    contract::all(&Examined(Arc::new(FileStore::open(&path)?))).await;
    println!("\nthe contract suite: passed");
    std::fs::remove_file(&path)?;
    Ok(())
}
