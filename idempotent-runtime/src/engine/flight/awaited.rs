//! Counts the failed attempts that a call has waited for.
//!
//! SeenAttempts under a record have numbers that grow by one, so a call that knows which attempt it
//! waits for learns from any later number how many have failed since, however late it looks. That
//! keeps callers that are woken together from running one after the other: one that is slow to wake
//! counts what the others ran meanwhile.
//!
//! A record that was lost or has expired is followed by one whose numbers begin anew. All of its
//! attempts began while the call waited.

/// The number of failed attempts that a call waits for. Those who wait for one that fails run one after the
/// other, so with more of them each would make another run of a body that is bound to fail.
pub(crate) const MOST_FAILED: u32 = 2;

/// The attempts that a call has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Awaited {
    /// The attempt that is waited for, or would be next, as far as that is known.
    number: Option<u32>,
    /// The number of those that ended without an answer.
    failed: u32,
}

/// The attempts that the callers of a flight wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenAttempts {
    /// The last one that was seen to run, here or elsewhere.
    pub(super) running: Option<u32>,
    /// The last one that was seen to have failed.
    pub(super) failed: Option<u32>,
}

impl SeenAttempts {
    /// An attempt was seen to run. If it, or one after it, has failed, that was under an earlier record.
    pub(super) fn runs(&mut self, number: u32) {
        self.running = Some(number);
        self.failed = self.failed.filter(|&failed| failed < number);
    }

    /// An attempt was seen to have failed. If a later one has run, that was under an earlier record.
    pub(super) fn fails(&mut self, number: u32) {
        self.failed = Some(number);
        self.running = self.running.filter(|&running| running <= number);
    }
}

impl Awaited {
    /// `true` if the call has waited for as many failed attempts as it may.
    pub(super) fn is_over(&self) -> bool {
        self.failed >= MOST_FAILED
    }

    /// `true` if the call knows which attempt it waited for.
    pub(super) fn is_known(&self) -> bool {
        self.number.is_some()
    }

    /// A call that was told which attempt holds its key.
    pub(super) fn told_of(number: u32) -> Self {
        Self { number: Some(number), failed: 0 }
    }

    /// The record says that an attempt runs.
    pub(super) fn sees_running(&mut self, number: u32) {
        self.fail(self.passed(number));
        self.number = Some(number);
    }

    /// The record says that an attempt ended without an answer. The call was told before that one
    /// was running: if it does not know which, it was this one.
    pub(super) fn sees_failed(&mut self, number: u32) {
        let next = number.saturating_add(1);
        self.fail(match self.number {
            None => 1,
            Some(_) => self.passed(next),
        });
        self.number = Some(next);
    }

    /// The record says that the lease of an attempt is over, so that it can be taken over. That is
    /// no failure.
    pub(super) fn sees_lease_over(&mut self, number: u32) {
        self.sees_running(number);
        self.number = Some(number.saturating_add(1));
    }

    /// An attempt was granted to the call. `false` if others ran and failed before it.
    pub(super) fn may_run(&self, number: u32) -> bool {
        self.failed.saturating_add(self.passed(number)) < MOST_FAILED
    }

    fn fail(&mut self, attempts: u32) {
        self.failed = self.failed.saturating_add(attempts);
    }

    /// The number of attempts that failed between the one that is known and this one.
    fn passed(&self, number: u32) -> u32 {
        match self.number {
            // That of a later record. One less than the next one is none: an attempt whose lease was
            // over may have renewed it.
            Some(known) if number.saturating_add(1) < known => number.saturating_sub(1),
            Some(known) => number.saturating_sub(known),
            None => 0,
        }
    }

    /// The callers of a flight have seen this; when the call joined them, they had seen `at_join`.
    pub(super) fn hears(&mut self, attempts: SeenAttempts, at_join: SeenAttempts) {
        if self.number.is_none() {
            // What failed before it came is none of its business.
            let next = at_join.failed.map(|failed| failed.saturating_add(1));
            self.number = next.max(at_join.running);
        }
        if let Some(running) = attempts.running {
            self.reach(running);
        }
        if let Some(failed) = attempts.failed {
            self.reach(failed.saturating_add(1));
        }
    }

