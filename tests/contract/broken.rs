//! Stores that are broken in one way each, and the cases of the contract that notice it.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Cursor, Filter, Found, Listed, MemoryOptions, MemoryStore, Next, Page, Record, Seen,
    State, Store, StoreError, StoreErrorKind, StoreFuture, Swap, Swapped, Verb, WhenFull,
};
use idempotent_runtime::testing::{ManualClock, Subject, contract};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The way in which a store is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    /// Writes although the condition does not hold, and shows the record that was there.
    WritesInAnyCase,
    FindsNothing,
    KeepsTheOldLife,
    DropsValues,
    ComparesTokensOnly,
    ComparesValues,
    IgnoresTheLife,
    DemandsLessLife,
    ExtendShortens,
    ExtendsAnyRecord,
    ExpiredIsInTheWay,
    RefusesWhenFull,
    TakesWhenFull,
    AnswersInReverse,
    ConfirmNeedsARecord,
    ConfirmRemoves,
    CannotScan,
    ListsTwice,
    ListsAllButOne,
    ListsWithoutSizes,
    StartsAgain,
    ListsAnyKey,
    ListsAnyState,
    ListsNoneOfTheDead,
    ListsExpired,
    ListsOtherKeys,
}

type Case = fn(&dyn Subject);

macro_rules! noticed {
    ($($flaw:ident: $case:ident,)+) => {
        &[$((Flaw::$flaw, stringify!($case), |subject| {
            contract::block_on(contract::$case(subject));
        })),+]
    };
}

/// Each flaw, and a case that fails because of it.
const NOTICED: &[(Flaw, &str, Case)] = noticed! {
    WritesInAnyCase: swap_that_finds_another_record_writes_nothing,
    FindsNothing: swap_that_finds_another_record_writes_nothing,
    KeepsTheOldLife: swap_writes_the_whole_record,
    DropsValues: swap_writes_the_whole_record,
    ComparesTokensOnly: swap_compares_the_head_and_not_the_value,
    ComparesTokensOnly: extend_of_another_record_finds_it,
    ComparesValues: swap_compares_the_head_and_not_the_value,
    IgnoresTheLife: swap_takes_a_record_exactly_when_its_life_is_short_enough,
    DemandsLessLife: swap_takes_a_record_exactly_when_its_life_is_short_enough,
    ExtendShortens: extend_never_shortens,
    ExtendsAnyRecord: extend_of_another_record_finds_it,
    ExpiredIsInTheWay: expired_record_counts_as_none,
    RefusesWhenFull: full_store_takes_what_it_must,
    TakesWhenFull: full_store_takes_what_it_must,
    AnswersInReverse: many_swaps_are_answered_in_order,
    ConfirmNeedsARecord: confirm_answers_with_and_without_a_record,
    ConfirmRemoves: confirm_answers_with_and_without_a_record,
    CannotScan: scan_of_nothing_is_empty,
    ListsTwice: scan_lists_every_record_once,
    ListsAllButOne: scan_lists_every_record_once,
    ListsWithoutSizes: scan_lists_every_record_once,
    StartsAgain: scan_goes_on_behind_its_cursor,
    ListsAnyKey: scan_of_nothing_is_empty,
    ListsAnyKey: scan_filters_by_operation,
    ListsAnyKey: scan_filters_by_scope,
    ListsAnyState: scan_filters_by_state,
    ListsAnyState: scan_filters_blocked_keys,
    ListsNoneOfTheDead: scan_filters_blocked_keys,
    ListsExpired: scan_lists_only_what_lives,
    ListsOtherKeys: listed_keys_lead_back_to_their_records,
};

#[derive(Debug)]
struct Broken {
    store: MemoryStore,
    flaw: Flaw,
    /// The records that were ever written.
    written: Mutex<Vec<(RecordKey, Record)>>,
}

impl Broken {
    fn new(options: MemoryOptions, flaw: Flaw) -> Arc<Self> {
        let written = Mutex::default();
        Arc::new(Self { store: MemoryStore::with(options), flaw, written })
    }

