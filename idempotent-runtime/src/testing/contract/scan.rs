//! The listing of records. A store that has none refuses, and its [`Subject`] says so.

use super::Subject;
use super::bench::{
    Bench, LEASE, RETENTION, answered, asking, asking_for_a_window, asking_to_block, own_key, value,
};
use crate::key::{Encoded, Parts, RecordKey, Scope};
use crate::protocol::{Failure, Forgotten, Updated};
use crate::store::{Cursor, Filter, Listed, Page, State, StoreErrorKind};
use std::collections::HashMap;

/// More pages than any listing in a test has.
const ENOUGH: usize = 200_000;

/// An operation that nobody else has, with characters that filters could trip over.
fn own_operation() -> String {
    format!("op|*[a]?\\ {}", own_key("").hashed())
}

/// The key `number` of an operation.
fn key_of(operation: &str, number: u32) -> RecordKey {
    composed(operation, Scope::default(), &Encoded::of(&number))
}

fn composed(operation: &str, scope: Scope<'_>, key: &Encoded) -> RecordKey {
    let key = RecordKey::compose("contract:", operation, scope, key.as_str());
    key.unwrap_or_else(|error| panic!("{error:?}"))
}

impl Bench<'_> {
    async fn page(&self, filter: &Filter, after: Option<&Cursor>, limit: usize) -> Page {
        answered(self.store.scan(filter, after, limit).await)
    }

    /// All records that a filter admits, none of them twice.
    async fn listed(&self, filter: &Filter, limit: usize) -> HashMap<RecordKey, Listed> {
        let mut listed = HashMap::new();
        let mut after = None;
        for _ in 0..ENOUGH {
            let page = self.page(filter, after.as_ref(), limit).await;
            for found in page.records {
                let twice = listed.insert(found.key.clone(), found);
                assert!(twice.is_none(), "listed twice: {twice:?}");
            }
            after = page.next;
            if after.is_none() {
                return listed;
            }
        }
        panic!("no end after {ENOUGH} pages");
    }

    /// The keys that a filter admits must be these.
    async fn assert_listed(&self, filter: &Filter, limit: usize, expected: &[RecordKey]) {
        let listed = self.listed(filter, limit).await;
        let missing = expected.iter().filter(|key| !listed.contains_key(*key)).count();
        assert_eq!(missing, 0, "not listed, of {} by {filter:?}", expected.len());
        assert_eq!(listed.len(), expected.len(), "more than asked for, by {filter:?}");
    }

    /// Writes an answer for a key.
    async fn answers(&self, key: &RecordKey, bytes: &[u8]) {
        let bench = self.with_key(key.clone());
        let attempt = bench.granted(&asking()).await;
        bench.complete(&attempt, bytes).await;
    }
}

/// The bench of a store that can list its records. One that cannot must refuse.
async fn scanning(subject: &dyn Subject) -> Option<Bench<'_>> {
    let bench = Bench::new(subject);
    if subject.scans() {
        return Some(bench);
    }
    let refused = bench.store.scan(&Filter::new(), None, 1).await;
    let kind = refused.map(drop).map_err(|error| error.kind());
    assert_eq!(kind, Err(StoreErrorKind::Misconfigured), "the subject says that it cannot scan");
    None
}

/// Every record is listed once, with its head, its life and the sizes of key and value.
pub async fn scan_lists_every_record_once(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let filter = Filter::new().prefix("contract:").operation(&operation);
    let keys: Vec<_> = (0..40).map(|number| key_of(&operation, number)).collect();
    for (length, key) in keys.iter().enumerate() {
        if length == 0 {
            bench.with_key(key.clone()).granted(&asking()).await;
        } else {
            bench.answers(key, &vec![7; 40 * length - 40]).await;
        }
    }
    let mut before = Vec::new();
    for key in &keys {
        before.extend(bench.with_key(key.clone()).get().await);
    }
    let listed = bench.listed(&filter, 7).await;
    assert_eq!(listed.len(), keys.len());
    for (length, key) in keys.iter().enumerate() {
        let shown = listed.get(key).unwrap_or_else(|| panic!("record {length} is not listed"));
        let bench = bench.with_key(key.clone());
        let record = bench.get().await.unwrap_or_else(|| panic!("record {length} is gone"));
        assert_eq!(shown.head, record.head, "record {length}");
        // Between a look before and one after, however long the listing took.
        let lives = record.ttl..=before[length].ttl;
        assert!(lives.contains(&shown.ttl), "record {length}: {:?} is not in {lives:?}", shown.ttl);
        assert_eq!(shown.key_bytes(), key.as_str().len() as u64);
        let expected = record.value.map(|value| value.as_bytes().len() as u64);
        assert_eq!(shown.value_bytes, expected, "record {length}");
    }
}

