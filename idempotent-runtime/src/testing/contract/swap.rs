//! The messages of a store themselves: load, compare and swap, confirm.

use super::Subject;
use super::bench::{Bench, LEASE, LINGER, RETENTION, answered, asking, own_key, value};
use super::bounded::filled;
use crate::config::Abandon;
use crate::store::{
    Claim, Found, Head, Next, Seen, State, StoreErrorKind, Swap, Swapped, Token, Value, Verb,
    WhenFull,
};
use crate::testing::model::payloads;
use std::time::Duration;

/// A record with a value, which lives for [`RETENTION`].
fn answer() -> Head {
    Head { attempt: asking().first_attempt(), state: State::Succeeded }
}

/// A record that differs from another one in one thing only, for each thing that it has.
fn others(head: Head) -> Vec<Head> {
    let with = |change: fn(&mut Head)| {
        let mut other = head;
        change(&mut other);
        other
    };
    let longer = LEASE + Duration::from_secs(1);
    let claims = [
        Claim::Lease { lease: longer, linger: LINGER, abandon: Abandon::Retry },
        Claim::Lease { lease: LEASE, linger: longer, abandon: Abandon::Retry },
        Claim::Lease { lease: LEASE, linger: LINGER, abandon: Abandon::Block },
    ];
    let mut others = vec![
        with(|head| head.state = State::FailedFinal),
        with(|head| head.attempt.token = Token::random()),
        with(|head| head.attempt.number += 1),
        with(|head| head.attempt.fence += 1),
        with(|head| head.attempt.fingerprint = Some(payloads()[0])),
    ];
    others.extend(claims.map(|claim| {
        let mut other = head;
        other.attempt.claim = claim;
        other
    }));
    others
}

fn put_for(head: Head, value: Option<Value>, ttl: Duration) -> Next {
    Next::Put { head, value, ttl, when_full: WhenFull::Take }
}

fn put(head: Head, value: Option<Value>) -> Next {
    put_for(head, value, RETENTION)
}

fn this(head: Head) -> Seen {
    Seen::This { head, at_most: None }
}

fn swap(seen: Seen, next: Next) -> Swap {
    Swap { seen, next, verb: Verb::Complete }
}

impl Bench<'_> {
    async fn swap(&self, seen: Seen, next: Next) -> Swapped {
        answered(self.store.swap(&self.key, swap(seen, next)).await)
    }

    async fn done(&self, seen: Seen, next: Next) {
        assert_eq!(self.swap(seen, next).await, Swapped::Done);
    }

    /// Swaps, which must find the record as it is and leave it so.
    async fn finds(&self, seen: Seen, next: Next) {
        let before = self.get().await;
        let found = match self.swap(seen, next.clone()).await {
            Swapped::Found(found) => found,
            other => panic!("{seen:?} -> {next:?}: {other:?}, though there is {before:?}"),
        };
        match (&found, &before) {
            (None, None) => {}
            (Some(Found { head, value, ttl }), Some(record)) => {
                assert_eq!((head, value), (&record.head, &record.value), "another record");
                ttl.iter().for_each(|ttl| self.assert_left(*ttl, record.ttl));
            }
            _ => panic!("found {found:?} where there is {before:?}"),
        }
        let after = self.get().await;
        assert_eq!(after.as_ref().map(|it| it.head), before.as_ref().map(|it| it.head));
        if let (Some(after), Some(before)) = (after, before) {
            assert_eq!(after.value, before.value);
            self.assert_left(after.ttl, before.ttl);
        }
    }
}

/// A swap whose condition does not hold writes nothing, and shows the record that is there.
pub async fn swap_that_finds_another_record_writes_nothing(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let (held, next) = (answer(), put_for(answer(), value(b"other"), LEASE));
    bench.finds(this(held), next.clone()).await;
    bench.finds(this(held), Next::Nothing).await;
    assert_eq!(bench.get().await, None);
    bench.done(Seen::Nothing, put(held, value(b"answer"))).await;
    bench.finds(Seen::Nothing, next.clone()).await;
    bench.finds(this(answer()), next).await;
    bench.finds(this(answer()), Next::Nothing).await;
    let record = bench.assert_lives(RETENTION).await;
    assert_eq!((record.head, record.value), (held, value(b"answer")));
}

