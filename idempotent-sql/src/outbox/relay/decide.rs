//! The rules of a relay, as functions of values.

use super::Settings;
use super::database::Stored;
use crate::outbox::PublishErrorKind;
use std::time::Duration;

/// The messages at the head of a key that may be sent: those before the first one that is dead or
/// not due.
pub(super) fn sendable(mut rows: Vec<Stored>) -> Vec<Stored> {
    let first_held = rows.iter().position(|row| row.due_in.is_none_or(|millis| millis > 0));
    rows.truncate(first_held.unwrap_or(rows.len()));
    rows
}

/// A delivery that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Published(PublishErrorKind),
    TimedOut,
    Panicked,
}

/// The consequence of a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The whole relay pauses; the message stays as it is.
    Pause,
    /// The key pauses.
    Retry { refusals: u32, after: Duration },
    /// The message is a dead letter.
    Die,
}

pub(super) fn verdict(settings: &Settings, row: &Stored, failure: Failure) -> Verdict {
    let refusals = match failure {
        Failure::Published(PublishErrorKind::Unavailable) => return Verdict::Pause,
        Failure::Published(PublishErrorKind::Permanent) => return Verdict::Die,
        // A broker that is slow for all messages must not make dead letters of them.
        Failure::TimedOut => 0,
        Failure::Published(_) | Failure::Panicked => 1,
    };
    if refusals > 0 && row.refusals + 1 >= i64::from(settings.max_attempts) {
        return Verdict::Die;
    }
    let after = backoff(settings.first_backoff, settings.longest_backoff, row.message.failures);
    Verdict::Retry { refusals, after }
}

/// A pause that doubles with every failure before, up to a limit.
pub(super) fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures.min(31))).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{OutboxMessage, Outgoing};

    fn row(due_in: Option<i64>, failures: u32, refusals: i64) -> Stored {
        let outgoing = Outgoing::new("orders", "id", "").with_key("17");
        let message = OutboxMessage { outgoing, created_at: 0, failures };
        let attempts = i64::from(failures);
        Stored { seq: 1, message, damage: None, attempts, refusals, due_in }
    }

    #[test]
    fn no_message_overtakes_one_that_is_held() {
        let lengths =
            |due: &[Option<i64>]| sendable(due.iter().map(|&due| row(due, 0, 0)).collect()).len();
        assert_eq!(lengths(&[Some(-9), Some(0), Some(-1)]), 3);
        assert_eq!(lengths(&[Some(1), Some(0)]), 0, "its key pauses");
        assert_eq!(lengths(&[Some(0), None, Some(0)]), 1, "behind a dead letter");
        assert_eq!(lengths(&[]), 0);
    }

    #[test]
    fn only_refusals_count_against_a_message() {
        let settings = Settings { max_attempts: 3, ..Settings::default() };
        let judge = |failures, refusals, failure| {
            verdict(&settings, &row(Some(0), failures, refusals), failure)
        };
        let published = Failure::Published;
        assert_eq!(judge(99, 2, published(PublishErrorKind::Unavailable)), Verdict::Pause);
        assert_eq!(judge(0, 0, published(PublishErrorKind::Permanent)), Verdict::Die);
        assert!(matches!(judge(99, 2, Failure::TimedOut), Verdict::Retry { refusals: 0, .. }));
        for failure in [published(PublishErrorKind::Retryable), Failure::Panicked] {
            let again = Verdict::Retry { refusals: 1, after: settings.first_backoff };
            assert_eq!(judge(0, 1, failure), again);
            assert_eq!(judge(2, 2, failure), Verdict::Die);
        }
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(60));
        let pauses: Vec<_> =
            [0, 1, 2, 8, 9, 99].map(|n| backoff(first, longest, n).as_millis()).into();
        assert_eq!(pauses, [200, 400, 800, 51_200, 60_000, 60_000]);
    }
}
