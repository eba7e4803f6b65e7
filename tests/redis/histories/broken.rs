//! Stores that break one rule each.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Found, Next, Record, Seen, State, Store, StoreError, StoreFuture, Swap, Swapped, Verb,
    Watch,
};

/// What a store is not to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Only the attempt that holds the key completes it.
    CompleteComparesTokens,
    /// Only the attempt that holds the key frees it.
    FailComparesTokens,
    /// An answer that was acknowledged is there afterwards.
    AnswersAreKept,
    /// A key that is held is not granted.
    OneHolds,
    /// Each attempt has a greater fence than the one before.
    FencesGrow,
}

/// Passes every verb on, and breaks one rule.
#[derive(Debug)]
pub(super) struct BrokenStore<S> {
    inner: S,
    rule: Rule,
}

impl<S: Store> BrokenStore<S> {
    pub(super) fn new(inner: S, rule: Rule) -> Self {
        Self { inner, rule }
    }

    /// Makes the write of a swap over whatever record there is.
    async fn force(&self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let mut swap = swap;
        loop {
            swap.seen = match self.inner.load(key).await? {
                Some(Record { head, .. }) => Seen::This { head, at_most: None },
                None => Seen::Nothing,
            };
            if let done @ (Swapped::Done | Swapped::DoneWithoutValue) =
                self.inner.swap(key, swap.clone()).await?
            {
                return Ok(done);
            }
        }
    }

    /// `true` if a swap that found this is made all the same.
    fn ignores(&self, verb: Verb, found: &Option<Found>) -> bool {
        let held = found.as_ref().is_some_and(|found| found.head.state == State::Processing);
        match self.rule {
            Rule::CompleteComparesTokens => verb == Verb::Complete,
            Rule::FailComparesTokens => held && matches!(verb, Verb::Fail | Verb::Abandon),
            Rule::OneHolds => held && verb == Verb::Begin,
            Rule::AnswersAreKept | Rule::FencesGrow => false,
        }
    }
}

impl<S: Store> Store for BrokenStore<S> {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        self.inner.load(key)
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, mut swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(async move {
            if self.rule == Rule::AnswersAreKept && swap.verb == Verb::Complete {
                return Ok(Swapped::Done);
            }
            let mut stands_still = None;
            if let (Rule::FencesGrow, Verb::Begin, Next::Put { head, ttl, .. }) =
                (self.rule, swap.verb, &mut swap.next)
            {
                head.attempt.fence = 1;
                stands_still = Some(Found { head: *head, value: None, ttl: Some(*ttl) });
            }
            match self.inner.swap(key, swap.clone()).await? {
                Swapped::Found(found) if self.ignores(swap.verb, &found) => {
                    self.force(key, swap).await
                }
                // Shown to its caller, who takes the fence of its own record for granted.
                Swapped::Done if stands_still.is_some() => Ok(Swapped::Found(stands_still)),
                swapped => Ok(swapped),
            }
        })
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        self.inner.watch(key)
    }
}
