//! The rule by which deliveries are settled. It decides on values alone.

use idempotent_runtime::ambient::CallReport;
use idempotent_runtime::{ErrorKind, Mode};
use std::time::Duration;

/// The way in which a delivery is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// It is done.
    Ack,
    /// It is delivered again.
    Again {
        /// The pause before that.
        after: Duration,
    },
    /// It cannot be handled, however often it is delivered.
    DeadLetter {
        /// A short name of the reason.
        code: &'static str,
    },
    /// A person, or a deployment, has to put something right first.
    Park {
        /// A short name of the reason.
        code: &'static str,
    },
    /// It stays in hand, and nothing else is fetched meanwhile: the store cannot be asked.
    Pause,
    /// It goes back to the broker, and the consumer ends.
    Stop,
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It returned a value.
    Ok,
    /// It returned an error.
    Err,
    /// It panicked.
    Panicked,
}

/// Pauses that double from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Pauses {
    /// Pauses of which none is longer than the limit, and the longest is not shorter than the first.
    pub(crate) fn at_most(limit: Duration, first: Duration, longest: Duration) -> Self {
        let first = first.min(limit);
        Self { first, longest: longest.clamp(first, limit) }
    }

    /// The pause after so many failures.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest).max(SOONEST)
    }
}

/// The shortest pause, so that no message spins.
const SOONEST: Duration = Duration::from_millis(1);

/// Decides how a delivery is settled, by the end of its handler and the report of the call that it made.
///
/// A handler that returned a value is done, unless the value is not recorded. One that made no call is
/// judged by its result. `deliveries` is the broker's count, for pauses after failures that no record counts.
pub fn settlement(
    ended: Ended,
    report: Option<&CallReport>,
    deliveries: Option<u64>,
    pauses: Pauses,
) -> Settlement {
    let counted = deliveries.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let attempt = report.and_then(|report| report.attempt).or(counted).unwrap_or(1);
    let with_backoff = Settlement::Again { after: pauses.after(attempt) };
    match (ended, report) {
        // Nothing tells later whether the work was done. Beside other calls it may be there to limit them.
        (_, Some(report)) if report.mode == Some(Mode::Window) && report.calls == 1 => {
            Settlement::Stop
        }
        // It is recorded in the background, and another delivery is a replay.
        (Ended::Ok, Some(report)) if report.is_unrecorded => with_backoff,
        (Ended::Ok, _) => Settlement::Ack,
        (Ended::Panicked, _) | (Ended::Err, None) => with_backoff,
        (Ended::Err, Some(report)) => {
            let settlement = match report.refusal {
                Some(kind) => {
                    let counted = counted.unwrap_or(1);
                    of_refusal(kind, report, counted, pauses).unwrap_or(with_backoff)
                }
                None if report.is_final => Settlement::DeadLetter { code: "final-error" },
                None => with_backoff,
            };
            match settlement {
                // The error may be that of another call than the last one: nothing is over.
                Settlement::Ack | Settlement::DeadLetter { .. } | Settlement::Park { .. }
                    if report.calls > 1 =>
                {
                    with_backoff
                }
                settlement => settlement,
            }
        }
    }
}

/// The settlement of a call that was refused. `None` for a kind that this version does not know.
fn of_refusal(
    kind: ErrorKind,
    report: &CallReport,
    deliveries: u32,
    pauses: Pauses,
) -> Option<Settlement> {
    let named = report.retry_after.unwrap_or(pauses.first);
    // From the second on, the pauses grow: the broker counts these deliveries, and there may be a limit.
    let grown = if deliveries > 1 { pauses.after(deliveries - 1) } else { SOONEST };
    let soon = named.max(grown).min(pauses.longest.max(SOONEST));
    Some(match kind {
        // A window that is taken does not tell whether the work was done.
        ErrorKind::Duplicate if report.retry_after.is_some() => Settlement::Stop,
        ErrorKind::Duplicate | ErrorKind::ResultUnavailable => Settlement::Ack,
        ErrorKind::InProgress | ErrorKind::Superseded | ErrorKind::Unrecorded => {
            Settlement::Again { after: soon }
        }
        ErrorKind::Reentrant => Settlement::Again { after: pauses.first },
        ErrorKind::FailedBefore => Settlement::DeadLetter { code: "failed-before" },
        ErrorKind::Mismatch => Settlement::DeadLetter { code: "payload-mismatch" },
        ErrorKind::MissingKey => Settlement::DeadLetter { code: "missing-key" },
        ErrorKind::InvalidKey => Settlement::DeadLetter { code: "invalid-key" },
        // Of a commit that was not answered: the next call finds out.
        ErrorKind::Indeterminate if report.body_ran => Settlement::Again { after: soon },
        ErrorKind::Indeterminate => Settlement::Park { code: "outcome-unknown" },
        ErrorKind::Undecodable => Settlement::Park { code: "result-unreadable" },
        ErrorKind::StoreUnavailable
        | ErrorKind::StoreFull
        | ErrorKind::NotReplicated
        | ErrorKind::ShuttingDown => Settlement::Pause,
        ErrorKind::Misconfigured => Settlement::Stop,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::observe::Ending;

    const PAUSES: Pauses =
        Pauses { first: Duration::from_millis(100), longest: Duration::from_secs(3) };

    fn refused(kind: ErrorKind) -> Option<Settlement> {
        of_refusal(kind, &CallReport::new(kind.into()), 1, PAUSES)
    }

    #[test]
    fn every_kind_of_refusal_has_its_settlement() {
        for kind in ErrorKind::ALL {
            assert!(refused(kind).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn a_message_that_others_are_busy_with_comes_after_the_time_named_and_later_each_time() {
        let named = Duration::from_millis(30);
        let mut report = CallReport::new(ErrorKind::InProgress.into());
        (report.refusal, report.retry_after) = (Some(ErrorKind::InProgress), Some(named));
        let pause = |deliveries| settlement(Ended::Err, Some(&report), deliveries, PAUSES);
        let after = |millis| Settlement::Again { after: Duration::from_millis(millis) };
        assert_eq!([pause(None), pause(Some(1))], [after(30), after(30)]);
        assert_eq!([pause(Some(2)), pause(Some(4))], [after(100), after(400)]);
        assert_eq!(pause(Some(u64::MAX)), after(3_000));
    }

    #[test]
    fn a_window_stops_a_consumer_unless_other_calls_are_beside_it() {
        let mut report = CallReport::new(Ending::Executed);
        report.mode = Some(Mode::Window);
        let settle = |report: &CallReport| settlement(Ended::Ok, Some(report), None, PAUSES);
        assert_eq!(settle(&report), Settlement::Stop);
        report.calls = 2;
        assert_eq!(settle(&report), Settlement::Ack);
    }

    #[test]
    fn pauses_keep_to_their_limit() {
        let [short, limit, long] = [1, 2, 3].map(Duration::from_secs);
        assert_eq!(Pauses::at_most(limit, long, short), Pauses { first: limit, longest: limit });
        assert_eq!(Pauses::at_most(limit, short, long), Pauses { first: short, longest: limit });
        assert_eq!(Pauses::at_most(limit, short, short), Pauses { first: short, longest: short });
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<_> =
            [0, 1, 2, 3, 6, u32::MAX].map(|failures| PAUSES.after(failures)).into();
        let millis: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [100, 100, 200, 400, 3_000, 3_000]);
    }
}
