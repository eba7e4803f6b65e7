//! Rules for a function's answers: which are kept, for how long, and how they are read back.

use crate::codec::{CodecError, Codecs, StoredBytes, own_bytes};
use crate::error::{self, Error};
use crate::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type EncodeFn<T> = fn(&Codecs, &T) -> Result<Vec<u8>, CodecError>;
type DecodeFn<T> = fn(&Codecs, &[u8]) -> Result<T, CodecError>;

/// Rules for errors that are kept.
struct KeptErrors<E> {
    encode: EncodeFn<E>,
    decode: DecodeFn<E>,
    is_final: fn(&E) -> bool,
    /// Tells whether there is a refusal among the sources; `None` if the type is not known to have
    /// any.
    holds_refusal: Option<fn(&E) -> bool>,
}

impl<E> Clone for KeptErrors<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for KeptErrors<E> {}

/// An error that a body returned, as it is recorded.
pub(crate) enum ErrorAnswer {
    /// It frees the key.
    Free,
    /// It would be kept, but it is or may be the refusal of a call in the body. It frees the key.
    Refusal,
    /// It is kept.
    Final(Encoding),
}

/// Rules for keeping and replaying the answers `Result<T, E>` of one function.
///
/// The attribute makes them from its arguments; the plain API takes them in
/// [`run_as`](crate::Operation::run_as).
pub struct AnswerPolicy<T, E> {
    value: Option<(EncodeFn<T>, DecodeFn<T>)>,
    error: Option<KeptErrors<E>>,
    expire_with: Option<fn(&T) -> Duration>,
    on_replay: Option<fn(&T)>,
    undo_if: Option<fn(&T) -> bool>,
    pub(crate) refuse: fn(Error) -> E,
    /// The value that the caller of an attributed function gets.
    pub(crate) tell: fn(Outcome<T>) -> T,
}

impl<T, E> Clone for AnswerPolicy<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Copy for AnswerPolicy<T, E> {}

impl<T, E> fmt::Debug for AnswerPolicy<T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AnswerPolicy")
            .field("keeps_values", &self.value.is_some())
            .field("keeps_errors", &self.error.is_some())
            .finish_non_exhaustive()
    }
}

impl<T, E: From<Error>> AnswerPolicy<T, E> {
    /// Keeps and replays values.
    pub fn kept() -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        Self::not_kept().keep_values()
    }

    /// Keeps values as the bytes that they write themselves, whatever the codec of the instance.
    pub fn bytes() -> Self
    where
        T: StoredBytes,
    {
        Self { value: Some((encode_bytes::<T>, decode_bytes::<T>)), ..Self::not_kept() }
    }

    /// Keeps no values, so that a success cannot be replayed.
    pub fn not_kept() -> Self {
        Self {
            value: None,
            error: None,
            expire_with: None,
            on_replay: None,
            undo_if: None,
            refuse: E::from,
            tell: |outcome| outcome.value,
        }
    }
}

impl<T: Serialize + DeserializeOwned, E> AnswerPolicy<Outcome<T>, E> {
    /// Keeps the values of outcomes, and tells each caller the outcome of its own call.
    pub(crate) fn keep_outcomes(self) -> Self {
        let encode: EncodeFn<Outcome<T>> = |codecs, outcome| codecs.encode(&outcome.value);
        let decode: DecodeFn<Outcome<T>> = |codecs, bytes| Ok(Outcome::new(codecs.decode(bytes)?));
        let tell = |call: Outcome<Outcome<T>>| call.with(|of_body| of_body.value);
        Self { value: Some((encode, decode)), tell, ..self }
    }
}

impl<T, E> AnswerPolicy<T, E> {
    /// Keeps and replays errors for which `is_final` returns `true`. All other errors free the key.
    ///
    /// A refusal is never kept, whatever `is_final` says: that another call was refused is not an
    /// answer of this one. An error counts as a refusal if it serializes an [`Error`] or an
    /// [`ErrorKind`](crate::ErrorKind) as part of itself, or has an [`Error`] among its sources, if
    /// these are [searched](Self::search_sources). If they are not, as with errors that are texts, or
    /// if the error cannot be serialized, it also counts as one if a call in the body was refused in
    /// a way that a [retry](crate::Disposition::Retry) can change.
    ///
    /// ```
    /// use idempotent_runtime::{AnswerPolicy, Error, Idempotency, Mode};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    /// enum PayError {
    ///     #[error("the card was refused")]
    ///     CardRefused,
    ///     #[error(transparent)]
    ///     NotNow(#[from] Error),
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let is_final = |error: &PayError| matches!(error, PayError::CardRefused);
    /// let answers = AnswerPolicy::<u64, PayError>::kept().final_errors(is_final).search_sources();
    /// for _ in 0..2 {
    ///     // The body runs once.
    ///     let pay = idem.operation("pay").key(7).mode(Mode::Strong);
    ///     let answer = pay.run_as(answers, async { Err(PayError::CardRefused) }).await;
    ///     assert!(matches!(answer, Err(PayError::CardRefused)));
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn final_errors(self, is_final: fn(&E) -> bool) -> Self
    where
        E: Serialize + DeserializeOwned,
    {
        self.keep_errors().with_final_errors(is_final)
    }

