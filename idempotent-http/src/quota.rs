//! Limit on the keys that one client may begin in a period, so that none fills the store.
//!
//! A key counts when its handler starts for the first time. Until then it holds a reservation, so
//! that many new keys at once do not all pass; requests with the same key share one. A key that has
//! a record is neither counted nor refused: a repeat is answered, however many keys were begun
//! since.

use crate::identity::Identity;
use crate::layer::IdempotencyLayer;
use crate::problem;
use crate::settings::Settings;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::problem::Problem;
use idempotent_runtime::{ambient, current};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Largest number of scopes that are counted at a time. Beyond that, the oldest is evicted.
pub(crate) const MOST_SCOPES: usize = 1 << 16;

impl IdempotencyLayer {
    /// Limits the keys that requests of one [`scope`](Self::scope) may begin in a period; without a
    /// scope, those of all requests together. A scope that an outer layer with
    /// [`ambient_only`](Self::ambient_only) put in place counts like one of the layer's own.
    /// Requests over the limit are refused (429, with `Retry-After`) before anything is stored.
    ///
    /// Repeats do not count, and get their answer while new keys are refused. A key counts when its
    /// handler first starts, whatever becomes of it; the period of a scope begins with its first key.
    ///
    /// Each process counts for itself, for a layer and all its clones together, and for up to 65,536
    /// scopes at a time. The record of a key is looked at before it is begun, which costs a round trip
    /// to the store.
    #[must_use]
    pub fn new_keys_per_scope(self, keys: usize, period: Duration) -> Self {
        let quota = Quota { keys, period, most_scopes: MOST_SCOPES, table: Mutex::default() };
        self.with(|it| it.quota = Some(Arc::new(quota)))
    }
}

/// Lets a request begin its key, unless its scope has begun too many.
pub(crate) async fn admit(
    quota: &Arc<Quota>,
    settings: &Settings,
    identity: &Identity<'_>,
) -> Result<Option<NewKey>, Problem> {
    let operation = identity.operation(settings);
    // Nothing is stored for a key that is refused, nor by an instance that is turned off.
    let Ok(key) = operation.record_key() else { return Ok(None) };
    if !settings.instance.is_enabled() {
        return Ok(None);
    }
    // If the store does not answer, the operation decides: it refuses, or runs without a record.
    let is_known = async || operation.get().await.is_ok_and(|record| record.is_some());
    if is_known().await {
        return Ok(None);
    }
    let now = settings.instance.elapsed();
    match quota.ask(&counted_scope(identity), key, now) {
        Ok(new) => Ok(Some(new)),
        // Another request may have begun the key since its record was looked at.
        Err(Over { .. }) if is_known().await => Ok(None),
        Err(Over { ends_in }) => {
            let detail = "repeats of earlier requests are still answered (it was not handled)";
            Err(Problem::new(problem::TOO_MANY_KEYS, detail).retry_after(ends_in))
        }
    }
}

/// The scope whose keys are counted: the layer's own, behind the one that another adapter put in place.
fn counted_scope(identity: &Identity<'_>) -> String {
    let outer = ambient::current().and_then(|ambient| ambient.scope);
    // No encoded scope begins with a bar, so the layer's own scope never passes for an outer one.
    let outer = outer.as_ref().map_or("", |scope| scope.as_str());
    format!("{outer}|{}", identity.scope.unwrap_or_default())
}

/// The keys that scopes have begun.
pub(crate) struct Quota {
    keys: usize,
    period: Duration,
    most_scopes: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    scopes: HashMap<Arc<str>, Period>,
    /// The same scopes, in the order in which their periods began, which is that in which they end.
    order: VecDeque<Arc<str>>,
    /// The number of reservations made so far, which numbers them.
    reservations: u64,
}

/// The keys of one scope in one period.
struct Period {
    began: Duration,
    counted: usize,
    asking: HashMap<RecordKey, Reservation>,
}