/// Pages follow each other by their cursors, whose text can be taken back, also with one record at
/// a time; a limit of none counts as one.
pub async fn scan_goes_on_behind_its_cursor(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let filter = Filter::new().operation(&operation);
    let keys: Vec<_> = (0..5).map(|number| key_of(&operation, number)).collect();
    for key in &keys {
        bench.answers(key, b"answer").await;
    }
    for limit in [0, 1, 2, usize::MAX] {
        bench.assert_listed(&filter, limit, &keys).await;
    }
    let first = bench.page(&filter, None, 1).await;
    if let Some(next) = first.next {
        let copied = Cursor::new(next.as_str());
        let pages = [&next, &copied].map(|cursor| bench.page(&filter, Some(cursor), 1));
        let [one, other] = pages;
        assert_eq!(one.await.next, other.await.next);
    }
}

/// A filter that admits no record lists none.
pub async fn scan_of_nothing_is_empty(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    bench.answers(&key_of(&own_operation(), 1), b"answer").await;
    let filter = Filter::new().operation(&own_operation());
    assert!(bench.listed(&filter, 500).await.is_empty());
}

/// A filter by operation admits that operation alone, whatever characters it holds.
pub async fn scan_filters_by_operation(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let longer = format!("{operation}|1");
    let keys = [key_of(&operation, 1), key_of(&operation, 2)];
    let others = [key_of(&longer, 1), key_of(&operation.replace('*', "x"), 1)];
    for key in keys.iter().chain(&others) {
        bench.answers(key, b"answer").await;
    }
    let filter = Filter::new().operation(&operation);
    bench.assert_listed(&filter, 100, &keys).await;
    bench.assert_listed(&filter.clone().prefix("contract:"), 100, &keys).await;
    bench.assert_listed(&filter.prefix("another:"), 100, &[]).await;
    bench.assert_listed(&Filter::new().operation(&longer), 100, &others[..1]).await;
}

/// A filter by scope admits records with that ambient or own scope, also if keys hold its hash.
pub async fn scan_filters_by_scope(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let (acme, long) = (Encoded::of("acme"), Encoded::of("x".repeat(600).as_str()));
    let key = |scope| composed(&operation, scope, &Encoded::of("k"));
    let ambient = key(Scope { ambient: acme.as_str(), own: "" });
    let own = key(Scope { ambient: long.as_str(), own: acme.as_str() });
    let hashed = key(Scope { ambient: "", own: long.as_str() });
    let without = composed(&operation, Scope::default(), &acme);
    for key in [&ambient, &own, &hashed, &without] {
        bench.answers(key, b"answer").await;
    }
    let filter = Filter::new().operation(&operation);
    bench.assert_listed(&filter.clone().scope("acme"), 100, &[ambient, own.clone()]).await;
    bench.assert_listed(&filter.clone().scope("x".repeat(600)), 100, &[own, hashed]).await;
    bench.assert_listed(&filter.scope("acm"), 100, &[]).await;
}

/// A filter by state admits records in that state alone.
pub async fn scan_filters_by_state(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let mut expected = Vec::new();
    for (number, state) in (0..).zip([
        State::Processing,
        State::Abandoned,
        State::FailedFree,
        State::FailedFinal,
        State::Succeeded,
        State::Taken,
    ]) {
        let bench = bench.with_key(key_of(&operation, number));
        let request = match state {
            State::Taken => asking_for_a_window(),
            _ => asking_to_block(),
        };
        let attempt = bench.granted(&request).await;
        let ended = match state {
            State::Processing | State::Taken => true,
            State::Abandoned => bench.abandon(&attempt).await == Updated::Done,
            State::FailedFree => bench.forget(true).await == Forgotten::Freed,
            State::FailedFinal => {
                bench.fail(&attempt, Failure::Final(value(b"error"))).await == Updated::Done
            }
            State::Succeeded => bench.complete(&attempt, b"answer").await == Updated::Done,
        };
        assert!(ended, "{state:?}");
        expected.push((state, bench.key));
    }
    let filter = Filter::new().operation(&operation);
    for (state, key) in expected {
        bench.assert_listed(&filter.clone().state(state), 100, &[key]).await;
    }
}

