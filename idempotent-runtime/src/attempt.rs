//! Attempts in plain code: begin, work, then complete or fail.

use crate::codec::Codecs;
use crate::engine::{
    Acquired, AttemptGuard, Current, End, Engine, Kind, MOST_FAILED, NotGranted, Prepared, gone,
    keep, warn_disabled,
};
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{CallEnd, Ending, LoggedKey};
use crate::operation_name::OperationName;
use crate::options::whole_millis;
use crate::protocol::{Commit, Completion, Failure, Updated};
use crate::race::{First, race};
use crate::store::{Record, State, Store, StoreError, Value};
use crate::switch::Protection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// The answer to [`Operation::begin`](crate::Operation::begin).
///
/// ```
/// use idempotent_runtime::{Begin, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
/// for _ in 0..2 {
///     let number: u64 = match order.begin().await? {
///         Begin::Fresh(attempt) => {
///             attempt.complete(&7_u64).await?;
///             7
///         }
///         Begin::Replay(stored) => stored.decode()?,
///         other => return Err(format!("{other:?}").into()),
///     };
///     assert_eq!(number, 7);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Begin {
    /// The body may run. End the attempt with [`complete`](Attempt::complete) or
    /// [`fail`](Attempt::fail).
    Fresh(Attempt),
    /// The operation succeeded before.
    Replay(Stored),
    /// The operation failed before, with an error that is kept.
    ReplayError(Stored),
    /// Another call is running, or two attempts failed while this one waited for them.
    InFlight {
        /// The time after which asking again makes sense.
        retry_after: Duration,
    },
    /// The window is taken (window mode).
    Taken {
        /// The time until the window ends.
        retry_after: Duration,
    },
    /// The key was used with another payload.
    Mismatch,
    /// An earlier attempt began and its outcome is unknown.
    Indeterminate {
        /// The number of that attempt.
        attempt: u32,
    },
}

impl Begin {
    pub(crate) fn from_acquired(
        call: &Prepared<'_>,
        acquired: Acquired<'_>,
        mut end: CallEnd,
    ) -> Result<Self, Error> {
        let stored = |attempt, kind, value| Stored {
            engine: Arc::clone(call.engine()),
            operation: call.operation.clone(),
            key: call.key.clone(),
            attempt,
            kind,
            value,
        };
        let found = match acquired {
            Ok(mut attempt) => {
                attempt.start();
                let attempt = attempt.into_owned();
                return Ok(Self::Fresh(Attempt { attempt, end, protection: Protection::On }));
            }
            Err(found) => found,
        };
        let (begin, ending) = match found {
            NotGranted::Disabled => {
                warn_disabled(call);
                end.ends(Ending::Unprotected);
                let attempt = call.unprotected().into_owned();
                return Ok(Self::Fresh(Attempt { attempt, end, protection: Protection::Off }));
            }
            NotGranted::Succeeded { number, value } => {
                (Self::Replay(stored(number, Kind::Value, value)), Ending::Replayed)
            }
            NotGranted::FailedFinal { number, value } => {
                (Self::ReplayError(stored(number, Kind::Error, value)), Ending::Replayed)
            }
            NotGranted::InFlight { lease_left } => {
                let retry_after = call.options.ask_again(lease_left);
                (Self::InFlight { retry_after }, Ending::InProgress)
            }
            NotGranted::FailedTwice => {
                let retry_after = call.backs_off(MOST_FAILED);
                (Self::InFlight { retry_after }, Ending::InProgress)
            }
            NotGranted::Taken { retry_after } => (Self::Taken { retry_after }, Ending::Rejected),
            NotGranted::Mismatch => (Self::Mismatch, Ending::Mismatch),
            NotGranted::Indeterminate { number } => {
                (Self::Indeterminate { attempt: number }, Ending::Indeterminate)
            }
            found @ (NotGranted::OverLimit { .. }
            | NotGranted::Exhausted { .. }
            | NotGranted::Refused(_)
            | NotGranted::TooLate(_)) => {
                let error = call.refusal(found);
                end.refused(&error);
                return Err(error);
            }
        };
        end.ends(ending);
        Ok(begin)
    }
}