    fn once_written(&self, key: &RecordKey) -> Option<Record> {
        let written = self.written.lock().unwrap();
        written.iter().rev().find(|(known, _)| known == key).map(|(_, record)| record.clone())
    }

    /// Does what a swap demands, whatever its condition.
    async fn force(&self, key: &RecordKey, next: Next) -> Result<Swapped, StoreError> {
        let seen = match self.store.load(key).await? {
            None => Seen::Nothing,
            Some(record) => Seen::This { head: record.head, at_most: None },
        };
        self.store.swap(key, Swap { seen, next, verb: Verb::Complete }).await
    }

    async fn break_swap(&self, key: &RecordKey, mut swap: Swap) -> Result<Swapped, StoreError> {
        let before = self.store.load(key).await?;
        let holds = swap.seen.holds(before.as_ref());
        let found = Swapped::Found(before.clone().map(Found::from));
        match (self.flaw, &mut swap.seen, &mut swap.next, &before) {
            (Flaw::WritesInAnyCase, ..) if !holds => {
                self.force(key, swap.next).await?;
                return Ok(found);
            }
            (Flaw::FindsNothing, ..) if !holds => return Ok(Swapped::Found(None)),
            (Flaw::KeepsTheOldLife, _, Next::Put { ttl, .. }, Some(before)) => *ttl = before.ttl,
            (Flaw::DropsValues, _, Next::Put { value, .. }, _) => *value = None,
            (Flaw::ComparesTokensOnly, Seen::This { head, .. }, _, Some(before))
                if head.attempt.token == before.head.attempt.token =>
            {
                *head = before.head;
            }
            (Flaw::ComparesValues, Seen::This { .. }, _, Some(Record { value: Some(_), .. })) => {
                return Ok(found);
            }
            (Flaw::IgnoresTheLife, Seen::This { at_most, .. }, ..) => *at_most = None,
            (Flaw::DemandsLessLife, Seen::This { at_most: Some(at_most), .. }, ..) => {
                *at_most -= Duration::from_secs(10);
            }
            (Flaw::ExtendShortens, _, Next::Extend { ttl }, Some(before)) if holds => {
                let (head, value, ttl) = (before.head, before.value.clone(), *ttl);
                swap.next = Next::Put { head, value, ttl, when_full: WhenFull::Take };
            }
            (Flaw::ExtendsAnyRecord, _, Next::Extend { .. }, _) => {
                return self.force(key, swap.next).await;
            }
            (Flaw::ExpiredIsInTheWay, Seen::Nothing, _, None) => {
                if let Some(old) = self.once_written(key) {
                    return Ok(Swapped::Found(Some(old.into())));
                }
            }
            (Flaw::RefusesWhenFull, _, Next::Put { when_full, .. }, _) => {
                *when_full = WhenFull::Refuse;
            }
            (Flaw::TakesWhenFull, _, Next::Put { when_full, .. }, _) => *when_full = WhenFull::Take,
            _ => {}
        }
        let swapped = self.store.swap(key, swap).await;
        if let Some(record) = self.store.load(key).await? {
            self.written.lock().unwrap().push((key.clone(), record));
        }
        swapped
    }

