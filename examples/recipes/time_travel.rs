//! Tests that move time: retention, leases and waits without sleeping.
//!
//! ```text
//! cargo test -p idempotent-recipe-examples --example time_travel
//! cargo run -p idempotent-recipe-examples --example time_travel
//! ```
//!
//! The page about it is `docs/recipes/time-travel.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{Error, Idempotency, idempotent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A service as it may be in any program: it is given its instance and its mail server.
struct Newsletter {
    idem: Idempotency,
    mail: Arc<MailServer>,
}

impl Newsletter {
    /// Sends the welcome mail, once in thirty days, and answers with its number.
    #[idempotent(
        name = "newsletter.welcome",
        key = "address",
        mode = "strong",
        expire = "30d",
        lease = "30s",
        with = self.idem
    )]
    async fn welcome(&self, address: &str) -> Result<u32, Error> {
        Ok(self.mail.send(address).await)
    }
}

/// Counts mails in the place of a real server.
#[derive(Default)]
struct MailServer {
    mails: AtomicU32,
    hangs: bool,
}

impl MailServer {
    async fn send(&self, _address: &str) -> u32 {
        let number = self.mails.fetch_add(1, Relaxed) + 1;
        if self.hangs {
            std::future::pending::<()>().await;
        }
        number
    }

    fn mails(&self) -> u32 {
        self.mails.load(Relaxed)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let idem = Idempotency::builder().clock(&clock).build()?;
    let letters = Newsletter { idem, mail: Arc::default() };
    for days in [0, 29, 1] {
        clock.advance(Duration::from_secs(days * 24 * 3_600));
        println!("{days:>2} days later: mail {}", letters.welcome("ada@example.com").await?);
    }
    assert_eq!(letters.mail.mails(), 2);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::Begin;
    use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store};

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(24 * 3_600);

    #[tokio::test]
    async fn a_mail_is_sent_again_after_thirty_days_and_not_before() {
        let clock = ManualClock::new();
        let idem = Idempotency::builder().clock(&clock).build().unwrap();
        let letters = Newsletter { idem, mail: Arc::default() };
        assert_eq!(letters.welcome("ada@example.com").await.unwrap(), 1);

        clock.advance(30 * DAY - SECOND);
        assert_eq!(letters.welcome("ada@example.com").await.unwrap(), 1, "the stored answer");

        clock.advance(SECOND);
        assert_eq!(letters.welcome("ada@example.com").await.unwrap(), 2, "it has expired");
    }

    /// Two instances on one store are two processes. The clock of the first one stands still, so it
    /// does not renew its lease.
    #[tokio::test]
    async fn a_process_that_froze_is_taken_over_when_its_lease_ends() {
        let (clock, frozen_clock) = (ManualClock::new(), ManualClock::new());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with(MemoryOptions::new().clock(&clock)));
        let process = |clock: &ManualClock, hangs| {
            let builder = Idempotency::builder().shared_store(Arc::clone(&store)).clock(clock);
            let mail = MailServer { hangs, ..MailServer::default() };
            Newsletter { idem: builder.build().unwrap(), mail: Arc::new(mail) }
        };
        let (frozen, healthy) = (process(&frozen_clock, true), process(&clock, false));
        let mail = Arc::clone(&frozen.mail);
        let hanging = tokio::spawn(async move { frozen.welcome("ada@example.com").await });
        while mail.mails() == 0 {
            tokio::task::yield_now().await;
        }

        clock.advance(29 * SECOND);
        let record = healthy.idem.operation("newsletter.welcome").key("ada@example.com");
        assert!(matches!(record.begin().await.unwrap(), Begin::InFlight { .. }), "still held");

        clock.advance(SECOND);
        assert_eq!(healthy.welcome("ada@example.com").await.unwrap(), 1);
        assert_eq!(healthy.mail.mails(), 1, "it ran the body itself");
        hanging.abort();
    }
}