/// A filter for blocked keys admits those of attempts that were abandoned and of processes that died,
/// and not those that run, may be taken over, or have ended.
pub async fn scan_filters_blocked_keys(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let [abandoned, died, free, answered, runs] =
        [0, 1, 2, 3, 4].map(|number| bench.with_key(key_of(&operation, number)));
    let attempt = abandoned.granted(&asking_to_block()).await;
    assert_eq!(abandoned.abandon(&attempt).await, Updated::Done);
    died.granted(&asking_to_block()).await;
    free.granted(&asking()).await;
    let attempt = answered.granted(&asking_to_block()).await;
    answered.complete(&attempt, b"answer").await;
    let filter = Filter::new().operation(&operation);
    let blocked = filter.clone().blocked();
    bench.assert_listed(&blocked, 100, std::slice::from_ref(&abandoned.key)).await;
    let keys = [abandoned.key, died.key, free.key, answered.key];
    subject.step(&keys, LEASE).await;
    runs.granted(&asking_to_block()).await;
    bench.assert_listed(&blocked, 100, &keys[..2]).await;
    bench.assert_listed(&blocked.state(State::Processing), 100, &keys[1..2]).await;
    for (key, found) in bench.listed(&filter, 100).await {
        assert_eq!(found.is_blocked(), keys[..2].contains(&key), "{found:?}");
    }
}

/// A record whose time is over, or that was removed, is not listed.
pub async fn scan_lists_only_what_lives(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let keys: Vec<_> = (0..3).map(|number| key_of(&operation, number)).collect();
    for key in &keys {
        bench.answers(key, b"answer").await;
    }
    let filter = Filter::new().operation(&operation);
    bench.with_key(keys[0].clone()).forget(false).await;
    bench.assert_listed(&filter, 100, &keys[1..]).await;
    subject.step(&keys[1..], RETENTION).await;
    bench.assert_listed(&filter, 100, &[]).await;
}

/// The text of a listed key is that of the record: it can be parsed, and leads to the record, with
/// a hash tag, braces and hashed parts too.
pub async fn listed_keys_lead_back_to_their_records(subject: &dyn Subject) {
    let Some(bench) = scanning(subject).await else { return };
    let operation = own_operation();
    let template = Parts::template().text("user|{").part(r#"a"|}"#).text("}").finish();
    let long = Encoded::of("x".repeat(600).as_str());
    let scope = Scope { ambient: long.as_str(), own: template.as_str() };
    let mut keys = Vec::new();
    for key in [Encoded::of(&("a|b", 7)), template.clone(), long.clone()] {
        for scope in [Scope::default(), scope] {
            let key = composed(&operation, scope, &key);
            keys.extend(key.with_hash_tag("sku|1"));
            keys.push(key);
        }
    }
    for (number, key) in keys.iter().enumerate() {
        bench.answers(key, &[number as u8]).await;
    }
    let listed = bench.listed(&Filter::new().operation(&operation), 5).await;
    assert_eq!(listed.len(), keys.len());
    for (number, key) in keys.iter().enumerate() {
        let shown = listed.get(key).unwrap_or_else(|| panic!("{} is not listed", key.as_str()));
        let parsed: RecordKey = shown.key.as_str().parse().unwrap_or_else(|error| {
            panic!("{}: {error}", shown.key.as_str());
        });
        let record = bench.with_key(parsed.clone()).get().await;
        let stored = record.and_then(|record| record.value);
        assert_eq!(stored, value(&[number as u8]), "{}", key.as_str());
        let forgotten = bench.with_key(parsed).forget(false).await;
        assert_eq!(forgotten, Forgotten::Deleted);
    }
}
