//! A transfer whose outcome is unknown, and an operator who settles it.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example blocked_key
//! ```
//!
//! The page about it is `docs/recipes/blocked-key.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::protocol::Resolved;
use idempotent_runtime::store::{Filter, Listed, MemoryOptions, MemoryStore, Store};
use idempotent_runtime::testing::{ManualClock, scoped};
use idempotent_runtime::{
    Disposition, Error, ErrorKind, Idempotency, Resolution, idempotent, retention,
};
use std::sync::{Arc, Mutex};

/// Answers with the bank's receipt.
#[idempotent(
    name = "money.wire",
    key = "transfer",
    mode = "strong",
    expire = retention::PAYMENTS,
    abandon = "block"
)]
async fn wire_money(transfer: u64) -> Result<String, Error> {
    BANK.wire(transfer).await
}

/// The keys of transfers that wait for an operator, whether the caller went away or its process died.
async fn blocked(idem: &Idempotency) -> Result<Vec<Listed>, Box<dyn std::error::Error>> {
    let transfers = Filter::new().operation("money.wire").blocked();
    let (mut blocked, mut next) = (Vec::new(), None);
    loop {
        let page = idem.store().scan(&transfers, next.as_ref(), 500).await?;
        blocked.extend(page.records);
        next = page.next;
        if next.is_none() {
            return Ok(blocked);
        }
    }
}

/// Settles a key by what the bank's books say.
async fn settle(
    idem: &Idempotency,
    record: &Listed,
    receipt: Option<&String>,
) -> Result<Resolved, Error> {
    let handle = idem.record(&record.key).expire(retention::PAYMENTS);
    match receipt {
        // It took place: this is the answer for every repeat call.
        Some(receipt) => handle.resolve(Resolution::Succeeded(Some(receipt))).await,
        // It did not: the next caller runs.
        None => handle.resolve::<String>(Resolution::Retry).await,
    }
}

static BANK: Bank = Bank(Mutex::new(Vec::new()));

/// A bank that does not answer the first request for a transfer.
struct Bank(Mutex<Vec<u64>>);

impl Bank {
    async fn wire(&self, transfer: u64) -> Result<String, Error> {
        let is_first = {
            let mut requests = self.0.lock().unwrap();
            requests.push(transfer);
            requests.iter().filter(|it| **it == transfer).count() == 1
        };
        if is_first {
            std::future::pending::<()>().await;
        }
        Ok(format!("receipt {transfer}"))
    }

    /// Waits for the first request.
    async fn asked_for(&self, transfer: u64) {
        while self.requests_for(transfer) == 0 {
            tokio::task::yield_now().await;
        }
    }

    fn requests_for(&self, transfer: u64) -> usize {
        self.0.lock().unwrap().iter().filter(|it| **it == transfer).count()
    }
}

/// The caller goes away in the middle of the body, as one does whose client closes the connection.
async fn cut_off(idem: &Idempotency, transfer: u64) {
    let caller = tokio::spawn(wire_money(transfer));
    BANK.asked_for(transfer).await;
    caller.abort();
    drop(caller.await);
    while idem.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with(MemoryOptions::new().clock(&clock)));
    let process = |clock: &ManualClock| {
        Idempotency::builder().shared_store(Arc::clone(&store)).clock(clock).build()
    };
    let idem = process(&clock)?;
    idem.install()?;
    cut_off(&idem, 1).await;
    cut_off(&idem, 2).await;
    // A process whose clock has stopped stands for one that was killed: nothing renews its lease.
    let killed = process(&ManualClock::new())?;
    tokio::spawn(scoped(killed, wire_money(3)));
    BANK.asked_for(3).await;
    clock.advance(idem.config().lease);

    let mut refusals = Vec::new();
    for transfer in [1, 2, 3] {
        let error = wire_money(transfer).await.unwrap_err();
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert_eq!(error.disposition(), Disposition::AskOperator);
        refusals.push(error.to_string());
    }
    assert_eq!([1, 2, 3].map(|it| BANK.requests_for(it)), [1, 1, 1], "nothing is tried again");

    let records = blocked(&idem).await?;
    assert_eq!(records.len(), 3);
    for record in &records {
        let (text, hash) = (record.key.as_str(), record.key.hashed());
        assert!(refusals.iter().any(|refusal| refusal.contains(&hash)), "{hash} is in no error");
        // The key ends with the number of the transfer, by which the operator asks the bank.
        let receipt = (!text.ends_with("|2")).then(|| "receipt from the books".to_owned());
        assert_eq!(settle(&idem, record, receipt.as_ref()).await?, Resolved::Done);
        let found = receipt.map_or("nothing: may be tried again", |_| "the transfer: done");
        println!("{text}: the bank's books have {found}");
    }
    assert!(blocked(&idem).await?.is_empty());

    for transfer in [1, 2, 3] {
        println!("transfer {transfer}: {}", wire_money(transfer).await?);
    }
    assert_eq!([1, 2, 3].map(|it| BANK.requests_for(it)), [1, 2, 1], "one retry, two replays");
    Ok(())
}
