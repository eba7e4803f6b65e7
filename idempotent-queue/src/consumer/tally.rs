//! Counts the tries of a message that was delivered far more often than its attempts explain.
//!
//! A body in a database transaction whose process dies takes the count of its record with it, so its tries are
//! bounded by this alone. The deliveries that the broker counts do not tell such tries from those that found the
//! store down, or another consumer at work. They only raise the suspicion: from then on a record of the
//! consumer's own, outside of every transaction, counts each try before the handler is called. A delivery that
//! does not reach the store is no try.

use super::handle::Answer;
use super::settings::Settings;
use crate::Message;
use crate::delivery::DELIVERIES_PER_ATTEMPT;
use crate::settlement::{Ended, settlement};
use idempotent_runtime::ambient::{self, Ambient, CallReport};
use idempotent_runtime::{Abandon, Attempt, Begin, ErrorKind, Fingerprint, Mode, Operation};
use std::time::Duration;

/// The operation whose records count tries.
const OPERATION: &str = "queue.tries";
/// The time for which a count is kept: a week, as is advised for the records of messages.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A message whose tries are counted.
pub(super) struct Tally<'a> {
    settings: &'a Settings,
    record: Operation<'a>,
    ambient: Ambient,
    deliveries: u64,
    limit: u64,
}

impl<'a> Tally<'a> {
    /// `None` for a message whose deliveries its attempts explain.
    pub(super) fn of(
        settings: &'a Settings,
        message: &Message,
        ambient: &Ambient,
        deliveries: Option<u64>,
    ) -> Option<Self> {
        let limit = u64::from(settings.max_attempts?) * DELIVERIES_PER_ATTEMPT;
        let deliveries = deliveries.filter(|count| *count > limit)?;
        let record = settings.idem.operation(OPERATION);
        // A function may have a key of its own, so that its messages have no token.
        let record = match (&ambient.token, message.id()) {
            (Some(token), _) => record.key(("token", token)),
            (None, Some(id)) => record.key(("id", id)),
            (None, None) => {
                record.key(("payload", Fingerprint::of_bytes(message.payload()).to_bytes()))
            }
        };
        // The handler's own call has a place among those that `max_concurrent` limits.
        let record = record.mode(Mode::Reject).abandon(Abandon::Retry).expire(KEPT).uncounted();
        Some(Self { settings, record, ambient: ambient.clone(), deliveries, limit })
    }

    /// Counts a try, which is to be [ended](end). Otherwise the answer to the message.
    pub(super) async fn begin(self) -> Result<Attempt, Answer> {
        let begun = ambient::scope(self.ambient.clone(), self.record.begin()).await;
        let (kind, retry_after, text) = match begun {
            Ok(Begin::Fresh(attempt)) => return Ok(attempt),
            Ok(Begin::ReplayError(_)) => return Err(self.too_many()),
            Ok(Begin::InFlight { retry_after }) => {
                let text = "another consumer is handling the message".to_owned();
                (ErrorKind::InProgress, Some(retry_after), text)
            }
            // Tries are never completed, and have no payload.
            Ok(other) => (ErrorKind::InProgress, None, format!("{other:?}")),
            Err(error) if error.kind() == ErrorKind::FailedBefore => return Err(self.too_many()),
            Err(error) => (error.kind(), error.retry_after(), error.to_string()),
        };
        let mut report = CallReport::new(kind.into());
        (report.refusal, report.retry_after) = (Some(kind), retry_after);
        let pauses = self.settings.pauses;
        let settlement = settlement(Ended::Err, Some(&report), Some(self.deliveries), pauses);
        Err(Answer::new(settlement, text).reported(&report))
    }

    fn too_many(&self) -> Answer {
        let (deliveries, limit) = (self.deliveries, self.limit);
        let attempts = self.settings.max_attempts.unwrap_or_default();
        let error = format!(
            "delivered {deliveries} times, where {limit} are enough for `max_attempts` of {attempts}, and tried \
             {attempts} times since then"
        );
        Answer::dead("too-many-deliveries", error)
    }
}

/// Ends a try by its answer. One that has failed, and may come again, stays counted.
pub(super) async fn end(attempt: Attempt, answer: &Answer) {
    let ended = if answer.has_failed { attempt.fail().await } else { attempt.release().await };
    if let Err(error) = ended {
        // It goes on in the background, or ends with the lease.
        tracing::debug!(target: "idempotent", %error, "the end of a counted try is not recorded");
    }
}
