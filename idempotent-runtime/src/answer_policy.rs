//! Rules for a function's answers: which are kept, for how long, and how they are read back.

use crate::codec::{CodecError, Codecs, StoredBytes, own_bytes};
use crate::error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type EncodeFn<T> = fn(&Codecs, &T) -> Result<Vec<u8>, CodecError>;
type DecodeFn<T> = fn(&Codecs, &[u8]) -> Result<T, CodecError>;

/// Encoder and decoder of errors, and the test for final ones.
type KeptErrors<E> = (EncodeFn<E>, DecodeFn<E>, fn(&E) -> bool);

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
        Self { value: Some((encode::<T>, decode::<T>)), ..Self::not_kept() }
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
        let (value, error, refuse) = (None, None, E::from);
        Self { value, error, expire_with: None, on_replay: None, undo_if: None, refuse }
    }
}

impl<T, E> AnswerPolicy<T, E> {
    /// Keeps and replays errors for which `is_final` returns `true`. All other errors free the key.
    #[must_use]
    pub fn final_errors(mut self, is_final: fn(&E) -> bool) -> Self
    where
        E: Serialize + DeserializeOwned,
    {
        self.error = Some((encode::<E>, decode::<E>, is_final));
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

    /// The encoded error, if it is final.
    pub(crate) fn encode_error(&self, codecs: &Codecs, error: &E) -> Option<Encoding> {
        let (encode, _, is_final) = self.error?;
        call_hook("final_errors", || is_final(error))
            .unwrap_or(false)
            .then(|| encode(codecs, error))
    }

    pub(crate) fn decode_error(&self, codecs: &Codecs, bytes: &[u8]) -> Result<E, CodecError> {
        match self.error {
            Some((_, decode, _)) => decode(codecs, bytes),
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