/// The reservation of a key that has not started, shared by all requests with that key.
struct Reservation {
    number: u64,
    requests: usize,
}

/// The limit of the period is reached.
#[derive(Debug, PartialEq, Eq)]
struct Over {
    ends_in: Duration,
}

impl Quota {
    /// Describes a limit that would refuse every key, or none.
    pub(crate) fn mistake(&self) -> Option<String> {
        let (wrong, accepted) = match (self.keys, self.period) {
            (0, _) => ("keys cannot be 0", "1 or more"),
            (_, Duration::ZERO) => ("period cannot be 0s", "more than that"),
            _ => return None,
        };
        Some(format!("`new_keys_per_scope`: its {wrong}; accepted: {accepted}"))
    }

    fn ask(self: &Arc<Self>, scope: &str, key: RecordKey, now: Duration) -> Result<NewKey, Over> {
        let mut table = self.table();
        table.end_periods(now, self.period);
        table.reservations += 1;
        let number = table.reservations;
        let (scope, period) = table.period(scope, now, self.most_scopes);
        let taken = period.counted + period.asking.len();
        let number = match period.asking.get_mut(&key) {
            Some(reservation) => {
                reservation.requests += 1;
                reservation.number
            }
            None if taken >= self.keys => {
                let ends_in = period.began.saturating_add(self.period).saturating_sub(now);
                return Err(Over { ends_in });
            }
            None => {
                period.asking.insert(key.clone(), Reservation { number, requests: 1 });
                number
            }
        };
        drop(table);
        Ok(NewKey { quota: Arc::clone(self), scope, key, number })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn end_periods(&mut self, now: Duration, period: Duration) {
        while let Some(first) = self.order.front() {
            // The longest periods overflow the clock, and never end.
            let has_ended =
                |it: &Period| it.began.checked_add(period).is_some_and(|end| now >= end);
            let is_over = self.scopes.get(first).is_none_or(has_ended);
            if !is_over {
                break;
            }
            self.end_first();
        }
    }

    fn end_first(&mut self) {
        if let Some(first) = self.order.pop_front() {
            self.scopes.remove(&first);
        }
    }

    /// Returns the period of a scope, and begins it if there is none.
    fn period(&mut self, scope: &str, now: Duration, most: usize) -> (Arc<str>, &mut Period) {
        let scope = match self.scopes.get_key_value(scope) {
            Some((scope, _)) => Arc::clone(scope),
            None => {
                if self.scopes.len() >= most {
                    self.end_first();
                }
                let scope = Arc::<str>::from(scope);
                self.order.push_back(Arc::clone(&scope));
                scope
            }
        };
        let begins = || Period { began: now, counted: 0, asking: HashMap::new() };
        let period = self.scopes.entry(Arc::clone(&scope)).or_insert_with(begins);
        (scope, period)
    }
}

/// A key that has not started yet. Dropping it gives its reservation back.
pub(crate) struct NewKey {
    quota: Arc<Quota>,
    scope: Arc<str>,
    key: RecordKey,
    number: u64,
}

impl NewKey {
    /// Counts the key, because its handler is about to start. Only a first attempt counts: a later
    /// one continues an existing record, and a run without protection has none.
    pub(crate) fn starts(self) {
        if current().is_some_and(|current| current.attempt() == 1) {
            self.counts();
        }
    }

    fn counts(self) {
        self.settle(|period, key| {
            period.asking.remove(key);
            period.counted += 1;
        });
    }

