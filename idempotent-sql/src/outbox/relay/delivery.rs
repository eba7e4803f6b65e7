//! One key: claim it, send its first messages, settle them.

use super::database::{Failed, Stored};
use super::decide::{Failure, Verdict, sendable, verdict};
use super::status::add;
use super::{Control, Shared};
use crate::TransactionPool;
use crate::client::SqlError;
use crate::outbox::error::is_lost_race;
use crate::outbox::lane::Lane;
use crate::outbox::{Outgoing, PublishErrorKind, Publisher};
use idempotent_runtime::store::Token;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The number of times that messages are deleted before they are left to be sent again.
const SETTLE_ATTEMPTS: u32 = 3;
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// The longest text of an error that is stored, in bytes.
const LONGEST_ERROR: usize = 1_000;

/// The end of the work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There was nothing to send, or another relay has the key.
    Nothing,
    /// A message was sent, or its failure was noted.
    Progress,
    /// The broker cannot be reached.
    BrokerUnavailable,
    /// The database refused, or did not answer.
    DatabaseError,
}

/// Counts a key as being worked on; also when the task is aborted.
struct InProgress<'a>(&'a Control);

impl<'a> InProgress<'a> {
    fn new(control: &'a Control) -> Self {
        add(&control.counters.keys_in_progress, 1);
        Self(control)
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.counters.keys_in_progress.fetch_sub(1, Ordering::Relaxed);
        // The sweep has room for another key.
        self.0.wake.notify_one();
    }
}

pub(super) async fn deliver<P, B>(shared: Arc<Shared<P, B>>, lane: Lane) -> End
where
    P: TransactionPool,
    B: Publisher,
{
    let Shared { tables, settings, control, .. } = &*shared;
    let _in_progress = InProgress::new(control);
    // Before the claim: its time is over for other relays later than here.
    let claimed_at = Instant::now();
    let token = Token::random();
    let rows = match tables.take(lane, token, settings.lease, settings.batch, sendable).await {
        Ok(rows) if rows.is_empty() => return End::Nothing,
        Ok(rows) => rows,
        Err(error) => return database_error(control, &error),
    };
    let mut confirmed = Vec::with_capacity(rows.len());
    let mut failed = None;
    let mut end = End::Progress;
    for row in &rows {
        // The last message that begins ends within the lease.
        let fits = claimed_at.elapsed().saturating_add(settings.publish_timeout) <= settings.lease;
        if control.is_stopping() || !fits {
            break;
        }
        let sent = match row.damage {
            None => send(&shared, row.message.outgoing()).await,
            Some(damage) => {
                Sent::Failed(Failure::Published(PublishErrorKind::Permanent), damage.to_owned())
            }
        };
        match sent {
            Sent::Confirmed => {
                add(&control.counters.published, 1);
                confirmed.push(row.seq);
            }
            Sent::Abandoned => break,
            Sent::Failed(failure, error) => {
                failed = judge(&shared, row, failure, error);
                if failed.is_none() {
                    end = End::BrokerUnavailable;
                }
                break;
            }
        }
    }
    for attempt in 1.. {
        match tables.settle(lane, token, &confirmed, failed.as_ref()).await {
            Ok(()) => break,
            Err(error) if attempt < SETTLE_ATTEMPTS => {
                database_error(control, &error);
                tokio::time::sleep(SETTLE_PAUSE * attempt).await;
            }
            Err(error) => {
                add(&control.counters.unsettled, confirmed.len());
                return database_error(control, &error);
            }
        }
    }
    if matches!(&failed, Some(failed) if failed.retry_after.is_none()) {
        add(&control.counters.dead, 1);
    }
    end
}

/// The end of a delivery.
enum Sent {
    Confirmed,
    Failed(Failure, String),
    /// The relay has no more time. The message may have been sent.
    Abandoned,
}

/// Sends a message, and waits for the confirmation.
async fn send<P, B: Publisher>(shared: &Shared<P, B>, message: &Outgoing) -> Sent {
    let sent = publish(&shared.publisher, message);
    let mut sent = pin!(tokio::time::timeout(shared.settings.publish_timeout, sent));
    let mut abandoned = pin!(shared.control.abandoned());
    poll_fn(|context| {
        let Poll::Ready(sent) = sent.as_mut().poll(context) else {
            return abandoned.as_mut().poll(context).map(|()| Sent::Abandoned);
        };
        Poll::Ready(match sent {
            Ok(Some(Ok(()))) => Sent::Confirmed,
            Ok(Some(Err((kind, error)))) => Sent::Failed(Failure::Published(kind), error),
            Ok(None) => Sent::Failed(Failure::Panicked, "the publisher panicked".to_owned()),
            Err(_) => Sent::Failed(Failure::TimedOut, "no confirmation came in time".to_owned()),
        })
    })
    .await
}

