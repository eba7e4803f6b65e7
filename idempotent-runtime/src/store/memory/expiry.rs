//! Finds the records that have expired without looking at those that have not.
//!
//! Each record is in one bucket of about a second. As soon as its bucket is due the record is
//! removed, or moved to the bucket of its real expiry if that has moved since. Renewing and
//! completing therefore cost nothing here, unless they bring the expiry forward.

use crate::clock::Moment;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Expiry {
    buckets: BTreeMap<u32, Vec<u64>>,
    len: usize,
}

impl Expiry {
    /// The bucket in which everything that expires at `moment` has expired.
    pub(super) fn bucket(moment: Moment) -> u32 {
        u32::try_from((moment.as_nanos() >> 30) + 1).unwrap_or(u32::MAX - 1)
    }

    /// The last bucket that is used at `now`. A record that lives longer is looked at then and moved
    /// on, so that one whose life is cut short does not leave a stale entry behind for long.
    pub(super) fn horizon(now: Moment) -> u32 {
        const BUCKETS: u32 = 3_600;
        Self::bucket(now).saturating_add(BUCKETS)
    }

    pub(super) fn schedule(&mut self, bucket: u32, hash: u64) {
        self.buckets.entry(bucket).or_default().push(hash);
        self.len += 1;
    }

    /// Takes one record that stands in a due bucket.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<(u32, u64)> {
        let (bucket, _) = self.buckets.first_key_value()?;
        if u64::from(*bucket) > now.as_nanos() >> 30 { None } else { self.pop() }
    }

    /// Takes one record of the bucket that is due first.
    pub(super) fn pop(&mut self) -> Option<(u32, u64)> {
        let mut first = self.buckets.first_entry()?;
        let bucket = *first.key();
        let hash = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        self.len -= usize::from(hash.is_some());
        hash.map(|hash| (bucket, hash))
    }

    /// The number of hashes in the buckets, including those whose record is gone.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