    async fn break_page(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        if self.flaw == Flaw::CannotScan {
            return Err(StoreError::new(StoreErrorKind::Misconfigured, "cannot"));
        }
        let everything = Filter::new();
        let (filter, limit) = match self.flaw {
            Flaw::ListsAnyKey | Flaw::ListsAnyState => (&everything, limit),
            _ => (filter, limit),
        };
        let mut page = self.store.scan(filter, after, limit).await?;
        match self.flaw {
            Flaw::ListsNoneOfTheDead => {
                page.records.retain(|it| it.head.state != State::Processing)
            }
            Flaw::ListsTwice => page.records.extend(page.records.first().cloned()),
            Flaw::ListsAllButOne if page.next.is_none() => drop(page.records.pop()),
            Flaw::ListsWithoutSizes => page.records.iter_mut().for_each(|it| it.value_bytes = None),
            Flaw::StartsAgain if after.is_some() => {
                page.records.extend(self.store.scan(filter, None, limit).await?.records);
            }
            Flaw::ListsExpired => {
                let written = self.written.lock().unwrap();
                let lives = |key: &RecordKey| page.records.iter().any(|it| it.key == *key);
                let others =
                    written.iter().filter(|(key, _)| filter.admits_key(key) && !lives(key));
                let others: Vec<_> = others.cloned().collect();
                page.records.extend(
                    others.into_iter().map(|(key, it)| Listed::new(key, it.head, it.ttl, None)),
                );
            }
            Flaw::ListsOtherKeys => page.records.iter_mut().for_each(|it| {
                it.key = RecordKey::from(&*it.key.as_str().replace('{', "("));
            }),
            _ => {}
        }
        Ok(page)
    }
}

impl Store for Broken {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        self.store.load(key)
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(self.break_swap(key, swap))
    }

    fn confirm<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, ()> {
        StoreFuture::new(async move {
            match self.flaw {
                Flaw::ConfirmNeedsARecord if self.store.load(key).await?.is_none() => {
                    Err(StoreError::new(StoreErrorKind::NotReplicated, "there is none"))
                }
                Flaw::ConfirmRemoves => self.force(key, Next::Nothing).await.map(drop),
                _ => Ok(()),
            }
        })
    }

    fn swap_many<'a>(
        &'a self,
        swaps: &'a [(RecordKey, Swap)],
    ) -> StoreFuture<'a, Vec<Result<Swapped, StoreError>>> {
        StoreFuture::new(async move {
            let mut answers = self.store.swap_many(swaps).await;
            if self.flaw == Flaw::AnswersInReverse {
                answers.reverse();
            }
            answers
        })
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::new(self.break_page(filter, after, limit))
    }
}

struct BrokenSubject {
    clock: ManualClock,
    store: Arc<Broken>,
}

impl BrokenSubject {
    fn new(flaw: Flaw) -> Self {
        let clock = ManualClock::new();
        let store = Broken::new(MemoryOptions::new().clock(clock.clock()), flaw);
        Self { clock, store }
    }
}

impl Subject for BrokenSubject {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        self.clock.advance(by);
        StoreFuture::ready(())
    }

    fn bounded(&self) -> Option<Arc<dyn Store>> {
        let options = MemoryOptions::new().clock(self.clock.clock());
        Some(Broken::new(options.max_entries(16).max_bytes(16 * 1024), self.store.flaw))
    }
}

/// The text of the panic with which a case fails.
fn failure(case: Case, subject: &dyn Subject) -> Option<String> {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| case(subject))).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn every_flaw_is_noticed_by_the_case_that_is_about_it() {
    for &(flaw, name, case) in NOTICED {
        let failure = failure(case, &BrokenSubject::new(flaw));
        assert!(failure.is_some(), "{name} passes with the flaw {flaw:?}");
        println!("{flaw:?}: {name}: {}", failure.unwrap_or_default());
    }
}

/// A subject that says that its store cannot scan must not have one that can.
#[test]
fn a_store_that_can_scan_is_not_one_that_cannot() {
    struct Denies(BrokenSubject);

    impl Subject for Denies {
        fn store(&self) -> Arc<dyn Store> {
            self.0.store()
        }

        fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
            self.0.step(keys, by)
        }

        fn scans(&self) -> bool {
            false
        }
    }

    let case: Case = |subject| contract::block_on(contract::scan_of_nothing_is_empty(subject));
    assert_eq!(failure(case, &Denies(BrokenSubject::new(Flaw::CannotScan))), None);
    assert!(failure(case, &Denies(BrokenSubject::new(Flaw::ListsTwice))).is_some());
}