    /// Changes the reservation of this key, unless its period has ended or another request has
    /// settled it.
    fn settle(&self, change: impl FnOnce(&mut Period, &RecordKey)) {
        let mut table = self.quota.table();
        let Some(period) = table.scopes.get_mut(&self.scope) else { return };
        if period.asking.get(&self.key).is_some_and(|reservation| reservation.number == self.number)
        {
            change(period, &self.key);
        }
    }
}

impl Drop for NewKey {
    fn drop(&mut self) {
        self.settle(|period, key| {
            let Some(reservation) = period.asking.get_mut(key) else { return };
            reservation.requests -= 1;
            if reservation.requests == 0 {
                period.asking.remove(key);
            }
        });
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Quota")
            .field("keys", &self.keys)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn quota(keys: usize, most_scopes: usize) -> Arc<Quota> {
        Arc::new(Quota { keys, period: PERIOD, most_scopes, table: Mutex::default() })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Asks for a key and counts it.
    fn begin(quota: &Arc<Quota>, scope: &str, key: &str, now: u64) -> Result<(), Over> {
        quota.ask(scope, key.into(), at(now)).map(NewKey::counts)
    }

    #[test]
    fn a_period_begins_with_its_first_key_and_ends_for_all_of_its_keys() {
        let quota = quota(2, 8);
        begin(&quota, "a", "1", 100).unwrap();
        begin(&quota, "a", "2", 150).unwrap();
        assert_eq!(begin(&quota, "a", "3", 155), Err(Over { ends_in: at(5) }));
        begin(&quota, "b", "3", 155).unwrap();
        begin(&quota, "a", "3", 160).unwrap();
        begin(&quota, "a", "4", 219).unwrap();
        assert_eq!(begin(&quota, "a", "5", 219), Err(Over { ends_in: at(1) }));
    }

    #[test]
    fn new_keys_take_reservations_and_give_them_back() {
        let quota = quota(2, 8);
        let ask = |key: &str| quota.ask("a", key.into(), at(0));
        let (one, two) = (ask("1").unwrap(), ask("2").unwrap());
        assert!(ask("3").is_err());
        // The same key again needs no reservation of its own, and keeps the shared one.
        let again = ask("1").unwrap();
        drop(one);
        assert!(ask("3").is_err());
        drop(again);
        let three = ask("3").unwrap();
        three.counts();
        two.counts();
        assert!(ask("4").is_err());
    }

    #[test]
    fn a_settled_reservation_is_not_given_back_by_requests_that_shared_it() {
        let quota = quota(2, 8);
        let ask = |key: &str| quota.ask("a", key.into(), at(0)).unwrap();
        let (one, shared) = (ask("1"), ask("1"));
        one.counts();
        let later = ask("1");
        drop(shared);
        assert!(quota.ask("a", "2".into(), at(0)).is_err());
        drop(later);
        ask("2").counts();
    }

    #[test]
    fn a_reservation_of_a_period_that_has_ended_counts_in_no_other() {
        let quota = quota(1, 8);
        let late = quota.ask("a", "1".into(), at(0)).unwrap();
        let other = quota.ask("a", "1".into(), at(60)).unwrap();
        drop(late);
        assert!(quota.ask("a", "2".into(), at(60)).is_err());
        drop(other);
        begin(&quota, "a", "2", 60).unwrap();
    }

    #[test]
    fn scopes_are_bounded_and_the_oldest_period_makes_room() {
        let quota = quota(1, 3);
        for scope in ["a", "b", "c"] {
            begin(&quota, scope, "1", 0).unwrap();
        }
        begin(&quota, "d", "1", 1).unwrap();
        for scope in ["b", "c", "d"] {
            assert!(begin(&quota, scope, "2", 2).is_err(), "{scope}");
        }
        begin(&quota, "a", "2", 3).unwrap();
        for number in 0..10_000 {
            begin(&quota, &format!("scope {number}"), "1", 4).unwrap();
        }
        let table = quota.table();
        assert_eq!((table.scopes.len(), table.order.len()), (3, 3));
    }

    #[test]
    fn what_is_over_leaves_nothing_behind() {
        let quota = quota(1, 1000);
        for number in 0..500 {
            begin(&quota, &format!("scope {number}"), "1", number).unwrap();
        }
        begin(&quota, "last", "1", 10_000).unwrap();
        let table = quota.table();
        assert_eq!((table.scopes.len(), table.order.len()), (1, 1));
    }
}