/// A stored answer that can be read as the type it was written from.
///
/// ```
/// use idempotent_runtime::{Begin, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let import = idem.operation("files.import").key("2026-11.csv").mode(Mode::Strong);
/// if let Begin::Fresh(attempt) = import.begin().await? {
///     attempt.complete(&1200_u32).await?;
/// }
///
/// let Begin::Replay(stored) = import.begin().await? else { panic!("it was completed") };
/// assert_eq!((stored.decode::<u32>()?, stored.attempt()), (1200, 1));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Stored {
    engine: Arc<Engine>,
    operation: OperationName,
    key: RecordKey,
    attempt: u32,
    kind: Kind,
    value: Option<Value>,
}

impl Stored {
    /// The number of the attempt that wrote it.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Reads the value.
    ///
    /// # Errors
    /// It was not kept, or does not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let engine = &self.engine;
        let fault = |kind| {
            let in_full = engine.config.load().log_keys;
            let key = LoggedKey { key: &self.key, in_full }.to_string();
            Error::new(kind, &self.operation).with_key(key)
        };
        let Some(value) = &self.value else {
            return Err(fault(match self.kind {
                Kind::Value => ErrorKind::ResultUnavailable,
                Kind::Error => ErrorKind::FailedBefore,
            }));
        };
        engine.values.read(self.kind, &self.key, value, Codecs::decode).map_err(|error| {
            fault(ErrorKind::Undecodable).with_message(error.to_string()).with_source(error)
        })
    }
}

/// The right to run an operation once. Its lease is renewed until the attempt ends.
///
/// An attempt that is dropped before it ends counts as started: `abandon` decides on the next call.
/// On a [disabled](crate::instance::Builder::disabled) instance there is no record, and ending the
/// attempt changes nothing.
///
/// ```
/// use idempotent_runtime::{Begin, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let import = idem.operation("files.import").key("2026-11.csv").mode(Mode::Strong);
/// match import.begin().await? {
///     Begin::Fresh(attempt) => attempt.complete(&1200_u32).await?,
///     Begin::Replay(stored) => println!("{} rows were imported", stored.decode::<u32>()?),
///     other => println!("not now: {other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a dropped attempt is abandoned"]
pub struct Attempt {
    attempt: AttemptGuard<'static>,
    end: CallEnd,
    protection: Protection,
}

impl Attempt {
    /// The number of the attempt: 1 for the first, 2 for the next.
    pub fn number(&self) -> u32 {
        self.attempt.state().id().number
    }

    /// The fence: greater than that of every earlier attempt, for as long as the record is kept.
    pub fn fence(&self) -> u64 {
        self.attempt.state().id().fence
    }

    /// The value that [`current`](crate::current) returns for work that is
    /// [entered](Current::enter) with it.
    pub fn current(&self) -> Current {
        self.attempt.current()
    }

    /// The store that the attempt was granted by.
    pub fn store(&self) -> &dyn Store {
        &*self.attempt.instance().store
    }

    /// The error of an end that could not be recorded. The attempt is abandoned.
    #[doc(hidden)]
    pub fn refused(mut self, error: StoreError) -> Error {
        let operation = self.attempt.state().operation.clone();
        let error = Error::from_store(error, &operation).after_the_body_ran();
        self.end.refused(&error);
        error
    }

    /// Resolves when the lease is lost.
    pub async fn lost(&self) {
        self.attempt.state().lost().await;
    }

    /// Records a success. The value is kept for the operation's `expire` if its mode is strong.
    ///
    /// # Errors
    /// Another attempt took over, or the store does not answer. In the second case recording goes
    /// on in the background.
    pub async fn complete<T: Serialize>(self, value: &T) -> Result<(), Error> {
        let retention = self.attempt.state().retention;
        self.complete_for(value, retention).await
    }

    /// Records a success, and keeps its value for `retention`.
    ///
    /// # Errors
    /// Those of [`complete`](Attempt::complete).
    pub async fn complete_for<T: Serialize>(
        self,
        value: &T,
        retention: Duration,
    ) -> Result<(), Error> {
        let end = self.completion(value, retention);
        self.end(end).await
    }

