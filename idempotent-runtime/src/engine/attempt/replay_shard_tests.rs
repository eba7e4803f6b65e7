use super::*;
use std::time::Duration;

const FRESH: Moment = Moment::FAR;

fn moment(seconds: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_secs(seconds))
}

fn entry(key: &str, value: &str, until: Moment) -> Entry {
    let kept = Kept::Succeeded { number: 1, value: Some(Value::from(value.as_bytes())) };
    let (hash, key, asked_at) = (hash(key), key.into(), moment(0));
    Entry { hash, key, fingerprint: None, kept, asked_at, until, is_used: false }
}

/// Keys of the same length have the same hash, so that the table has to compare them.
fn hash(key: &str) -> u64 {
    key.len() as u64
}

fn find(shard: &mut Shard, key: &str) -> Option<String> {
    let kept = shard.find(hash(key), &key.into(), None, moment(1))?;
    Some(String::from_utf8(kept.value()?.as_bytes().to_vec()).unwrap())
}

#[test]
fn an_entry_takes_the_place_of_the_one_before() {
    let mut shard = Shard::new(8, 100_000);
    shard.insert(entry("k", "first", FRESH), moment(1));
    shard.insert(entry("k", "second", FRESH), moment(1));
    assert_eq!(find(&mut shard, "k").as_deref(), Some("second"));
    assert_eq!((shard.len(), shard.bytes()), (1, entry("k", "second", FRESH).bytes()));
}

#[test]
fn an_entry_that_is_too_old_is_removed_when_it_is_asked_for() {
    let mut shard = Shard::new(8, 100_000);
    shard.insert(entry("k", "v", moment(1)), moment(0));
    assert_eq!(find(&mut shard, "k"), None);
    assert_eq!((shard.len(), shard.bytes()), (0, 0));
}

#[test]
fn entries_that_are_asked_for_outlive_those_that_are_not() {
    let mut shard = Shard::new(3, 100_000);
    for key in ["a", "b", "c"] {
        shard.insert(entry(key, key, FRESH), moment(1));
    }
    for index in 0..20 {
        for key in ["a", "b"] {
            assert_eq!(find(&mut shard, key).as_deref(), Some(key), "{index}");
        }
        shard.insert(entry(&format!("once {index}"), "once", FRESH), moment(1));
        assert_eq!(shard.len(), 3);
    }
}

#[test]
fn entries_that_are_too_old_go_before_those_that_are_asked_for() {
    let mut shard = Shard::new(2, 100_000);
    shard.insert(entry("old", "v", moment(2)), moment(1));
    shard.insert(entry("fresh", "v", FRESH), moment(1));
    assert!(find(&mut shard, "old").is_some() && find(&mut shard, "fresh").is_some());
    shard.insert(entry("next", "v", FRESH), moment(2));
    assert_eq!(find(&mut shard, "old"), None);
    assert!(find(&mut shard, "fresh").is_some() && find(&mut shard, "next").is_some());
}

#[test]
fn bytes_are_bounded_whatever_is_inserted_and_removed() {
    let bound = 10 * entry("key 0000", &"x".repeat(900), FRESH).bytes();
    let mut shard = Shard::new(1_000, bound);
    for index in 0..2_000_usize {
        let key = format!("key {:04}", index * 7 % 50);
        match index % 5 {
            4 => shard.remove(hash(&key), &key),
            _ => {
                let value = key.clone() + &"x".repeat(index * 13 % 900);
                shard.insert(entry(&key, &value, FRESH), moment(1));
                assert_eq!(find(&mut shard, &key), Some(value));
            }
        }
        assert!(shard.bytes() <= bound, "{} of {bound}", shard.bytes());
    }
    let kept: usize = shard.entries.iter().map(Entry::bytes).sum();
    assert_eq!((shard.bytes(), shard.len()), (kept, shard.table.len()));
    for index in 0..shard.len() {
        let key = shard.entries[index].key.clone();
        assert_eq!(shard.index(hash(key.as_str()), key.as_str()), Some(index));
    }
}

#[test]
fn another_payload_than_the_one_that_was_compared_is_not_answered() {
    let mut shard = Shard::new(8, 100_000);
    let [one, two] = ["one", "two"].map(|text| Some(Fingerprint::of(text)));
    let mut find = |compared, asking| {
        shard.insert(Entry { fingerprint: compared, ..entry("k", "v", FRESH) }, moment(1));
        shard.find(hash("k"), &"k".into(), asking, moment(1)).is_some()
    };
    assert!(find(one, one) && find(one, None) && find(None, None));
    assert!(!find(one, two) && !find(None, one));
}

/// The case of a scan: the latest answers are the ones that callers are likely to repeat.
#[test]
fn a_later_entry_outlives_earlier_ones_that_were_not_asked_for() {
    let mut shard = Shard::new(4, 100_000);
    let keys: Vec<_> = (0..12).map(|index| format!("key {index:02}")).collect();
    for key in &keys {
        shard.insert(entry(key, "v", FRESH), moment(1));
    }
    let kept: Vec<_> = keys.iter().filter(|key| find(&mut shard, key).is_some()).collect();
    assert_eq!(kept, ["key 08", "key 09", "key 10", "key 11"]);
}

#[test]
fn every_entry_that_is_too_old_leaves_for_later_ones() {
    let mut shard = Shard::new(100, 1_000_000);
    for index in 0..100 {
        shard.insert(entry(&format!("old {index:03}"), "v", moment(10)), moment(1));
    }
    for index in 0..1_000 {
        shard.insert(entry(&format!("new {index:04}"), "v", FRESH), moment(20));
    }
    let old = shard.entries.iter().filter(|entry| entry.until <= moment(20)).count();
    assert_eq!((old, shard.len()), (0, 100));
}