/// A swap whose condition holds writes head, value and time to live, or removes the record.
pub async fn swap_writes_the_whole_record(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let (first, second) = (answer(), Head { state: State::FailedFinal, ..answer() });
    bench.done(Seen::Nothing, put(first, value(b"first"))).await;
    bench.done(this(first), put_for(second, value(b"second"), LEASE)).await;
    let record = bench.assert_lives(LEASE).await;
    assert_eq!((record.head, record.value), (second, value(b"second")));
    bench.done(this(second), put(first, None)).await;
    let record = bench.assert_lives(RETENTION).await;
    assert_eq!((record.head, record.value), (first, None));
    bench.done(this(first), Next::Nothing).await;
    assert_eq!(bench.get().await, None);
}

/// A record is compared by all of its head, and never by its value.
pub async fn swap_compares_the_head_and_not_the_value(subject: &dyn Subject) {
    let large = vec![7; 100_000];
    for bytes in [None, value(b""), value(b"answer"), value(&large)] {
        for payload in [None, Some(payloads()[1])] {
            let bench = Bench::new(subject);
            let mut head = answer();
            head.attempt.fingerprint = payload;
            bench.done(Seen::Nothing, put(head, bytes.clone())).await;
            for other in others(head) {
                let next = [put(head, None), Next::Extend { ttl: LINGER }, Next::Nothing];
                for next in next {
                    bench.finds(this(other), next).await;
                }
            }
            bench.done(this(head), Next::Extend { ttl: LINGER }).await;
            assert_eq!(bench.assert_lives(LINGER).await.value, bytes);
            bench.done(this(head), put(head, value(b"next"))).await;
            bench.done(this(head), Next::Nothing).await;
            assert_eq!(bench.get().await, None);
        }
    }
}

/// A condition on the life of a record holds exactly when so much is left.
pub async fn swap_takes_a_record_exactly_when_its_life_is_short_enough(subject: &dyn Subject) {
    for next in [put(answer(), None), Next::Extend { ttl: LINGER }, Next::Nothing] {
        let bench = Bench::new(subject);
        let head = Head::held_by(asking().first_attempt());
        bench.done(Seen::Nothing, put_for(head, None, LEASE + LINGER)).await;
        let seen = Seen::This { head, at_most: Some(LINGER) };
        bench.finds(seen, next.clone()).await;
        bench.step_to_just_before(LEASE).await;
        bench.finds(seen, next.clone()).await;
        bench.step_to_the_end().await;
        bench.done(seen, next).await;
    }
}

/// A life is extended, and never shortened; nothing else of the record changes.
pub async fn extend_never_shortens(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let head = Head::held_by(asking().first_attempt());
    bench.done(Seen::Nothing, put_for(head, None, LEASE)).await;
    bench.done(this(head), Next::Extend { ttl: LINGER }).await;
    bench.assert_lives(LINGER).await;
    bench.done(this(head), Next::Extend { ttl: LEASE }).await;
    let record = bench.assert_lives(LINGER).await;
    assert_eq!((record.head, record.value), (head, None));
}

/// A life is extended only of the record that was seen.
pub async fn extend_of_another_record_finds_it(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let head = Head::held_by(asking().first_attempt());
    let extend = Next::Extend { ttl: LINGER };
    bench.finds(this(head), extend.clone()).await;
    bench.done(Seen::Nothing, put_for(head, None, LEASE)).await;
    for other in others(head) {
        bench.finds(this(other), extend.clone()).await;
    }
    bench.assert_lives(LEASE).await;
}

/// A record whose time is over counts as none, for `load` and for every condition.
pub async fn expired_record_counts_as_none(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let head = answer();
    bench.done(Seen::Nothing, put(head, value(b"old"))).await;
    bench.step_to_just_before(RETENTION).await;
    bench.finds(Seen::Nothing, put(head, None)).await;
    bench.step_to_the_end().await;
    assert_eq!(bench.get().await, None);
    for next in [put(head, None), Next::Extend { ttl: LINGER }, Next::Nothing] {
        assert_eq!(bench.swap(this(head), next).await, Swapped::Found(None));
    }
    bench.done(Seen::Nothing, put(answer(), value(b"new"))).await;
    assert_eq!(bench.assert_lives(RETENTION).await.value, value(b"new"));
}