/// The publisher's answer; `None` if it panicked: in its future, before it returned one, or in the text of its
/// error.
async fn publish(
    publisher: &impl Publisher,
    message: &Outgoing,
) -> Option<Result<(), (PublishErrorKind, String)>> {
    let answer = async {
        let published = publisher.publish(message).await;
        published.map(drop).map_err(|error| (error.kind(), error.to_string()))
    };
    unpanicked(answer).await
}

/// Counts a failure, and returns what is to be noted about it: `None` if nothing is.
fn judge<P, B>(
    shared: &Shared<P, B>,
    row: &Stored,
    failure: Failure,
    error: String,
) -> Option<Failed> {
    let counters = &shared.control.counters;
    add(
        match failure {
            Failure::Published(PublishErrorKind::Unavailable) => &counters.unavailable,
            Failure::TimedOut => &counters.timed_out,
            Failure::Published(_) | Failure::Panicked => &counters.refused,
        },
        1,
    );
    counters.note(error.clone());
    let (id, destination) = (row.message.id(), row.message.destination());
    let (refusals, retry_after) = match verdict(&shared.settings, row, failure) {
        Verdict::Pause => return None,
        Verdict::Retry { refusals, after } => {
            tracing::debug!(target: "idempotent", %id, destination, %error, "a message is sent again");
            (refusals, Some(after))
        }
        Verdict::Die => {
            tracing::warn!(target: "idempotent", %id, destination, %error, "a message is a dead letter");
            (1, None)
        }
    };
    let (seq, attempts) = (row.seq, row.attempts);
    Some(Failed { seq, attempts, refusals: refusals.into(), retry_after, error: storable(error) })
}

/// An error that every database can store.
fn storable(mut error: String) -> String {
    if error.contains('\0') {
        error = error.replace('\0', "\u{fffd}");
    }
    let mut end = error.len().min(LONGEST_ERROR);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error.truncate(end);
    error
}

pub(super) fn database_error(control: &Control, error: &SqlError) -> End {
    if is_lost_race(error) {
        // Another relay or sender was in the way. The key is found again.
        tracing::debug!(target: "idempotent", %error, "a transaction of the relay is repeated");
        return End::Nothing;
    }
    tracing::warn!(target: "idempotent", %error, "the outbox could not be read or written");
    add(&control.counters.database_errors, 1);
    control.counters.note(error.to_string());
    End::DatabaseError
}

/// The output of a future; `None` if it panicked. It is not polled again.
async fn unpanicked<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // Nothing of the future is looked at after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{PublishError, Receipt};
    use std::fmt;

    /// Panics before there is a future.
    struct Hasty;

    impl Publisher for Hasty {
        fn publish(
            &self,
            message: &Outgoing,
        ) -> impl Future<Output = Result<Receipt, PublishError>> + Send {
            assert!(message.payload().is_empty(), "too large");
            async { Ok(Receipt::new()) }
        }
    }

    /// Returns an error that has no text.
    struct Mute;

    #[derive(Debug)]
    struct NoText;

    impl fmt::Display for NoText {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text")
        }
    }

    impl std::error::Error for NoText {}

    impl Publisher for Mute {
        async fn publish(&self, _: &Outgoing) -> Result<Receipt, PublishError> {
            Err(PublishError::retryable(NoText))
        }
    }

    #[tokio::test]
    async fn a_panic_of_the_publisher_stays_with_its_message() {
        let message = |payload: &str| Outgoing::new("orders", "17", payload);
        assert_eq!(publish(&Hasty, &message("lamp")).await, None);
        assert_eq!(publish(&Hasty, &message("")).await, Some(Ok(())));
        assert_eq!(publish(&Mute, &message("")).await, None);
    }

    #[test]
    fn errors_are_stored_short_and_without_nul() {
        assert_eq!(storable("a\0b".to_owned()), "a\u{fffd}b");
        let long = storable("ß".repeat(2_000));
        assert_eq!(long.len(), LONGEST_ERROR);
        let odd = storable(format!("a{}", "ß".repeat(2_000)));
        assert_eq!(odd.len(), LONGEST_ERROR - 1);
    }
}
