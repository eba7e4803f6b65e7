//! Callers that race for the last room in the store.

use super::*;

#[test]
fn nobody_is_refused_where_expired_records_make_room() {
    check::many(|| {
        let bench = bench_with(MemoryOptions::new().max_entries(2));
        // In another shard, so that looking up a new key does not remove them on its way.
        for old in bench.keys_in_shard(1, 2) {
            bench.try_begin(&old, 9).unwrap();
        }
        bench.manual.advance(LEASE + LINGER + Duration::from_secs(3));
        let keys = bench.keys_in_shard(0, 2);
        let answers = threads(callers(2, {
            let bench = Arc::clone(&bench);
            move |caller| bench.try_begin(&keys[usize::from(caller) - 1], caller)
        }));
        for answer in answers {
            assert!(matches!(answer, Ok(Begun::Fresh(_))), "{answer:?}");
        }
        assert_eq!(bench.store.usage().unwrap().entries, 2);
        bench.assert_all_expires();
    });
}

#[test]
fn nobody_is_refused_where_answers_may_be_evicted() {
    check::many(|| {
        let bench = bench_with(MemoryOptions::new().max_entries(2).evict_answers(true));
        for old in ["old-1", "old-2"] {
            let key = RecordKey::from(old);
            let Ok(Begun::Fresh(attempt)) = bench.try_begin(&key, 9) else { panic!("not full") };
            now(bench.store.complete(&key, &attempt, None, RETENTION, IfGone::Rewrite));
        }
        let answers = threads(callers(2, {
            let bench = Arc::clone(&bench);
            move |caller| bench.try_begin(&RecordKey::from(format!("{caller}").as_str()), caller)
        }));
        for answer in answers {
            assert!(matches!(answer, Ok(Begun::Fresh(_))), "{answer:?}");
        }
        bench.assert_all_expires();
    });
}

#[test]
fn a_full_store_refuses_but_loses_nobody() {
    check::many(|| {
        let bench = bench_with(MemoryOptions::new().max_entries(2));
        let answers = threads(callers(4, {
            let bench = Arc::clone(&bench);
            move |caller| {
                let key = RecordKey::from(format!("{caller}").as_str());
                match bench.try_begin(&key, caller) {
                    Ok(Begun::Fresh(attempt)) => {
                        let done =
                            bench.store.complete(&key, &attempt, None, RETENTION, IfGone::Rewrite);
                        assert_eq!(now(done), Updated::Done);
                        true
                    }
                    Err(error) if error.kind() == StoreErrorKind::Full => false,
                    other => panic!("{other:?}"),
                }
            }
        }));
        let granted = answers.into_iter().filter(|granted| *granted).count() as u64;
        // Callers that race may overshoot the bound by one each.
        assert!((2..=4).contains(&granted));
        assert_eq!(bench.store.usage().unwrap().entries, granted);
        bench.assert_all_expires();
    });
}
