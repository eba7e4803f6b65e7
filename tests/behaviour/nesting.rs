//! Idempotent calls inside idempotent calls.

use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, ErrorKind, current, idempotent};
use std::sync::{Arc, Mutex};
use support::{both, until};

#[idempotent(key = "id", mode = "strong", name = "outer")]
async fn outer(id: u64) -> Result<u64, Error> {
    let before = current().unwrap().key().to_owned();
    let sum = inner(id).await? + inner(id + 1).await?;
    assert_eq!(current().unwrap().key(), before);
    Ok(sum)
}

#[idempotent(key = "id", mode = "strong", name = "inner")]
async fn inner(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", name = "recursive")]
async fn recursive(id: u64, next: u64) -> Result<u64, Error> {
    if next == 0 { Ok(id) } else { Box::pin(recursive(id - 1, next - 1)).await }
}

#[idempotent(key = "id", mode = "strong", name = "reentrant")]
async fn reentrant(id: u64) -> Result<u64, Error> {
    Box::pin(wrapper(id)).await
}

#[idempotent(key = "id", mode = "strong", name = "wrapper")]
async fn wrapper(id: u64) -> Result<u64, Error> {
    Box::pin(reentrant(id)).await
}

#[tokio::test]
async fn calls_with_other_keys_nest() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            assert_eq!(outer(1).await.unwrap(), 3);
            assert_eq!(outer(1).await.unwrap(), 3);
            assert_eq!(recursive(10, 5).await.unwrap(), 5);
        })
        .await;
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_that_comes_back_to_its_own_key_is_told_so_instead_of_hanging() {
    for bench in both() {
        let error = scoped(bench.idem.clone(), reentrant(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Reentrant);
        assert!(!error.body_ran());
        bench.at_rest().await;
        // Both levels failed with it, so both keys are free.
        for operation in ["reentrant", "wrapper"] {
            let op = bench.idem.operation(operation).key(1_u64);
            assert_eq!(op.run(async { Ok::<u64, Error>(9) }).await.unwrap(), 9);
        }
    }
}

/// Writes down which attempt it is dropped in.
struct Witness(Arc<Mutex<Vec<Option<u64>>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        let fence = current().map(|attempt| attempt.fence());
        self.0.lock().unwrap().push(fence);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Return,
    Panic,
    Hang,
}

#[idempotent(key = "key", mode = "strong", name = "witnessed")]
async fn witnessed(key: u64, witness: Witness, end: End) -> Result<(), Error> {
    tokio::task::yield_now().await;
    witness.0.lock().unwrap().push(current().map(|attempt| attempt.fence()));
    match end {
        End::Return => Ok(()),
        End::Panic => panic!("as it should"),
        End::Hang => std::future::pending().await,
    }
}

#[tokio::test]
async fn destructors_of_a_body_see_its_attempt() {
    for bench in both() {
        for (key, end) in [(1, End::Return), (2, End::Panic), (3, End::Hang)] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let call = witnessed(key, Witness(Arc::clone(&seen)), end);
            let call = tokio::spawn(scoped(bench.idem.clone(), call));
            until(|| !seen.lock().unwrap().is_empty()).await;
            if end == End::Hang {
                call.abort();
            }
            assert_eq!(call.await.is_ok(), end == End::Return);
            let seen = seen.lock().unwrap().clone();
            assert!(
                matches!(*seen, [Some(inside), Some(dropped)] if inside == dropped),
                "{seen:?}"
            );
        }
    }
}
