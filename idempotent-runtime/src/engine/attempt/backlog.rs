//! Bounds of the work that goes on after its callers have gone.
//!
//! Two classes of work are left behind when a store does not answer. An *answer* is the end of an
//! attempt that others depend on: a value, an error, or the outcome of a key that blocks. It is
//! never given up before its record's life is over, but only so many are taken in. A *release*
//! frees a key whose body never started. Without it the key is held for one lease, so when there
//! are too many the oldest one goes.

use crate::observe;
use crate::store::Verb;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, Notify, lock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most answers that are kept for a store that does not take them.
const MAX_ANSWERS: usize = 16_384;
/// The most bytes of keys and values in these answers.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The most releases that are under way.
const MAX_RELEASES: usize = 4_096;

/// The work of an instance that goes on in the background.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    answers: AtomicUsize,
    answer_bytes: AtomicUsize,
    releases: Mutex<Releases>,
}

/// The releases under way, in the order in which they came.
#[derive(Debug, Default)]
struct Releases {
    next: u64,
    under_way: BTreeMap<u64, Arc<Cancelled>>,
}

#[derive(Debug, Default)]
struct Cancelled {
    is_cancelled: AtomicBool,
    signal: Notify,
}

impl Backlog {
    /// Takes in an answer of so many bytes. `None` if there is no room for it.
    pub(crate) fn admit_answer(self: &Arc<Self>, bytes: usize) -> Option<AnswerRoom> {
        // Relaxed: both are counts and nothing else, and each `fetch_add` sees all before it.
        // Counted before it is compared: two that come at once may both be refused, never both
        // admitted beyond the limit.
        let answer = AnswerRoom { backlog: Arc::clone(self), bytes };
        let answers = self.answers.fetch_add(1, Relaxed) + 1;
        let total = self.answer_bytes.fetch_add(bytes, Relaxed) + bytes;
        (answers <= MAX_ANSWERS && total <= MAX_ANSWER_BYTES).then_some(answer)
    }

    /// Takes in a release. If there are too many, the oldest is cancelled.
    pub(crate) fn admit_release(self: &Arc<Self>) -> ReleaseRoom {
        let cancelled = Arc::<Cancelled>::default();
        let mut releases = lock(&self.releases);
        let number = releases.next;
        releases.next += 1;
        releases.under_way.insert(number, Arc::clone(&cancelled));
        let oldest = match releases.under_way.len() > MAX_RELEASES {
            true => releases.under_way.pop_first(),
            false => None,
        };
        drop(releases);
        if let Some((_, oldest)) = oldest {
            observe::dropped(Verb::Release);
            tracing::warn!(
                target: "idempotent",
                "too many releases are waiting for the store: the oldest is dropped"
            );
            // Relaxed: the notification that follows orders it before the read that it wakes.
            oldest.is_cancelled.store(true, Relaxed);
            oldest.signal.notify_one();
        }
        ReleaseRoom { backlog: Arc::clone(self), number, cancelled }
    }

    #[cfg(all(test, not(shuttle)))]
    fn releases(&self) -> usize {
        lock(&self.releases).under_way.len()
    }
}

/// Room for one answer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        self.backlog.answers.fetch_sub(1, Relaxed);
        self.backlog.answer_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// Room for one release, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseRoom {
    backlog: Arc<Backlog>,
    number: u64,
    cancelled: Arc<Cancelled>,
}

impl ReleaseRoom {
    /// Resolves when this release has to make room for others.
    pub(crate) async fn cancelled(&self) {
        // One waits for it, so the signal is kept if it comes first.
        while !self.cancelled.is_cancelled.load(Relaxed) {
            self.cancelled.signal.notified().await;
        }
    }
}

impl Drop for ReleaseRoom {
    fn drop(&mut self) {
        lock(&self.backlog.releases).under_way.remove(&self.number);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_release_makes_room_for_the_next_one() {
        let backlog = Arc::<Backlog>::default();
        let mut releases: Vec<_> = (0..MAX_RELEASES).map(|_| backlog.admit_release()).collect();
        assert!(!is_ready(releases[0].cancelled()));
        releases.push(backlog.admit_release());
        assert!(is_ready(releases[0].cancelled()));
        assert!(!is_ready(releases[1].cancelled()));
        assert_eq!(backlog.releases(), MAX_RELEASES);
        drop(releases);
        assert_eq!(backlog.releases(), 0);
    }

    #[test]
    fn answers_are_bounded_in_number_and_their_room_is_given_back() {
        let backlog = Arc::<Backlog>::default();
        let answers: Vec<_> = (0..MAX_ANSWERS).map(|_| backlog.admit_answer(1)).collect();
        assert!(answers.iter().all(Option::is_some));
        assert!(backlog.admit_answer(1).is_none());
        drop(answers);
        assert!(backlog.admit_answer(1).is_some());
        assert_eq!(backlog.answers.load(Relaxed), 0);
    }

    #[test]
    fn answers_are_bounded_in_bytes() {
        let backlog = Arc::<Backlog>::default();
        let half = backlog.admit_answer(MAX_ANSWER_BYTES / 2);
        assert!(half.is_some());
        assert!(backlog.admit_answer(MAX_ANSWER_BYTES).is_none());
        assert!(backlog.admit_answer(MAX_ANSWER_BYTES / 2).is_some());
        drop(half);
        assert_eq!(backlog.answer_bytes.load(Relaxed), 0);
    }
}
