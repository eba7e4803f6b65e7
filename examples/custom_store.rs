//! Records in a place of your own: a store that keeps them in an append-only file.
//!
//! A store compares and swaps; the rules are the library's. Records survive a restart here. One
//! process at a time has the file. Lines are not synced to disk, and the file is never compacted.
//!
//! ```text
//! cargo run --example custom_store
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Next, Record, Store, StoreError, StoreErrorKind, StoreFuture, Swap, Swapped, wire,
};
use idempotent_runtime::testing::{MAX_SLACK, Subject, contract};
use idempotent_runtime::{Error, Idempotency, idempotent};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
struct FileStore(Arc<Mutex<Records>>);

#[derive(Debug)]
struct Records {
    file: File,
    /// Bytes, none if deleted, and when they expire: by wall time, which a restart does not stop.
    by_key: HashMap<String, (Vec<u8>, Duration)>,
}

impl FileStore {
    /// Opens `path` and reads what it holds. Waits while another process has it open.
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path)?;
        file.lock()?;
        let mut by_key = HashMap::new();
        for line in BufReader::new(&file).lines() {
            match serde_json::from_str::<(String, _)>(&line?) {
                Ok((key, kept)) => drop(by_key.insert(key, kept)),
                // A line that a crash cut short was never acknowledged.
                Err(error) if error.is_eof() => {}
                // To take a record that cannot be read for none would run its body again.
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(Arc::new(Mutex::new(Records { file, by_key }))))
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        // A record is written in one go, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock makes each of them one step.
impl Store for FileStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::ready(self.lock().load(key))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::ready(self.lock().swap(key, swap))
    }
}

impl Records {
    fn load(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let kept = self.by_key.get(key.as_str()).filter(|(bytes, _)| !bytes.is_empty());
        let Some((bytes, expires)) = kept else { return Ok(None) };
        let (head, value) = wire::decode(bytes)?;
        let record = Record::new(head, value, expires.saturating_sub(now()));
        Ok(Some(record).filter(|record| !record.ttl.is_zero()))
    }

    fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let found = self.load(key)?;
        if !swap.seen.holds(found.as_ref()) {
            return Ok(Swapped::Found(found.map(Into::into)));
        }
        let (bytes, ttl) = match (swap.next, found) {
            (Next::Put { head, value, ttl, .. }, _) => (wire::encode(&head, value.as_ref()), ttl),
            (Next::Extend { ttl }, Some(Record { head, value, ttl: left, .. })) => {
                (wire::encode(&head, value.as_ref()), ttl.max(left))
            }
            (Next::Extend { .. }, None) | (Next::Nothing, _) => (Vec::new(), Duration::ZERO),
        };
        // Written before anybody learns of it. A line that was cut short does not spoil the next.
        let (key, kept) = (key.as_str().to_owned(), (bytes, now() + ttl));
        let line = serde_json::to_string(&(&key, &kept)).map_err(io::Error::from);
        line.and_then(|line| write!(self.file, "\n{line}")).map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, "the line is lost").with_source(error)
        })?;
        self.by_key.insert(key, kept);
        Ok(Swapped::Done)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// For the contract suite. Records get older at once, and wall time goes on while a case runs.
impl Subject for FileStore {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        for (_, expires) in self.lock().by_key.values_mut() {
            *expires = expires.saturating_sub(by);
        }
        StoreFuture::ready(())
    }

    fn slack(&self) -> Duration {
        MAX_SLACK
    }

    fn wakes(&self) -> bool {
        false
    }

    fn scans(&self) -> bool {
        false
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
    contract::all(&FileStore::open(&path)?).await;
    println!("\nthe contract suite: passed");
    Ok(std::fs::remove_file(&path)?)
}
