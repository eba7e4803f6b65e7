//! The offsets of one partition: which messages are settled, and what may be committed.
//!
//! Kafka keeps one number per partition and group: the offset at which the next owner starts. Messages are
//! settled in any order, so the number is that of the oldest message that is not settled. Everything before
//! it is settled, and whatever is settled behind it is delivered again if this consumer dies.

use std::collections::BTreeSet;

/// The offsets of one partition, from the first that was read.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Read, and not settled.
    open: BTreeSet<i64>,
    /// Settled behind the oldest open one: not to be committed yet.
    ahead: BTreeSet<i64>,
    /// One past the last that was read. `None` if nothing was.
    end: Option<i64>,
    /// The offset of the last commit that the broker has confirmed. Before there is one, the first that was read.
    committed: i64,
}

/// The answer to an offset that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It is behind all others.
    Next,
    /// It was read before: the log of the partition was cut off, or its position reset. Nothing that was
    /// known of the partition holds.
    Rewound,
}

impl Offsets {
    /// A message was read. Offsets may be left out: a log has gaps where it was compacted.
    pub(super) fn read(&mut self, offset: i64) -> Read {
        let read = match self.end {
            Some(end) if offset < end => Read::Rewound,
            Some(_) => Read::Next,
            None => {
                self.committed = offset;
                Read::Next
            }
        };
        if read == Read::Rewound {
            *self = Self { committed: offset, ..Self::default() };
        }
        self.open.insert(offset);
        self.end = Some(offset + 1);
        read
    }

    /// A message is settled.
    pub(super) fn settle(&mut self, offset: i64) {
        if !self.open.remove(&offset) {
            return;
        }
        match self.open.first() {
            Some(oldest) if *oldest < offset => {
                self.ahead.insert(offset);
            }
            Some(oldest) => self.ahead = self.ahead.split_off(oldest),
            None => self.ahead.clear(),
        }
    }

    /// The number of messages that are read and not settled.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// The number of messages from the oldest that is not settled: those that another owner would get
    /// again.
    pub(super) fn span(&self) -> usize {
        self.open.len() + self.ahead.len()
    }

    /// The offset to commit, if it is not that of the last commit.
    pub(super) fn to_commit(&self) -> Option<i64> {
        let offset = self.open.first().copied().or(self.end)?;
        (offset > self.committed).then_some(offset)
    }

    /// A commit was confirmed.
    pub(super) fn committed(&mut self, offset: i64) {
        self.committed = self.committed.max(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(offsets: impl IntoIterator<Item = i64>) -> Offsets {
        let mut read = Offsets::default();
        for offset in offsets {
            assert_eq!(read.read(offset), Read::Next);
        }
        read
    }

    #[test]
    fn nothing_is_committed_before_the_first_message_is_settled() {
        assert_eq!(Offsets::default().to_commit(), None);
        let mut offsets = read(5..9);
        assert_eq!(offsets.to_commit(), None);
        for later in [6, 8, 7] {
            offsets.settle(later);
            assert_eq!(offsets.to_commit(), None, "5 is not settled");
        }
        assert_eq!((offsets.open(), offsets.span()), (1, 4));
        offsets.settle(5);
        assert_eq!(offsets.to_commit(), Some(9));
        assert_eq!((offsets.open(), offsets.span()), (0, 0));
    }

    #[test]
    fn the_prefix_ends_at_the_oldest_message_that_is_not_settled() {
        let mut offsets = read(0..6);
        for settled in [0, 1, 3, 5] {
            offsets.settle(settled);
        }
        assert_eq!((offsets.to_commit(), offsets.open(), offsets.span()), (Some(2), 2, 4));
        offsets.settle(2);
        assert_eq!((offsets.to_commit(), offsets.open(), offsets.span()), (Some(4), 1, 2));
    }

    #[test]
    fn offsets_that_the_log_leaves_out_are_passed_over() {
        let mut offsets = read([3, 7, 1_000_000]);
        offsets.settle(3);
        assert_eq!((offsets.to_commit(), offsets.span()), (Some(7), 2));
        offsets.settle(7);
        offsets.settle(1_000_000);
        assert_eq!(offsets.to_commit(), Some(1_000_001));
    }

    #[test]
    fn an_offset_is_committed_until_that_is_confirmed_and_not_again() {
        let mut offsets = read(0..4);
        offsets.settle(0);
        assert_eq!([offsets.to_commit(), offsets.to_commit()], [Some(1); 2]);
        offsets.committed(1);
        assert_eq!(offsets.to_commit(), None);
    }

    #[test]
    fn a_log_that_was_cut_off_starts_again() {
        let mut offsets = read(10..14);
        offsets.settle(10);
        offsets.committed(11);
        assert_eq!(offsets.read(3), Read::Rewound);
        assert_eq!((offsets.to_commit(), offsets.span()), (None, 1));
        offsets.settle(12);
        assert_eq!(offsets.to_commit(), None, "it belongs to the log before");
        offsets.settle(3);
        assert_eq!(offsets.to_commit(), Some(4));
    }

    /// A step of a consumer's life.
    #[derive(Clone, Debug)]
    enum Step {
        /// Reads a message, after leaving out so many offsets.
        Read(i64),
        /// Settles one of the messages that were read, settled or not.
        Settle(prop::sample::Index),
        Commit,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3_i64).prop_map(Step::Read),
            4 => any::<prop::sample::Index>().prop_map(Step::Settle),
            1 => Just(Step::Commit),
        ]
    }

    proptest! {
        /// Compared with a list of all messages, which says of each whether it is settled.
        #[test]
        fn commits_cover_every_settled_prefix_and_nothing_that_is_open(
            start in 0..100_i64,
            steps in vec(step(), 0..200),
        ) {
            let mut offsets = Offsets::default();
            let mut all: Vec<(i64, bool)> = vec![];
            let (mut next, mut committed) = (start, None);
            for step in steps {
                match step {
                    Step::Read(gap) => {
                        let offset = next + gap;
                        prop_assert_eq!(offsets.read(offset), Read::Next);
                        all.push((offset, false));
                        next = offset + 1;
                    }
                    Step::Settle(_) if all.is_empty() => {}
                    Step::Settle(which) => {
                        let entry = which.index(all.len());
                        all[entry].1 = true;
                        offsets.settle(all[entry].0);
                    }
                    Step::Commit => {
                        if let Some(offset) = offsets.to_commit() {
                            offsets.committed(offset);
                            committed = Some(offset);
                        }
                    }
                }
                let oldest = all.iter().position(|(_, is_settled)| !is_settled);
                let prefix = match oldest {
                    Some(0) => None,
                    Some(oldest) => Some(all[oldest].0),
                    None => all.last().map(|(last, _)| last + 1),
                };
                prop_assert_eq!(offsets.to_commit(), prefix.filter(|offset| Some(*offset) != committed));
                prop_assert_eq!(offsets.open(), all.iter().filter(|(_, settled)| !settled).count());
                prop_assert_eq!(offsets.span(), oldest.map_or(0, |oldest| all.len() - oldest));
            }
        }
    }
}
