//! A transfer whose outcome is unknown, and an operator who settles it.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example blocked_key
//! ```
//!
//! The page about it is `docs/recipes/blocked-key.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::protocol::Resolved;
use idempotent_runtime::store::{Claim, Filter, Listed, State};
use idempotent_runtime::{Abandon, Error, ErrorKind, Idempotency, Resolution, idempotent};
use std::sync::Mutex;
use std::time::Duration;

/// Answers with the bank's receipt.
#[idempotent(name = "money.wire", key = "transfer", mode = "strong", abandon = "block")]
async fn wire_money(transfer: u64) -> Result<String, Error> {
    BANK.wire(transfer).await
}

/// The keys of transfers that wait for an operator, whether the caller went away or its process died.
async fn blocked(idem: &Idempotency) -> Result<Vec<Listed>, Box<dyn std::error::Error>> {
    let transfers = Filter::new().operation("money.wire");
    let (mut blocked, mut next) = (Vec::new(), None);
    loop {
        let page = idem.store().scan(&transfers, next.as_ref(), 500).await?;
        blocked.extend(page.records.into_iter().filter(is_blocked));
        next = page.next;
        if next.is_none() {
            return Ok(blocked);
        }
    }
}

fn is_blocked(record: &Listed) -> bool {
    let lease_is_over = record.head.lease_left(record.ttl).is_zero();
    match (record.head.state, record.head.attempt.claim) {
        (State::Abandoned, _) => true,
        // Its process died: nothing was written at its end.
        (State::Processing, Claim::Lease { abandon: Abandon::Block, .. }) => lease_is_over,
        _ => false,
    }
}

/// Settles a key by what the bank's books say.
async fn settle(
    idem: &Idempotency,
    record: &Listed,
    receipt: Option<&String>,
) -> Result<Resolved, Error> {
    let handle = idem.record(&record.key).expire(Duration::from_secs(24 * 3_600));
    match receipt {
        // It took place: this is the answer for everybody who asks again.
        Some(receipt) => handle.resolve(Resolution::Succeeded(Some(receipt))).await,
        // It did not: the next caller runs.
        None => handle.resolve::<String>(Resolution::Retry).await,
    }
}

static BANK: Bank = Bank(Mutex::new(Vec::new()));

/// A bank that does not answer at first. Transfer 1 has reached it by then, and transfer 2 has not.
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

    fn requests_for(&self, transfer: u64) -> usize {
        self.0.lock().unwrap().iter().filter(|it| **it == transfer).count()
    }
}

/// The caller goes away in the middle of the body, as one does whose client closes the connection.
async fn cut_off(idem: &Idempotency, transfer: u64) -> Result<(), Box<dyn std::error::Error>> {
    let caller = tokio::spawn(wire_money(transfer));
    while BANK.requests_for(transfer) == 0 {
        tokio::task::yield_now().await;
    }
    caller.abort();
    drop(caller.await);
    while idem.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    idem.install()?;
    for transfer in [1, 2] {
        cut_off(&idem, transfer).await?;
        let error = wire_money(transfer).await.unwrap_err();
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
    }
    assert_eq!((BANK.requests_for(1), BANK.requests_for(2)), (1, 1), "nothing is tried again");

    let records = blocked(&idem).await?;
    assert_eq!(records.len(), 2);
    for record in &records {
        let text = record.key.as_str();
        // The key ends with the number of the transfer, by which the operator asks the bank.
        let receipt = text.ends_with("|1").then(|| "receipt 1".to_owned());
        let resolved = settle(&idem, record, receipt.as_ref()).await?;
        let found = receipt.map_or("nothing: may be tried again", |_| "the transfer: done");
        println!("{text}: the bank's books have {found}");
        assert_eq!(resolved, Resolved::Done);
    }
    assert!(blocked(&idem).await?.is_empty());

    println!("transfer 1: {}", wire_money(1).await?);
    println!("transfer 2: {}", wire_money(2).await?);
    assert_eq!(BANK.requests_for(1), 1, "the operator's answer is replayed");
    assert_eq!(BANK.requests_for(2), 2, "the retry ran");
    Ok(())
}
