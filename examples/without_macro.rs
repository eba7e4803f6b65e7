//! How do I use the engine without the attribute?
//!
//! For keys that are known only at run time, work that is not one function, and operators' tools.
//!
//! ```text
//! cargo run --example without_macro
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::{Abandon, Begin, Error, Idempotency, Mode, Operation, Resolution};
use std::time::Duration;

type AnyError = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let idem = Idempotency::in_memory()?;
    run(&idem).await?;
    begin_and_end(&idem).await?;
    look_and_forget(&idem).await?;
    resolve(&idem).await
}

/// `run` is the attribute as a method. The body is any future.
async fn run(idem: &Idempotency) -> Result<(), AnyError> {
    println!("run and run_detailed");
    // A tuple is a key; so is everything else that the attribute takes.
    let order = idem
        .operation("orders.create")
        .key(("acme", 42))
        .mode(Mode::Strong)
        .expire(Duration::from_secs(300));

    let id: u64 = order.clone().run(async { Ok::<_, Error>(7001) }).await?;
    println!("  run           -> {id}");

    let again = order.run_detailed(async { Ok::<u64, Error>(9999) }).await?;
    println!("  run_detailed  -> {again:?}");
    assert_eq!((again.value, again.replayed, again.attempt), (7001, true, 1));
    Ok(())
}

/// `begin` hands out the right to run; `complete` or `fail` gives it back. The lease is renewed in
/// between, however long that takes.
async fn begin_and_end(idem: &Idempotency) -> Result<(), AnyError> {
    println!("\nbegin, fail, complete");
    let import = idem.operation("files.import").key("2026-11.csv").mode(Mode::Strong);

    let attempt = fresh(&import).await?;
    println!("  begin         -> Fresh, attempt {}, fence {}", attempt.number(), attempt.fence());
    // Only the owner of the attempt can end it. Other callers are told to wait.
    let Begin::InFlight { retry_after } = import.begin().await? else { panic!("begun twice") };
    println!("  begin         -> InFlight, retry after {} s at the latest", retry_after.as_secs());

    let first_fence = attempt.fence();
    attempt.fail().await?;
    println!("  fail          -> the key is free");

    let attempt = fresh(&import).await?;
    println!("  begin         -> Fresh, attempt {}, fence {}", attempt.number(), attempt.fence());
    assert!(attempt.number() == 2 && attempt.fence() > first_fence);
    attempt.complete(&1200_u32).await?;
    println!("  complete      -> stored");

    let Begin::Replay(stored) = import.begin().await? else { panic!("nothing was stored") };
    let rows: u32 = stored.decode()?;
    println!("  begin         -> Replay of {rows} rows, by attempt {}", stored.attempt());
    assert_eq!(rows, 1200);
    Ok(())
}

/// `get` looks at a record, `forget` removes it.
async fn look_and_forget(idem: &Idempotency) -> Result<(), AnyError> {
    println!("\nget and forget");
    let import = idem.operation("files.import").key("2026-11.csv").mode(Mode::Strong);
    let record = import.get().await?.ok_or("the record is gone")?;
    println!("  record_key    -> {}", import.record_key()?.as_str());
    println!("  get           -> {:?}, {:?}", record.head.state, record.value);

    let forgotten = import.forget(false).await?;
    println!("  forget        -> {forgotten:?}");
    assert_eq!(forgotten, Forgotten::Deleted);
    assert!(import.get().await?.is_none());

    // A key that is held is freed by force only, and its owner finds out.
    let attempt = fresh(&import).await?;
    println!(
        "  forget        -> {:?}, while an attempt holds the key",
        import.forget(false).await?
    );
    println!("  forget, force -> {:?}", import.forget(true).await?);
    let Err(superseded) = attempt.complete(&1_u32).await else { panic!("it was not superseded") };
    println!("  complete      -> {superseded}");
    Ok(())
}

/// With `Abandon::Block`, an attempt that vanished is not repeated until an operator has looked.
async fn resolve(idem: &Idempotency) -> Result<(), AnyError> {
    println!("\nresolve");
    let payment = idem
        .operation("payments.capture")
        .key(42)
        .mode(Mode::Strong)
        .abandon(Abandon::Block)
        .expire(Duration::from_secs(3600));

    // Dropped without an end: the money may have moved or not.
    drop(fresh(&payment).await?);
    let Begin::Indeterminate { attempt } = payment.begin().await? else { panic!("it was free") };
    println!("  begin         -> Indeterminate, attempt {attempt} was dropped");

    // The bank's statement says that it did.
    let resolved = payment.resolve(Resolution::Succeeded(Some(&"receipt 18"))).await?;
    println!("  resolve       -> {resolved:?}");
    assert_eq!(resolved, Resolved::Done);

    let receipt: String = payment.run(async { Err(PaymentError::Declined) }).await?;
    println!("  run           -> {receipt:?}, without running its body");
    assert_eq!(receipt, "receipt 18");
    Ok(())
}

async fn fresh(operation: &Operation<'_>) -> Result<idempotent_runtime::Attempt, AnyError> {
    match operation.begin().await? {
        Begin::Fresh(attempt) => Ok(attempt),
        other => Err(format!("expected a fresh attempt, got {other:?}").into()),
    }
}

/// The error of a payment: the bank's answer, or a refused call.
#[derive(Debug)]
enum PaymentError {
    Declined,
    Refused(Error),
}

impl From<Error> for PaymentError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl std::fmt::Display for PaymentError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Declined => formatter.write_str("declined"),
            Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for PaymentError {}
