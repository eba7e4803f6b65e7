//! A check that a function runs once.

use super::{FaultStore, Verb, scoped};
use crate::instance::Idempotency;
use crate::store::MemoryStore;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Makes `times` calls at once and one more afterwards, and checks that the body ran once and that
/// all answers are equal. Returns the answer.
///
/// `call` makes one call with the same key each time. The calls share a store of their own, so no
/// instance has to be installed. In reject mode the repeat calls are refused, which passes. The
/// body must not fail, because an error frees the key.
///
/// A function that names its instance (`with = ..`) does not use this store: count its runs with a
/// [`Ledger`](super::Ledger) instead.
///
/// ```
/// use idempotent_runtime::testing::assert_runs_once;
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(key = "(tenant, order)", mode = "strong")]
/// async fn create_order(tenant: &str, order: u64) -> Result<String, Error> {
///     Ok(format!("{tenant}-{order}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let order = assert_runs_once(10, || create_order("acme", 42)).await;
/// assert_eq!(order, "acme-42");
/// # }
/// ```
///
/// # Panics
/// The body ran more than once or not at all, two answers differ, or there is none.
pub async fn assert_runs_once<T, E, C, F>(times: usize, call: C) -> T
where
    C: Fn() -> F,
    F: Future<Output = Result<T, E>>,
    T: PartialEq + Debug,
    E: Debug,
{
    let store = FaultStore::new(MemoryStore::new());
    let built = Idempotency::builder().store(store.clone()).build();
    let instance = built.unwrap_or_else(|error| panic!("{error}"));
    let mut answers = at_once((0..times).map(|_| scoped(instance.clone(), call())).collect()).await;
    answers.push(scoped(instance, call()).await);
    assert!(
        store.calls(Verb::Begin) > 0,
        "no call asked the store: a function with an instance of its own needs a `Ledger`"
    );
    let (ran, calls) = (store.grants(), answers.len());
    assert_eq!(ran, 1, "of {calls} calls with one key, {ran} ran the body: {answers:?}");
    let mut answers = answers.into_iter();
    let mut refused = Vec::new();
    let first = loop {
        match answers.next() {
            Some(Ok(answer)) => break answer,
            Some(Err(error)) => refused.push(error),
            None => panic!("of {calls} calls with one key, none got an answer: {refused:?}"),
        }
    };
    for answer in answers.flatten() {
        assert_eq!(answer, first, "two calls with one key got different answers");
    }
    first
}

/// Returns all outputs, in order. All futures are started before the first is awaited.
async fn at_once<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut left = 0;
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(answer) => *output = Some(answer),
                    Poll::Pending => left += 1,
                }
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::install;
    use crate::testing::Ledger;
    use std::future::ready;
    use std::sync::Arc;

    /// The instance that an attributed function takes.
    fn of_task() -> Idempotency {
        Idempotency::from_engine(Arc::clone(&install::engine().unwrap()))
    }

    /// Runs an operation by hand, the way an attributed function does.
    async fn call(mode: crate::config::Mode, ledger: &Ledger) -> Result<usize, Error> {
        let instance = of_task();
        let operation = instance.operation("o").key(1).mode(mode);
        operation.run(async { Ok(ledger.record("k")) }).await
    }

    #[tokio::test]
    async fn an_answer_that_all_share_is_returned() {
        let ledger = Ledger::new();
        let strong = crate::config::Mode::Strong;
        assert_eq!(assert_runs_once(10, || call(strong, &ledger)).await, 1);
        assert_eq!((ledger.ran("k"), ledger.total()), (1, 1));
    }

    #[tokio::test]
    async fn refused_repeats_are_fine() {
        let ledger = Ledger::new();
        let reject = crate::config::Mode::Reject;
        assert_eq!(assert_runs_once(10, || call(reject, &ledger)).await, 1);
        assert_eq!(ledger.ran("k"), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "4 calls with one key, 4 ran the body")]
    async fn a_key_that_differs_from_call_to_call_is_found_out() {
        let ledger = Ledger::new();
        assert_runs_once(3, || async {
            let instance = of_task();
            let operation = instance.operation("o").key(ledger.record("calls"));
            operation.run(async { Ok::<_, Error>(()) }).await
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "no call asked the store")]
    async fn a_function_with_an_instance_of_its_own_is_found_out() {
        assert_runs_once(3, || ready(Ok::<_, Error>(()))).await;
    }
}