/// A full store refuses what may be refused, and takes everything else, without its value if need
/// be.
pub async fn full_store_takes_what_it_must(subject: &dyn Subject) {
    let Some(running) = filled(subject).await else { return };
    let (bench, attempt) = &running[0];
    let held = Head::held_by(*attempt);
    let large = vec![7_u8; 64 * 1024];
    bench.done(this(held), Next::Extend { ttl: LEASE * 2 + LINGER }).await;

    let stranger = bench.with_key(own_key("stranger"));
    let begin = Next::Put {
        head: Head::held_by(asking().first_attempt()),
        value: None,
        ttl: LEASE,
        when_full: WhenFull::Refuse,
    };
    let refused = stranger.store.swap(&stranger.key, swap(Seen::Nothing, begin)).await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(StoreErrorKind::Full));
    assert_eq!(stranger.get().await, None, "refused as full, and yet written");

    // A success whose record has vanished, and one that ends an attempt.
    for (bench, seen) in [(&stranger, Seen::Nothing), (bench, this(held))] {
        let head = answer();
        let kept = match bench.swap(seen, put(head, value(&large))).await {
            Swapped::Done => value(&large),
            Swapped::DoneWithoutValue => None,
            other => panic!("{other:?}"),
        };
        let record = bench.assert_lives(RETENTION).await;
        assert!((record.head, &record.value) == (head, &kept), "{record:?}");
        bench.done(this(head), Next::Nothing).await;
        assert_eq!(bench.get().await, None);
    }
}

/// Each answer of many swaps belongs to the swap at its place, whatever the swaps do; swaps of one
/// key take effect one after the other.
pub async fn many_swaps_are_answered_in_order(subject: &dyn Subject) {
    const KINDS: usize = 6;
    let bench = Bench::new(subject);
    let mut swaps = Vec::new();
    let mut heads = Vec::new();
    for index in 0..5 * KINDS {
        let bench = bench.with_key(own_key(&index.to_string()));
        let head = answer();
        let bytes = value(&[index as u8]);
        if index % KINDS != 0 {
            bench.done(Seen::Nothing, put(head, bytes.clone())).await;
        }
        swaps.push((
            bench.key.clone(),
            match index % KINDS {
                0 | 1 => swap(Seen::Nothing, put(head, bytes)),
                2 => swap(this(head), put_for(head, value(b"next"), LINGER)),
                3 => swap(this(head), Next::Extend { ttl: LINGER }),
                4 => swap(this(head), Next::Nothing),
                _ => swap(this(answer()), Next::Nothing),
            },
        ));
        heads.push(head);
    }
    let answers = bench.store.swap_many(&swaps).await;
    assert_eq!(answers.len(), swaps.len());
    for (index, (answer, (key, _))) in answers.into_iter().zip(&swaps).enumerate() {
        let bench = bench.with_key(key.clone());
        let (kind, head, bytes) = (index % KINDS, heads[index], value(&[index as u8]));
        match (kind, answered(answer)) {
            (0 | 2 | 3 | 4, Swapped::Done) => {}
            (1 | 5, Swapped::Found(Some(found))) => {
                assert_eq!((found.head, &found.value), (head, &bytes), "swap {index}");
            }
            (_, other) => panic!("swap {index}: {other:?}"),
        }
        match kind {
            2 => assert_eq!(bench.assert_lives(LINGER).await.value, value(b"next")),
            3 => assert_eq!(bench.assert_lives(LINGER).await.value, bytes),
            4 => assert_eq!(bench.get().await, None),
            _ => assert_eq!(bench.assert_lives(RETENTION).await.value, bytes),
        }
    }
}

/// A record that is there can be confirmed, and so can one that is not: there is nothing to lose.
pub async fn confirm_answers_with_and_without_a_record(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let confirm = || async { answered(bench.store.confirm(&bench.key).await) };
    bench.untouched(confirm(), ()).await;
    bench.done(Seen::Nothing, put(answer(), value(b"answer"))).await;
    bench.untouched(confirm(), ()).await;
    assert_eq!(bench.assert_lives(RETENTION).await.value, value(b"answer"));
}
