//! Calls for many keys at once.

use super::Subject;
use super::bench::{
    BLOCK_LINGER, Bench, LEASE, LINGER, RETENTION, answered, asking, own_key, value,
};
use crate::key::RecordKey;
use crate::protocol::{BeginRequest, Begun, IfGone, Progress, StoreExt as _, Update, Updated};
use crate::store::AttemptId;

const MANY: usize = 50;

async fn begun(bench: &Bench<'_>) -> Vec<(RecordKey, AttemptId)> {
    let mut attempts = Vec::new();
    for index in 0..MANY {
        let bench = bench.with_key(own_key(&index.to_string()));
        attempts.push((bench.key.clone(), bench.granted(&asking()).await));
    }
    attempts
}

/// Each answer of many `begin`s belongs to the request at its place, a key that is in use and one
/// that is asked for twice included.
pub async fn many_begins_are_answered_in_order(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let used = bench.granted(&asking()).await;
    bench.complete(&used, b"answer").await;
    let mut requests: Vec<(RecordKey, BeginRequest)> =
        (0..MANY).map(|index| (own_key(&index.to_string()), asking())).collect();
    requests[MANY / 2] = (bench.key.clone(), asking());
    requests.push((requests[0].0.clone(), asking()));
    let answers = bench.store.execute_many(requests.clone()).await;
    assert_eq!(answers.len(), requests.len());
    for (index, (answer, (_, request))) in answers.into_iter().zip(&requests).enumerate() {
        match (index, answered(answer)) {
            (MANY, Begun::InFlight { .. }) => {}
            (index, Begun::Succeeded { value: stored, .. }) if index == MANY / 2 => {
                assert_eq!(stored, value(b"answer"));
            }
            (index, Begun::Fresh(attempt)) if index != MANY && index != MANY / 2 => {
                assert_eq!(attempt.token, request.token, "the answer of another request");
            }
            (index, other) => panic!("request {index}: {other:?}"),
        }
    }
}

/// Each answer of many `arm`s belongs to the request at its place.
pub async fn many_arms_are_answered_in_order(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempts = begun(&bench).await;
    let stranger = asking().token;
    let is_stranger = |index: usize| index % 5 == 3;
    let requests: Vec<_> = attempts
        .iter()
        .enumerate()
        .map(|(index, (key, attempt))| {
            let token = if is_stranger(index) { stranger } else { attempt.token };
            let attempt = AttemptId { token, ..*attempt };
            (key.clone(), Update { attempt, to: Progress::Armed { linger: BLOCK_LINGER } })
        })
        .collect();
    let answers = bench.store.execute_many(requests).await;
    assert_eq!(answers.len(), attempts.len());
    for (index, (answer, (key, attempt))) in answers.into_iter().zip(&attempts).enumerate() {
        let record = bench.with_key(key.clone()).get().await;
        let shown = record.map(|record| record.head.attempt);
        if is_stranger(index) {
            assert_eq!(answered(answer), Updated::Superseded, "request {index}");
            assert_eq!(shown, Some(*attempt), "request {index}");
        } else {
            assert_eq!(answered(answer), Updated::Done, "request {index}");
            assert_eq!(shown, Some(attempt.armed(BLOCK_LINGER)), "request {index}");
        }
    }
}

/// Each answer of many `complete`s belongs to the request at its place, and so does each value.
pub async fn many_completes_are_answered_in_order(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempts = begun(&bench).await;
    let stranger = asking().token;
    let requests: Vec<_> = attempts
        .iter()
        .enumerate()
        .map(|(index, (key, attempt))| {
            let token = if index % 5 == 3 { stranger } else { attempt.token };
            let to = Progress::Completed {
                value: value(key.as_str().as_bytes()),
                retention: RETENTION,
                if_gone: IfGone::Rewrite,
            };
            (key.clone(), Update { attempt: AttemptId { token, ..*attempt }, to })
        })
        .collect();
    let answers = bench.store.execute_many(requests).await;
    assert_eq!(answers.len(), attempts.len());
    for (index, (answer, (key, _))) in answers.into_iter().zip(&attempts).enumerate() {
        let record = bench.with_key(key.clone()).get().await;
        let stored = record.and_then(|record| record.value);
        if index % 5 == 3 {
            assert_eq!(answered(answer), Updated::Superseded, "request {index}");
            assert_eq!(stored, None, "request {index}");
        } else {
            assert_eq!(answered(answer), Updated::Done, "request {index}");
            assert_eq!(stored, value(key.as_str().as_bytes()), "request {index}");
        }
    }
}

/// Each answer of many `renew`s belongs to the request at its place.
pub async fn many_renewals_are_answered_in_order(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempts = begun(&bench).await;
    for (index, (key, attempt)) in attempts.iter().enumerate() {
        if index % 4 == 1 {
            bench.with_key(key.clone()).complete(attempt, b"answer").await;
        }
    }
    let to = Progress::Renewed { lease: LEASE * 2 };
    let requests: Vec<_> = attempts
        .iter()
        .map(|(key, attempt)| (key.clone(), Update { attempt: *attempt, to: to.clone() }))
        .collect();
    let answers = bench.store.execute_many(requests).await;
    assert_eq!(answers.len(), attempts.len());
    for (index, (answer, (key, _))) in answers.into_iter().zip(&attempts).enumerate() {
        let bench = bench.with_key(key.clone());
        if index % 4 == 1 {
            assert_eq!(answered(answer), Updated::Superseded, "request {index}");
            bench.assert_lives(RETENTION).await;
        } else {
            assert_eq!(answered(answer), Updated::Done, "request {index}");
            bench.assert_lives(LEASE * 2 + LINGER).await;
        }
    }
}

/// No requests, no answers.
pub async fn nothing_is_asked_of_nobody(subject: &dyn Subject) {
    let store = subject.store();
    assert!(store.swap_many(&[]).await.is_empty());
    assert!(store.execute_many(Vec::<(RecordKey, BeginRequest)>::new()).await.is_empty());
}
