//! The search for keys that have something to send.
//!
//! Keys are looked at in the order of their numbers, a page at a time, and again from the beginning
//! after the last one. A key that is held up costs a step of the index, however many messages wait
//! behind it, and holds up no other. Relays begin at random places, so that they seldom want the same
//! key at the same time.

use super::decide::backoff;
use super::delivery::{End, database_error, deliver};
use super::{Control, Shared};
use crate::TransactionPool;
use crate::outbox::Publisher;
use crate::outbox::lane::Lane;
use idempotent_runtime::store::Token;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

/// The smallest number of keys that are looked at together.
const SMALLEST_PAGE: usize = 64;
/// The shortest pause before a key that becomes due.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const FIRST_TROUBLE: Duration = Duration::from_millis(100);
const LONGEST_TROUBLE: Duration = Duration::from_secs(5);

pub(super) async fn run<P, B>(shared: Arc<Shared<P, B>>)
where
    P: TransactionPool,
    B: Publisher,
{
    let (settings, control) = (&shared.settings, &*shared.control);
    let mut deliveries = Deliveries::default();
    let mut trouble = Trouble::default();
    let mut above = random_lane();
    let (mut has_taken, mut soonest) = (true, settings.poll);
    loop {
        for end in deliveries.ended() {
            trouble.learn(end);
        }
        if control.is_stopping() {
            break;
        }
        if let Some(pause) = trouble.pause() {
            wait(control, pause).await;
            continue;
        }
        // While a broker or database that failed is tried out, one message at a time is enough.
        let most = if trouble.is_over() { settings.concurrency } else { 1 };
        let mut room = most.saturating_sub(deliveries.lanes.len());
        if room == 0 {
            wait(control, settings.poll).await;
            continue;
        }
        let page = SMALLEST_PAGE.max(2 * settings.concurrency);
        let found = match shared.tables.look(above, page).await {
            Ok(found) => found,
            Err(error) => {
                trouble.learn(database_error(control, &error));
                continue;
            }
        };
        let is_last_page = found.len() < page;
        let mut is_through = true;
        for key in found {
            match key.due_in {
                _ if deliveries.has(key.lane) => {}
                None => {}
                Some(Duration::ZERO) if room == 0 => {
                    is_through = false;
                    break;
                }
                Some(Duration::ZERO) => {
                    deliveries.start(key.lane, deliver(Arc::clone(&shared), key.lane));
                    has_taken = true;
                    room -= 1;
                }
                Some(due_in) => soonest = soonest.min(due_in.max(SHORTEST_PAUSE)),
            }
            above = key.lane;
        }
        if is_through && is_last_page {
            above = Lane::BEFORE_ALL;
            if !has_taken {
                wait(control, soonest).await;
            }
            (has_taken, soonest) = (false, settings.poll);
        }
    }
    deliveries.all_ended().await;
}

/// Waits, but not longer than until something happens.
async fn wait(control: &Control, at_most: Duration) {
    let _ = tokio::time::timeout(at_most, control.wake.notified()).await;
}

fn random_lane() -> Lane {
    let bytes = Token::random().to_bytes();
    let (first, _) = bytes.split_first_chunk().unwrap_or((&[0; 8], &[]));
    Lane(i64::from_be_bytes(*first))
}

/// The keys that are being worked on. Dropped, their tasks are aborted.
#[derive(Default)]
struct Deliveries {
    tasks: JoinSet<End>,
    lanes: HashMap<Id, Lane>,
}

impl Deliveries {
    fn has(&self, lane: Lane) -> bool {
        self.lanes.values().any(|&it| it == lane)
    }

    fn start(&mut self, lane: Lane, delivery: impl Future<Output = End> + Send + 'static) {
        let task = self.tasks.spawn(delivery);
        self.lanes.insert(task.id(), lane);
    }

    /// The ends of those that have ended since the last call.
    fn ended(&mut self) -> Vec<End> {
        let mut ends = Vec::new();
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let (id, end) = match ended {
                Ok((id, end)) => (id, end),
                Err(error) => (error.id(), End::DatabaseError),
            };
            self.lanes.remove(&id);
            ends.push(end);
        }
        ends
    }

    async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// A broker or a database that fails as a whole: the relay pauses, then tries one key.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    until: Option<Instant>,
}

impl Trouble {
    fn learn(&mut self, end: End) {
        match end {
            End::Nothing => {}
            End::Progress => *self = Self::default(),
            // Deliveries that were under way together fail together, and count once.
            End::BrokerUnavailable | End::DatabaseError if self.pause().is_some() => {}
            End::BrokerUnavailable | End::DatabaseError => {
                let pause = backoff(FIRST_TROUBLE, LONGEST_TROUBLE, self.failures);
                self.failures += 1;
                self.until = Some(Instant::now() + pause);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.failures == 0
    }

    /// The rest of the pause.
    fn pause(&self) -> Option<Duration> {
        let rest = self.until?.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_that_come_together_count_once() {
        let mut trouble = Trouble::default();
        for _ in 0..16 {
            trouble.learn(End::BrokerUnavailable);
        }
        assert_eq!((trouble.pause(), trouble.is_over()), (Some(FIRST_TROUBLE), false));
        tokio::time::advance(FIRST_TROUBLE).await;
        assert_eq!(trouble.pause(), None);
        trouble.learn(End::DatabaseError);
        assert_eq!(trouble.pause(), Some(2 * FIRST_TROUBLE));
        trouble.learn(End::Nothing);
        assert!(!trouble.is_over());
        trouble.learn(End::Progress);
        assert_eq!((trouble.pause(), trouble.is_over()), (None, true));
    }
}
