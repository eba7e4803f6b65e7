//! A payment whose declined card is replayed, and whose timeout can be tried again.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example payment_errors
//! REDIS_URL=redis://127.0.0.1/ cargo run -p idempotent-recipe-examples --example payment_errors
//! ```
//!
//! The page about it is `docs/recipes/payment-errors.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Idempotency, current, idempotent, ids, retention};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum PaymentError {
    #[error("the card was declined: {0}")]
    Declined(String),
    #[error("the provider did not answer in time")]
    Timeout,
    #[error(transparent)]
    Refused(#[from] idempotent_runtime::Error),
}

impl PaymentError {
    fn is_final(&self) -> bool {
        matches!(self, Self::Declined(_))
    }
}

#[derive(Debug)]
struct Payment {
    id: String,
    card: &'static str,
    cents: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    charge: usize,
    cents: u64,
}

#[idempotent(
    name = "payments.charge",
    key = "payment.id",
    fingerprint = "(payment.card, payment.cents)",
    mode = "strong",
    expire = retention::PAYMENTS,
    final_errors = PaymentError::is_final
)]
async fn charge(provider: &Provider, payment: &Payment) -> Result<Receipt, PaymentError> {
    // The same key in every attempt, so the provider charges once.
    let derived = current().map(|attempt| attempt.derived_key("provider.charge"));
    let key = derived.as_deref().unwrap_or(&payment.id);
    provider.charge(key, payment.card, payment.cents).await
}

/// A payment provider, which remembers requests by their key as real ones do.
#[derive(Default)]
struct Provider(Mutex<Books>);

#[derive(Default)]
struct Books {
    requests: u32,
    charges: HashMap<String, Receipt>,
}

impl Provider {
    async fn charge(&self, key: &str, card: &str, cents: u64) -> Result<Receipt, PaymentError> {
        let mut books = self.0.lock().unwrap();
        books.requests += 1;
        if let Some(receipt) = books.charges.get(key) {
            return Ok(receipt.clone());
        }
        if card == "expired" {
            return Err(PaymentError::Declined("expired".to_owned()));
        }
        let receipt = Receipt { charge: books.charges.len() + 1, cents };
        books.charges.insert(key.to_owned(), receipt.clone());
        if card == "slow" {
            // The money has moved, and the answer is lost.
            return Err(PaymentError::Timeout);
        }
        Ok(receipt)
    }

    fn requests(&self) -> u32 {
        self.0.lock().unwrap().requests
    }

    fn charges(&self) -> usize {
        self.0.lock().unwrap().charges.len()
    }
}

/// The instance for this process: on Redis if `REDIS_URL` names one.
async fn instance() -> Result<Idempotency, Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        println!("REDIS_URL is not set: records are in the memory of this process");
        return Ok(Idempotency::in_memory()?);
    };
    println!("records are in Redis");
    Ok(Idempotency::builder().store(RedisStore::connect(&url).await?).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    instance().await?.install()?;
    let provider = Provider::default();
    // Ids of its own for each run of the program: Redis remembers those of the last one.
    let payment = |card| Payment { id: ids::uuid_v7(), card, cents: 2_000 };

    let declined = payment("expired");
    for _ in 0..2 {
        let error = charge(&provider, &declined).await.unwrap_err();
        println!("expired card: {error}");
        assert!(matches!(error, PaymentError::Declined(_)));
    }
    assert_eq!(provider.requests(), 1, "the second answer is the stored one");

    let slow = payment("slow");
    let error = charge(&provider, &slow).await.unwrap_err();
    println!("slow provider: {error}");
    assert!(matches!(error, PaymentError::Timeout));
    let receipt = charge(&provider, &slow).await?;
    println!("slow provider, again: {receipt:?}");
    assert_eq!((provider.requests(), provider.charges()), (3, 1), "asked again, charged once");

    let again = charge(&provider, &slow).await?;
    println!("and again: {again:?}");
    assert_eq!((again, provider.requests()), (receipt, 3), "the provider is not asked");

    let changed = Payment { cents: 9_900, ..slow };
    let error = charge(&provider, &changed).await.unwrap_err();
    println!("another amount: {error}");
    assert!(matches!(error, PaymentError::Refused(_)));
    Ok(())
}
