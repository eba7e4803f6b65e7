//! The ways to run an operation: a body, many at once, in a transaction, or by hand.

use super::Operation;
use crate::answer_policy::AnswerPolicy;
use crate::attempt::Begin;
use crate::engine::{
    ArcRef, Call, FirstStep, Moves, acquire, acquire_now, prepare, run, run_batch, run_detached,
    run_transacted, run_unrecorded,
};
use crate::error::Error;
use crate::key::{Encoded, KeyPart};
use crate::observe::CallEnd;
use crate::outcome::Outcome;
use crate::protocol::TransactionSource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;

impl<'a> Operation<'a> {
    // None of these three is an `async fn`, whose future would hold the arguments twice, and none awaits another one,
    // whose future it would hold twice.

    /// Runs `body` once per key. Repeat calls are answered according to the
    /// [mode](Operation::mode).
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run<T, E, F>(self, body: F) -> impl Future<Output = Result<T, E>>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let mut operation = self;
        async move { Ok(run(operation.prepare_once(), AnswerPolicy::kept(), body).await?.value) }
    }

    /// Like [`run`](Operation::run), and returns the origin of the value with it.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_detailed<T, E, F>(self, body: F) -> impl Future<Output = Result<Outcome<T>, E>>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        self.run_as(AnswerPolicy::kept(), body)
    }

    /// Like [`run_detailed`](Operation::run_detailed), with [`AnswerPolicy`] to choose which answers are
    /// kept.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_as<T, E, F>(
        self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> impl Future<Output = Result<Outcome<T>, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut operation = self;
        async move { run(operation.prepare_once(), answers, body).await }
    }

    /// Like [`run_as`](Operation::run_as), with a body that runs to its end even if the caller
    /// drops the future. A body that waits moves to a task of its own after its first poll.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_detached<T, E, F>(
        self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        // Not an `async fn`, whose future would hold the arguments twice.
        let (mut operation, body) = (self, Box::pin(body));
        async move { run_detached(&mut operation, answers, body, Moves::AtOnce).await }
    }

    /// Like [`run_detached`](Operation::run_detached), with a body that stays in the task of the
    /// caller until the future is dropped, and then moves to a task of its own.
    ///
    /// This is for adapters whose caller is the task of a connection: the body sees the task-locals
    /// of the middleware around it, and is spawned only if the client goes away. The caller must
    /// poll the future until it ends, or drop it: a future that is neither polled nor dropped holds
    /// the body, and with it the key, for up to `max_run`.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_in_place<T, E, F>(
        self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (mut operation, body) = (self, Box::pin(body));
        async move { run_detached(&mut operation, answers, body, Moves::WhenDropped).await }
    }

    /// Runs `body` once per key, in a database transaction that `source` begins and commits: the
    /// record and what the body writes are committed together.
    ///
    /// For adapters; `idempotent-sql` has the sources, and a method that is more convenient. `body`
    /// is called again if its transaction loses a race against another one, or if it returns an error
    /// for which `repeats` holds.
    ///
    /// # Errors
    /// The body's own error, in which case what it wrote is rolled back, or the reason for which the
    /// call was refused.
    pub fn run_in_transaction<T, E, S, B, F>(
        self,
        answers: AnswerPolicy<T, E>,
        source: S,
        repeats: fn(&E) -> bool,
        body: B,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        S: TransactionSource,
        B: FnMut(S::Lent) -> F + Send,
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Send,
    {
        let mut operation = self;
        async move {
            let call = operation.prepare_once();
            run_transacted(call, answers, source, repeats, body).await
        }
    }

    /// Runs `body` in a database transaction that `source` begins and commits, without a record:
    /// for calls without a key, whose body relies on a transaction. It is not called again.
    ///
    /// # Errors
    /// The body's own error, in which case what it wrote is rolled back, or the reason for which
    /// there was no transaction, or for which it was not committed.
    pub async fn run_in_transaction_without_key<T, E, S, B, F>(
        self,
        answers: AnswerPolicy<T, E>,
        source: S,
        body: B,
    ) -> Result<T, E>
    where
        S: TransactionSource,
        B: FnOnce(S::Lent) -> F,
        F: Future<Output = Result<T, E>>,
    {
        run_unrecorded(&self.name, &answers, source, body, |error| error).await
    }

    /// Runs `body` once for many keys: one round trip to begin them all, one to complete them.
    ///
    /// `body` gets the inputs whose keys are free, in their order, and returns one answer for each.
    /// The other inputs are answered from their records; a batch does not wait for a body that runs
    /// elsewhere. A key that occurs twice runs once. Inside the body [`current`](crate::current) is
    /// `None`, because it runs for many attempts.
    ///
    /// ```
    /// use idempotent_runtime::{Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let rows = [(1, "lamp"), (2, "chair"), (1, "lamp")];
    /// let inserted = idem
    ///     .operation("orders.import")
    ///     .mode(Mode::Strong)
    ///     .run_batch(rows, |items: Vec<&str>| async move {
    ///         assert_eq!(items, ["lamp", "chair"]);
    ///         items.iter().map(|item| Ok::<_, Error>(item.len())).collect()
    ///     })
    ///     .await;
    /// let lengths: Result<Vec<_>, Error> =
    ///     inserted.into_iter().map(|row| Ok(row?.value)).collect();
    /// assert_eq!(lengths?, [4, 5, 4]);
    /// # Ok(()) }
    /// ```
    pub async fn run_batch<K, I, T, E, B, F>(
        self,
        items: impl IntoIterator<Item = (K, I)>,
        body: B,
    ) -> Vec<Result<Outcome<T>, E>>
    where
        K: KeyPart,
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        B: FnOnce(Vec<I>) -> F,
        F: Future<Output = Vec<Result<T, E>>>,
    {
        let prepare = |(key, input): (K, I)| {
            let call = Call { key: Encoded::of(&key), ..self.call() };
            (prepare(ArcRef::Borrowed(self.instance.engine()), call), input)
        };
        let calls = items.into_iter().map(prepare).collect();
        run_batch(calls, &AnswerPolicy::kept(), body).await
    }

    /// Asks for the right to run, without running anything. In strong mode it waits up to `wait`
    /// for a running body.
    ///
    /// # Errors
    /// The call was refused for a reason that has no variant in [`Begin`].
    pub async fn begin(&self) -> Result<Begin, Error> {
        let mut end = CallEnd::new(self.name.clone());
        let call = self.prepare().inspect_err(|error| end.refused(error))?;
        let acquired = match acquire_now(&call) {
            FirstStep::Acquired(acquired) => acquired,
            FirstStep::Waits(rest) => acquire(&call, rest).await,
        };
        Begin::from_acquired(&call, acquired, end)
    }
}
