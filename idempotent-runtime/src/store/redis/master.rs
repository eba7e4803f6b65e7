//! The master that sentinels name, of all their answers.
//!
//! Sentinels learn of a failover one after the other: the one that leads it first, the others by
//! its next message, one that was cut off whenever it is back. Every configuration has an epoch,
//! which a majority of them agreed on, and a later one is greater. So the answer with the greatest
//! epoch counts, and one with a smaller epoch never leads back to the master of before.
//!
//! Epochs start again where an operator sets the sentinels up anew. A smaller epoch is therefore
//! believed once no sentinel has confirmed the greater one for [`OUTDATED_FOR`].

use crate::sync::{Mutex, lock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time within which a sentinel hears of a configuration that another one has told. They tell each
/// other every two seconds.
const OUTDATED_FOR: Duration = Duration::from_secs(10);

/// A master, as a sentinel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) host: String,
    pub(super) port: u16,
    /// Of the configuration that made it the master.
    pub(super) epoch: u64,
}

impl Named {
    fn is_at(&self, host: &str, port: u16) -> bool {
        self.host == host && self.port == port
    }
}

/// The master as far as it is known, and how often it was replaced.
#[derive(Debug)]
pub(super) struct Master {
    known: Mutex<Option<Known>>,
    generation: watch::Sender<Generation>,
}

/// Tells the connections to a master from those to the masters before and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u64);

#[derive(Clone, Debug)]
struct Known {
    named: Named,
    /// The last time that a sentinel named it.
    confirmed: Instant,
}

/// Verdict on an answer of a sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// It is the first one.
    First,
    /// It names the master that is known.
    Confirmed,
    /// It names another one that has taken its place.
    Replaced,
    /// It names one whose place has been taken.
    Outdated,
}

fn judge(known: Option<&Known>, named: &Named, now: Instant) -> Judgement {
    let Some(Known { named: known, confirmed }) = known else { return Judgement::First };
    let unconfirmed = now.saturating_duration_since(*confirmed);
    if known.is_at(&named.host, named.port) {
        Judgement::Confirmed
    } else if named.epoch > known.epoch || unconfirmed > OUTDATED_FOR {
        Judgement::Replaced
    } else {
        Judgement::Outdated
    }
}

impl Master {
    pub(super) fn new() -> Self {
        Self { known: Mutex::new(None), generation: watch::Sender::new(Generation::default()) }
    }

    /// Takes an answer into account. The generation of connections to the master that it names;
    /// `None` if it is outdated.
    pub(super) fn learn(&self, named: &Named) -> Option<Generation> {
        let mut known = lock(&self.known);
        let now = Instant::now();
        let epoch = match judge(known.as_ref(), named, now) {
            Judgement::Outdated => return None,
            Judgement::First => named.epoch,
            Judgement::Confirmed => {
                named.epoch.max(known.as_ref().map_or(0, |known| known.named.epoch))
            }
            Judgement::Replaced => {
                let Named { host, port, .. } = named;
                tracing::info!(
                    target: "idempotent", master = %format_args!("{host}:{port}"),
                    "the master was replaced: connections to the one before are dropped"
                );
                self.generation.send_modify(|Generation(number)| *number += 1);
                named.epoch
            }
        };
        *known = Some(Known { named: Named { epoch, ..named.clone() }, confirmed: now });
        Some(self.generation())
    }

    /// Confirms the master that is known; `false` if this is another one.
    pub(super) fn confirm(&self, host: &str, port: u16) -> bool {
        match &mut *lock(&self.known) {
            Some(known) if known.named.is_at(host, port) => {
                known.confirmed = Instant::now();
                true
            }
            _ => false,
        }
    }

    pub(super) fn generation(&self) -> Generation {
        *self.generation.borrow()
    }

    /// Resolves when connections of this generation lead to a master of before.
    pub(super) async fn replaced(&self, since: Generation) {
        // The sender outlives this borrow of it.
        let _ = self.generation.subscribe().wait_for(|generation| *generation != since).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(port: u16, epoch: u64) -> Named {
        Named { host: "10.0.0.1".to_owned(), port, epoch }
    }

    #[test]
    fn a_later_configuration_replaces_the_master() {
        let master = Master::new();
        let first = master.learn(&named(1, 4)).unwrap();
        assert_eq!(master.learn(&named(1, 4)), Some(first));
        let second = master.learn(&named(2, 5)).unwrap();
        assert_ne!(second, first);
        assert_eq!(master.learn(&named(2, 5)), Some(second));
    }

    #[test]
    fn a_sentinel_that_lags_behind_does_not_lead_back() {
        let master = Master::new();
        master.learn(&named(1, 4)).unwrap();
        let second = master.learn(&named(2, 5)).unwrap();
        assert_eq!(master.learn(&named(1, 4)), None);
        assert_eq!(master.learn(&named(3, 5)), None, "an epoch has one master");
        assert!(!master.confirm("10.0.0.1", 1));
        assert_eq!(master.generation(), second);
    }

    #[test]
    fn the_same_master_in_a_later_configuration_keeps_its_connections() {
        let master = Master::new();
        let first = master.learn(&named(1, 4)).unwrap();
        assert_eq!(master.learn(&named(1, 7)), Some(first));
        assert_eq!(master.learn(&named(2, 6)), None, "the epoch was kept");
        // A sentinel that lags behind may name the same master.
        assert_eq!(master.learn(&named(1, 4)), Some(first));
        assert_eq!(master.learn(&named(2, 6)), None, "the epoch did not go back");
    }

    #[test]
    fn a_smaller_epoch_is_believed_when_the_greater_one_is_confirmed_by_nobody() {
        let now = Instant::now();
        let known = Known { named: named(2, 5), confirmed: now };
        let judge = |after| judge(Some(&known), &named(1, 0), now + after);
        assert_eq!(judge(OUTDATED_FOR), Judgement::Outdated);
        assert_eq!(judge(OUTDATED_FOR + Duration::from_millis(1)), Judgement::Replaced);
    }

    #[tokio::test]
    async fn who_waits_for_a_replacement_hears_of_one_that_was_before() {
        let master = Master::new();
        let first = master.learn(&named(1, 1)).unwrap();
        let mut replaced = Box::pin(master.replaced(first));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(replaced.as_mut().poll(&mut context).is_pending());
        master.learn(&named(2, 2)).unwrap();
        replaced.await;
        master.replaced(first).await;
    }
}
