//! The choice of the periods that are due.

use std::collections::BTreeSet;

/// The treatment of periods that are over and that no process has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are left out.
    #[default]
    Skip,
    /// The last period before the present one is run, if it was missed.
    Latest,
    /// Each of the last `at_most` periods before the present one is run that was missed, the oldest first.
    Each {
        /// The number of periods that are looked at.
        at_most: u32,
    },
}

/// The things that a process knows about the periods of its job.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The period in which the job was first scheduled, by any process.
    pub(super) first: u64,
    /// All periods up to here were looked at.
    pub(super) looked_at: Option<u64>,
    /// Periods that were looked at, and were not done before the time for them was over.
    pub(super) not_done: BTreeSet<u64>,
}

impl CatchUp {
    /// The number of earlier periods that are looked at.
    pub(super) fn reach(self) -> u64 {
        match self {
            Self::Skip => 0,
            Self::Latest => 1,
            Self::Each { at_most } => at_most.into(),
        }
    }

    /// The periods that are due in the period `current`, the oldest first. That one is always among them:
    /// its record tells whether it was run.
    ///
    /// They are not collected: after a leap of the clock there may be any number of them.
    pub(super) fn due(self, known: &Known, current: u64) -> impl Iterator<Item = u64> + use<> {
        let oldest = current.saturating_sub(self.reach()).max(known.first);
        let unseen = oldest.max(known.looked_at.map_or(0, |seen| seen.saturating_add(1)));
        let unseen = unseen.min(current);
        let not_done = known.not_done.iter().copied();
        let again: Vec<u64> = not_done.filter(|number| (oldest..unseen).contains(number)).collect();
        again.into_iter().chain(unseen..=current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(policy: CatchUp, looked_at: Option<u64>, not_done: &[u64], current: u64) -> Vec<u64> {
        let not_done = not_done.iter().copied().collect();
        policy.due(&Known { first: 100, looked_at, not_done }, current).collect()
    }

    #[test]
    fn missed_periods_are_due_as_the_policy_says() {
        let each = CatchUp::Each { at_most: 3 };
        for looked_at in [None, Some(104)] {
            assert_eq!(due(CatchUp::Skip, looked_at, &[], 110), [110]);
            assert_eq!(due(CatchUp::Latest, looked_at, &[], 110), [109, 110]);
            assert_eq!(due(each, looked_at, &[], 110), [107, 108, 109, 110]);
        }
        for policy in [CatchUp::Skip, CatchUp::Latest, each] {
            assert_eq!(due(policy, Some(109), &[], 110), [110]);
        }
        assert_eq!(due(each, Some(108), &[], 110), [109, 110]);
    }

    #[test]
    fn periods_before_the_first_were_not_missed() {
        let each = CatchUp::Each { at_most: 30 };
        assert_eq!(due(each, None, &[], 100), [100]);
        assert_eq!(due(each, None, &[], 102), [100, 101, 102]);
        assert_eq!(due(CatchUp::Latest, None, &[], 100), [100]);
    }

    #[test]
    fn a_period_that_was_not_done_in_time_was_missed() {
        assert_eq!(due(CatchUp::Skip, Some(109), &[109], 110), [110]);
        assert_eq!(due(CatchUp::Latest, Some(109), &[108, 109], 110), [109, 110]);
        let each = CatchUp::Each { at_most: 3 };
        assert_eq!(due(each, Some(109), &[105, 107], 110), [107, 110]);
    }

    #[test]
    fn a_leap_of_the_clock_takes_no_memory() {
        let each = CatchUp::Each { at_most: u32::MAX };
        let known = Known { first: 100, looked_at: Some(104), not_done: [103].into() };
        let mut due = each.due(&known, u64::from(u32::MAX));
        assert_eq!((due.next(), due.next(), due.next()), (Some(103), Some(105), Some(106)));
    }

    #[test]
    fn a_clock_that_was_set_back_leads_to_one_look() {
        let each = CatchUp::Each { at_most: 3 };
        assert_eq!(due(each, Some(150), &[], 110), [110]);
        assert_eq!(due(each, Some(150), &[], 90), [90]);
    }
}