    /// The operation succeeded, and the transaction of its effects completes the attempt.
    ///
    /// `commit` gets the key, the record that must be there and the one that takes its place. It
    /// makes that swap as the last statement of its transaction, with whatever the database offers
    /// for it, commits, and says what came of it. So the effects and the answer are there together,
    /// or neither is: an attempt that has lost its key cannot commit. The lease is renewed
    /// meanwhile, and callers that wait are woken afterwards, as always.
    ///
    /// If the commit was not answered, the key is freed by the token of this attempt, which tells
    /// whether the completion had been committed.
    ///
    /// ```
    /// use idempotent_runtime::protocol::Commit;
    /// use idempotent_runtime::store::{Store, Swapped};
    /// use idempotent_runtime::{Begin, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
    /// let Begin::Fresh(attempt) = order.begin().await? else { return Ok(()) };
    /// attempt
    ///     .complete_with(&"order 42", async |completion| {
    ///         // Begin a transaction, write the order, then:
    ///         let Some(swap) = completion.swap else { return Commit::Stored };
    ///         match idem.store().swap(&completion.key, swap).await {
    ///             Ok(Swapped::Done | Swapped::DoneWithoutValue) => Commit::Stored,
    ///             Ok(Swapped::Found(_)) => Commit::Superseded,
    ///             Err(_) => Commit::Unknown,
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Superseded`](ErrorKind::Superseded): another attempt has taken over, and nothing was
    /// committed. [`StoreUnavailable`](ErrorKind::StoreUnavailable): nothing was committed, and the
    /// key is free. [`Indeterminate`](ErrorKind::Indeterminate): it could not be found out whether it
    /// was committed. [`Misconfigured`](ErrorKind::Misconfigured): the attempt took a window, which is
    /// never completed.
    pub async fn complete_with<T: Serialize>(
        mut self,
        value: &T,
        commit: impl AsyncFnOnce(Completion) -> Commit,
    ) -> Result<(), Error> {
        let end = self.completion(value, self.attempt.state().retention);
        let key = self.attempt.state().key.clone();
        let swap = match self.protection {
            Protection::Off => None,
            Protection::On => match self.attempt.swap(&end) {
                Some(swap) => Some(swap),
                None => {
                    let text = "an attempt that took a window cannot be completed\n\
                                help: begin it in mode `reject` or `strong`";
                    let error = self.attempt.error(ErrorKind::Misconfigured).with_message(text);
                    return Err(error.after_the_body_ran());
                }
            },
        };
        let committed = commit(Completion { key, swap }).await;
        match (committed, self.protection) {
            (Commit::Stored, Protection::Off) => Ok(()),
            // The store finds the answer of this attempt. Whatever it says, the answer is committed:
            // by now it may have expired, or be forgotten.
            (Commit::Stored, Protection::On) => {
                drop(self.attempt.end(end.committed()).await);
                self.end.ends(Ending::Executed);
                Ok(())
            }
            (Commit::Superseded, _) => Err(self.superseded()),
            (Commit::Unknown, Protection::Off) => Err(self.unknown()),
            (Commit::Unknown, Protection::On) => self.find_out().await,
        }
    }

    /// Finds out whether a commit that was not answered took place: an attempt that can be freed was
    /// not completed, and cannot be from here on.
    async fn find_out(mut self) -> Result<(), Error> {
        let state = self.attempt.state();
        let (key, token, binding) = (state.key.clone(), state.id().token, state.binding());
        let store = Arc::clone(&self.attempt.instance().store);
        let freed = self.attempt.end(End::Fail(Failure::Free(binding))).await;
        let found = match freed {
            Ok(Updated::Done | Updated::DoneWithoutValue) => {
                self.end.ends(Ending::Failed);
                let text = "the transaction was not committed; the key is free";
                let error = self.attempt.error(ErrorKind::StoreUnavailable).with_message(text);
                return Err(error.after_the_body_ran());
            }
            Ok(Updated::Superseded) => {
                let instance = self.attempt.instance();
                let length = self.attempt.state().length();
                let patience = instance.sleep_until(instance.clock.now().after(length));
                match race(store.load(&key), patience).await {
                    First::Left(Ok(found)) => found,
                    First::Left(Err(_)) | First::Right(()) => None,
                }
            }
            // There is no record: it was committed and has expired, or it was not.
            Ok(Updated::Vanished | Updated::Gone) | Err(_) => None,
        };
        match found {
            Some(Record { head, .. })
                if head.attempt.token == token && head.state == State::Succeeded =>
            {
                self.end.ends(Ending::Executed);
                Ok(())
            }
            // Another attempt may have followed one that was committed and has expired.
            Some(_) | None => Err(self.unknown()),
        }
    }

    fn superseded(&mut self) -> Error {
        self.end.ends(Ending::Superseded);
        self.attempt.error(ErrorKind::Superseded)
    }

    fn unknown(&mut self) -> Error {
        self.end.ends(Ending::Indeterminate);
        let text = "the commit was not answered, and the store cannot tell whether it took place\n\
                    help: look for its effects before the call is repeated";
        self.attempt.error(ErrorKind::Indeterminate).with_message(text).after_the_body_ran()
    }

    /// The end of an attempt that succeeded.
    fn completion<T: Serialize>(&self, value: &T, retention: Duration) -> End {
        let encoded = self.attempt.instance().values.codecs.encode(value);
        let value = self
            .attempt
            .keeps_values()
            .then(|| keep::<T>(&self.attempt, Kind::Value, encoded))
            .flatten();
        End::Complete { value, retention: whole_millis(retention) }
    }

    /// Records a failure, and frees the key for the next attempt; only for one with the same
    /// payload if the operation [binds its payload](crate::Operation::bind_payload_after_failure).
    ///
    /// # Errors
    /// Those of [`complete`](Attempt::complete).
    pub async fn fail(self) -> Result<(), Error> {
        let binding = self.attempt.state().binding();
        self.end(End::Fail(Failure::Free(binding))).await
    }

    /// Records a final failure. Repeat calls get this error.
    ///
    /// # Errors
    /// Those of [`complete`](Attempt::complete).
    pub async fn fail_for_good<E: Serialize>(self, error: &E) -> Result<(), Error> {
        let encoded = self.attempt.instance().values.codecs.encode(error);
        let error = keep::<E>(&self.attempt, Kind::Error, encoded);
        self.end(End::Fail(Failure::Final(error))).await
    }

    /// Frees the key after all, because nothing was done for this attempt: the next one gets its number.
    ///
    /// ```
    /// use idempotent_runtime::{Begin, Idempotency};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let import = idem.operation("files.import").key("2026-11.csv");
    /// for _ in 0..2 {
    ///     let Begin::Fresh(attempt) = import.begin().await? else { return Ok(()) };
    ///     assert_eq!(attempt.number(), 1);
    ///     attempt.release().await?; // the file is not there yet
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`complete`](Attempt::complete).
    pub async fn release(self) -> Result<(), Error> {
        self.end(End::Release).await
    }

    async fn end(mut self, verb: End) -> Result<(), Error> {
        if self.protection == Protection::Off {
            // There is no record to be written.
            return Ok(());
        }
        let planned = match verb {
            End::Complete { .. } => Ending::Executed,
            End::Release => Ending::Cancelled,
            _ => Ending::Failed,
        };
        let ended = self.attempt.end(verb).await;
        self.end.ends(match &ended {
            Ok(Updated::Superseded) => Ending::Superseded,
            _ => planned,
        });
        match ended {
            Ok(Updated::Superseded) => Err(self.attempt.error(ErrorKind::Superseded)),
            Ok(Updated::Gone) => Err(gone(&self.attempt)),
            Ok(_) => Ok(()),
            Err(error) => {
                let operation = &self.attempt.state().operation;
                Err(Error::from_store(error, operation).after_the_body_ran())
            }
        }
    }
}
