use super::*;
use crate::store::Value;

fn now() -> Moment {
    Moment::from_nanos(1_000)
}

fn listening(options: &ReplayCache) -> Replays {
    let replays = Replays::new(options);
    replays.heard(FreedEvent::Listening);
    replays
}

fn succeeded(bytes: usize) -> Begun {
    Begun::Succeeded { number: 3, value: Some(Value::from(vec![7; bytes])) }
}

fn tell(replays: &Replays, reading: Reading, key: &RecordKey, answer: &Begun) {
    let life = Duration::from_secs(1_000);
    replays.told(reading, Told { key, fingerprint: None, answer, life });
}

fn is_kept(replays: &Replays, key: &RecordKey) -> bool {
    matches!(replays.find(key, None, now()), Lookup::Hit(kept) if Kept::of(&succeeded(8)).as_ref() == Some(&kept))
}

/// Reads the record of `k`, lets something happen, and keeps what was read.
fn is_kept_if(replays: &Replays, happens: impl FnOnce()) -> bool {
    let key = RecordKey::from("k");
    let reading = replays.reading(now()).unwrap();
    happens();
    tell(replays, reading, &key, &succeeded(8));
    is_kept(replays, &key)
}

#[test]
fn an_answer_that_was_read_before_its_record_was_freed_is_not_kept() {
    let replays = listening(&ReplayCache::new());
    assert!(is_kept_if(&replays, || {}));
    assert!(!is_kept_if(&replays, || replays.heard(FreedEvent::Freed("k"))));
    assert!(is_kept_if(&replays, || {}));
}

#[test]
fn an_answer_that_was_read_before_the_subscription_was_lost_is_not_kept() {
    let replays = listening(&ReplayCache::new());
    let lost_and_found = || {
        replays.heard(FreedEvent::Lost);
        replays.heard(FreedEvent::Listening);
    };
    assert!(!is_kept_if(&replays, lost_and_found));
    assert!(is_kept_if(&replays, || {}));
}

#[test]
fn nothing_is_kept_or_given_while_the_store_does_not_listen() {
    let (replays, key) = (Replays::new(&ReplayCache::new()), RecordKey::from("k"));
    assert!(replays.reading(now()).is_none());
    assert!(matches!(replays.find(&key, None, now()), Lookup::Off));
    replays.heard(FreedEvent::Lost);
    replays.heard(FreedEvent::Freed("k"));
    assert!(replays.reading(now()).is_none());
    replays.heard(FreedEvent::Listening);
    assert!(is_kept_if(&replays, || {}));
    replays.heard(FreedEvent::Listening);
    assert!(is_kept(&replays, &key));
    replays.heard(FreedEvent::Lost);
    assert!(matches!(replays.find(&key, None, now()), Lookup::Off));
    replays.heard(FreedEvent::Listening);
    assert!(matches!(replays.find(&key, None, now()), Lookup::Miss));
    assert_eq!(replays.usage(), (0, 0));
}

#[test]
fn a_freed_record_takes_no_other_with_it() {
    let replays = listening(&ReplayCache::new());
    let other = RecordKey::from("other");
    tell(&replays, replays.reading(now()).unwrap(), &other, &succeeded(8));
    replays.heard(FreedEvent::Freed("k"));
    assert!(is_kept(&replays, &other));
}

#[test]
fn only_ended_records_are_kept_and_every_other_answer_drops_them() {
    let (replays, key) = (listening(&ReplayCache::new()), RecordKey::from("k"));
    let failed = Begun::FailedFinal { number: 2, value: None };
    let reading = || replays.reading(now()).unwrap();
    tell(&replays, reading(), &key, &failed);
    assert!(
        matches!(replays.find(&key, None, now()), Lookup::Hit(kept) if Kept::of(&failed).as_ref() == Some(&kept))
    );
    let (second, other) = (Duration::from_secs(1), RecordKey::from("other"));
    for open in [
        Begun::InFlight { number: 1, retry_after: second },
        Begun::Indeterminate { number: 1 },
        Begun::Taken { retry_after: second },
        Begun::Mismatch,
        Begun::Superseded,
    ] {
        tell(&replays, reading(), &key, &succeeded(8));
        tell(&replays, reading(), &other, &open);
        assert_eq!(replays.usage().0, 1, "{open:?}");
        tell(&replays, reading(), &key, &open);
        assert_eq!(replays.usage().0, 0, "{open:?}");
    }
}

#[test]
fn an_entry_lives_for_the_shorter_of_its_record_and_the_greatest_age() {
    let (replays, key) = (listening(&ReplayCache::new()), RecordKey::from("k"));
    let minute = Duration::from_secs(60);
    for (life, lives) in [(minute / 2, minute / 2), (minute * 2, minute)] {
        let reading = replays.reading(now()).unwrap();
        let answer = &succeeded(8);
        replays.told(reading, Told { key: &key, fingerprint: None, answer, life });
        let at = |age| replays.find(&key, None, now().after(age));
        assert!(matches!(at(lives - Duration::from_nanos(1)), Lookup::Hit(_)));
        assert!(matches!(at(lives), Lookup::Miss));
    }
}

#[test]
fn entries_and_bytes_are_bounded_and_a_large_answer_is_not_kept() {
    let options = ReplayCache::new().max_entries(1_000).max_bytes(256 * 1024);
    let replays = listening(&options);
    for index in 0..5_000 {
        let key = RecordKey::from(&*format!("key {index}"));
        tell(&replays, replays.reading(now()).unwrap(), &key, &succeeded(index % 300));
        let (entries, bytes) = replays.usage();
        assert!(entries <= 1_000 && bytes <= 256 * 1024, "{entries} entries, {bytes} bytes");
    }
    assert!(replays.usage().0 > 300, "{:?}", replays.usage());
    let key = RecordKey::from("large");
    tell(&replays, replays.reading(now()).unwrap(), &key, &succeeded(8));
    assert!(is_kept(&replays, &key));
    tell(&replays, replays.reading(now()).unwrap(), &key, &succeeded(4 * 1024));
    assert!(matches!(replays.find(&key, None, now()), Lookup::Miss));
    let few = listening(&ReplayCache::new().max_entries(1));
    for key in ["a", "b"].map(RecordKey::from) {
        tell(&few, few.reading(now()).unwrap(), &key, &succeeded(8));
    }
    assert_eq!(few.usage().0, 1);
}

/// In every order: once the key is told as freed, nothing that was read before is there.
#[test]
#[cfg_attr(miri, ignore = "too many threads")]
fn whoever_reads_while_a_record_is_freed_keeps_nothing_of_it() {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    let (replays, key) = (listening(&ReplayCache::new()), RecordKey::from("k"));
    for _ in 0..3_000 {
        // The record, which every reader reads after it has taken its epoch.
        let record = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..8 {
                    let reading = replays.reading(now()).unwrap();
                    if record.load(SeqCst) {
                        tell(&replays, reading, &key, &succeeded(8));
                    }
                }
            });
            scope.spawn(|| {
                record.store(false, SeqCst);
                replays.heard(FreedEvent::Freed("k"));
            });
        });
        assert!(!is_kept(&replays, &key));
    }
}