    /// Keeps values.
    pub(crate) fn keep_values(mut self) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        self.value = Some((encode::<T>, decode::<T>));
        self
    }

    /// Keeps errors, of which [`with_final_errors`](Self::with_final_errors) chooses some.
    pub(crate) fn keep_errors(mut self) -> Self
    where
        E: Serialize + DeserializeOwned,
    {
        let (encode, decode) = (encode::<E>, decode::<E>);
        self.error = Some(KeptErrors { encode, decode, is_final: |_| false, holds_refusal: None });
        self
    }

    /// Chooses the errors that are kept, if errors are.
    pub(crate) fn with_final_errors(mut self, is_final: fn(&E) -> bool) -> Self {
        if let Some(kept) = &mut self.error {
            kept.is_final = is_final;
        }
        self
    }

    /// Looks for refusals among the [sources](StdError::source) of errors that
    /// [`final_errors`](Self::final_errors) would keep. The attribute does so for every error type
    /// that has sources.
    #[must_use]
    pub fn search_sources(mut self) -> Self
    where
        E: StdError,
    {
        if let Some(kept) = &mut self.error {
            kept.holds_refusal = Some(|error| error.source().and_then(Error::find_in).is_some());
        }
        self
    }

    /// Chooses the retention of a value from the value itself. Zero keeps nothing and frees the
    /// key.
    #[must_use]
    pub fn expire_with(mut self, expire: fn(&T) -> Duration) -> Self {
        self.expire_with = Some(expire);
        self
    }

    /// Calls `replayed` with every value that is replayed.
    #[must_use]
    pub fn on_replay(mut self, replayed: fn(&T)) -> Self {
        self.on_replay = Some(replayed);
        self
    }

    /// Undoes what the body wrote if `undoes` returns `true` for its value, and keeps the value all
    /// the same. For values that report a failure, as the response 422 does.
    ///
    /// It counts for calls [in a transaction](crate::Operation::run_in_transaction) only: elsewhere
    /// nothing can be undone.
    #[must_use]
    pub fn undo_if(mut self, undoes: fn(&T) -> bool) -> Self {
        self.undo_if = Some(undoes);
        self
    }

    pub(crate) fn keeps_values(&self) -> bool {
        self.value.is_some()
    }

    /// `true` if an answer can be kept whose effects are not.
    pub(crate) fn keeps_failures(&self) -> bool {
        self.error.is_some() || self.undo_if.is_some()
    }

    /// `true` if what the body wrote is kept with this answer. A hook that panics keeps nothing.
    pub(crate) fn keeps_effects(&self, answer: &Result<T, E>) -> bool {
        match (answer, self.undo_if) {
            (Err(_), _) => false,
            (Ok(_), None) => true,
            (Ok(value), Some(undoes)) => call_hook("undo_if", || !undoes(value)).unwrap_or(false),
        }
    }

    pub(crate) fn encode_value(&self, codecs: &Codecs, value: &T) -> Option<Encoding> {
        self.value.map(|(encode, _)| encode(codecs, value))
    }

    pub(crate) fn decode_value(&self, codecs: &Codecs, bytes: &[u8]) -> Result<T, CodecError> {
        match self.value {
            Some((_, decode)) => decode(codecs, bytes),
            None => Err(CodecError::new("this function keeps no values")),
        }
    }

    /// The fate of a body's error. `call_refused` tells that a call in the body was refused in a way
    /// that a retry can change.
    pub(crate) fn keep_error(&self, codecs: &Codecs, error: &E, call_refused: bool) -> ErrorAnswer {
        let Some(kept) = &self.error else { return ErrorAnswer::Free };
        let says = |hook: fn(&E) -> bool| call_hook("final_errors", || hook(error));
        if !says(kept.is_final).unwrap_or(false) {
            return ErrorAnswer::Free;
        }
        let is_refusal = match kept.holds_refusal {
            Some(holds) => says(holds).unwrap_or(true),
            None => call_refused,
        };
        if is_refusal {
            return ErrorAnswer::Refusal;
        }
        match error::watch(|| (kept.encode)(codecs, error)) {
            (_, true) => ErrorAnswer::Refusal,
            // It may be in a part that has no form.
            (Err(_), false) if call_refused => ErrorAnswer::Refusal,
            (encoding, false) => ErrorAnswer::Final(encoding),
        }
    }

    pub(crate) fn decode_error(&self, codecs: &Codecs, bytes: &[u8]) -> Result<E, CodecError> {
        match &self.error {
            Some(kept) => (kept.decode)(codecs, bytes),
            None => Err(CodecError::new("this function keeps no errors")),
        }
    }

    pub(crate) fn retention(&self, value: &T) -> Option<Duration> {
        let choose = self.expire_with?;
        call_hook("expire_with", || choose(value))
    }

    pub(crate) fn replayed(&self, value: &T) {
        if let Some(on_replay) = self.on_replay {
            call_hook("on_replay", || on_replay(value));
        }
    }
}

pub(crate) type Encoding = Result<Vec<u8>, CodecError>;

fn encode<T: Serialize>(codecs: &Codecs, value: &T) -> Encoding {
    codecs.encode(value)
}

fn decode<T: DeserializeOwned>(codecs: &Codecs, bytes: &[u8]) -> Result<T, CodecError> {
    codecs.decode(bytes)
}

fn encode_bytes<T: StoredBytes>(_: &Codecs, value: &T) -> Encoding {
    own_bytes::encode(value)
}

fn decode_bytes<T: StoredBytes>(_: &Codecs, stored: &[u8]) -> Result<T, CodecError> {
    own_bytes::decode(stored)
}

/// Calls a user's hook after the body ran. A panic in the hook must not undo that, so the hook then
/// counts as absent.
fn call_hook<R>(name: &'static str, hook: impl FnOnce() -> R) -> Option<R> {
    let answer = catch_unwind(AssertUnwindSafe(hook)).ok();
    if answer.is_none() {
        tracing::error!(target: "idempotent", hook = name, "a hook panicked and was ignored");
    }
    answer
}