    /// All attempts before this one have failed. The news of a flight may be old: nothing goes back.
    fn reach(&mut self, number: u32) {
        let known = self.number.unwrap_or(number);
        self.fail(number.saturating_sub(known));
        self.number = Some(known.max(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(steps: impl FnOnce(&mut Awaited)) -> u32 {
        let mut awaited = Awaited::default();
        steps(&mut awaited);
        awaited.failed
    }

    fn flight(running: impl Into<Option<u32>>, failed: impl Into<Option<u32>>) -> SeenAttempts {
        SeenAttempts { running: running.into(), failed: failed.into() }
    }

    #[test]
    fn each_failed_attempt_counts_once_however_often_it_is_seen() {
        let count = failed(|awaited| {
            for _ in 0..3 {
                awaited.sees_running(4);
            }
            for _ in 0..3 {
                awaited.sees_failed(4);
            }
            awaited.sees_running(5);
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn attempts_that_were_passed_over_count() {
        assert_eq!(failed(|awaited| [1, 3].into_iter().for_each(|it| awaited.sees_running(it))), 2);
        let late = failed(|awaited| {
            awaited.sees_running(1);
            awaited.sees_failed(5);
        });
        assert_eq!(late, 5);
    }

    #[test]
    fn the_first_look_may_come_after_the_failure() {
        assert_eq!(failed(|awaited| awaited.sees_failed(7)), 1);
    }

    #[test]
    fn a_record_that_begins_anew_counts_from_there() {
        let count = failed(|awaited| {
            awaited.sees_running(9);
            awaited.sees_running(1);
            awaited.sees_failed(1);
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn all_attempts_of_a_later_record_count() {
        let failing = failed(|awaited| {
            awaited.sees_running(9);
            awaited.sees_failed(1);
            awaited.sees_failed(1);
        });
        assert_eq!(failing, 1);
        let running = failed(|awaited| {
            awaited.sees_running(9);
            awaited.sees_running(3);
            awaited.sees_running(3);
        });
        assert_eq!(running, 2);
        let mut awaited = Awaited::told_of(9);
        assert!(awaited.may_run(1) && awaited.may_run(2) && !awaited.may_run(3));
        awaited.sees_failed(1);
        assert!(awaited.may_run(2) && !awaited.may_run(3));
    }

    #[test]
    fn the_largest_numbers_are_counted_without_overflow() {
        let count = failed(|awaited| {
            awaited.sees_running(1);
            awaited.sees_failed(u32::MAX);
            awaited.sees_running(1);
            awaited.sees_failed(u32::MAX);
            assert!(!awaited.may_run(u32::MAX));
        });
        assert_eq!(count, u32::MAX);
    }

    #[test]
    fn a_lease_that_was_over_and_is_renewed_is_no_later_record() {
        let count = failed(|awaited| {
            awaited.sees_lease_over(4);
            awaited.sees_running(4);
            awaited.sees_lease_over(4);
            awaited.sees_running(5);
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn an_attempt_that_ran_when_the_caller_came_is_the_first_that_counts() {
        // Another one failed between the two, before the caller came.
        let came = flight(7, 5);
        assert_eq!(failed(|awaited| awaited.hears(came, came)), 0);
        assert_eq!(failed(|awaited| awaited.hears(flight(7, 7), came)), 1);
    }

    #[test]
    fn a_flight_forgets_what_it_saw_under_an_earlier_record() {
        let mut attempts = SeenAttempts::default();
        attempts.runs(8);
        attempts.fails(8);
        attempts.runs(9);
        assert_eq!((attempts.running, attempts.failed), (Some(9), Some(8)));
        attempts.runs(1);
        assert_eq!((attempts.running, attempts.failed), (Some(1), None));
        attempts.runs(9);
        attempts.fails(1);
        assert_eq!((attempts.running, attempts.failed), (None, Some(1)));
    }

    #[test]
    fn a_lease_that_ran_out_is_no_failure() {
        let mut awaited = Awaited::default();
        awaited.sees_running(1);
        awaited.sees_failed(1);
        awaited.sees_running(2);
        awaited.sees_lease_over(2);
        assert_eq!(awaited.failed, 1);
        assert!(awaited.may_run(3));
    }

    #[test]
    fn a_flight_tells_each_caller_what_failed_since_it_came() {
        let none = SeenAttempts::default();
        assert_eq!(failed(|awaited| awaited.hears(flight(1, 1), none)), 1);
        assert_eq!(failed(|awaited| awaited.hears(flight(1, 1), flight(1, 1))), 0);
        assert_eq!(failed(|awaited| awaited.hears(flight(None, 3), none)), 0, "before it came");
        let moved = failed(|awaited| {
            awaited.hears(flight(1, 1), none);
            // It comes late to the next flight, in which others have run.
            awaited.hears(flight(None, 3), flight(None, 3));
            awaited.hears(flight(None, 3), flight(None, 3));
        });
        assert_eq!(moved, 3);
    }

    #[test]
    fn a_grant_that_came_after_others_had_failed_is_not_used() {
        let mut awaited = Awaited::default();
        assert!(awaited.may_run(5));
        awaited.sees_running(1);
        awaited.sees_failed(1);
        assert!(awaited.may_run(2));
        assert!(!awaited.may_run(3));
        awaited.sees_failed(2);
        assert!(awaited.is_over() && !awaited.may_run(3));
    }
}
