//! Serializer that refuses values that its format cannot represent without loss.
//!
//! JSON and MessagePack write `Some(None)` as `null`, which reads back as `None`; JSON has no
//! `NaN`. [`Lossless`] wraps the format's own serializer and fails on such values, so that every
//! value that is written reads back equal. It adds no pass over the value and changes no byte.
//!
//! A serializer sees how a type is written, not how it is read: a type whose `Serialize` and
//! `Deserialize` disagree goes unnoticed.

mod compound;
mod keys;
mod serializer;
#[cfg(test)]
mod tests;

use self::keys::KeyDigest;
pub(super) use self::serializer::Lossless;
use serde::{Serialize, Serializer};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// Limits of a format.
pub(super) trait Format {
    /// The format can represent infinities and `NaN`.
    const HOLDS_NON_FINITE: bool;
    /// A unit struct is written like `None`.
    const UNIT_STRUCT_IS_NULL: bool;
    /// Keys of maps are written as text, whatever their type.
    const KEYS_ARE_TEXT: bool;
}

/// Deepest nesting of a value. The readers of both formats go no deeper.
pub(super) const MAX_DEPTH: u8 = 127;

/// Reason for the refusal of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NullInSome,
    NonFinite,
    RepeatedKey,
    TooDeep,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullInSome => formatter.write_str(
                "it holds a `Some` whose content is written as null and would be read as `None`",
            ),
            Self::NonFinite => formatter.write_str("it holds a float that is not finite"),
            Self::RepeatedKey => {
                formatter.write_str("it holds a map in which two keys are written alike")
            }
            Self::TooDeep => write!(formatter, "it nests deeper than {MAX_DEPTH}"),
        }
    }
}

/// Position of a value within the whole.
struct Context<'a, F> {
    /// Receives the refusal, since the error type of the inner serializer cannot carry it.
    refused: &'a Cell<Option<Refusal>>,
    /// Hash of the key that is being written, inside the key of a map.
    key: Option<&'a KeyDigest>,
    depth: u8,
    /// The value is the content of a `Some`, where null would read back as `None`.
    in_some: bool,
    format: PhantomData<F>,
}

impl<F> Clone for Context<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Context<'_, F> {}

impl<'a, F: Format> Context<'a, F> {
    fn new(refused: &'a Cell<Option<Refusal>>) -> Self {
        Self { refused, key: None, depth: 0, in_some: false, format: PhantomData }
    }

    #[cold]
    fn refuse<E: serde::ser::Error>(self, refusal: Refusal) -> E {
        self.refused.set(Some(refusal));
        E::custom(refusal)
    }

    /// The context of a value `levels` deeper.
    fn deeper<E: serde::ser::Error>(mut self, levels: u8) -> Result<Self, E> {
        self.in_some = false;
        self.depth += levels;
        if self.depth > MAX_DEPTH {
            return Err(self.refuse(Refusal::TooDeep));
        }
        Ok(self)
    }

    fn in_some(mut self) -> Self {
        self.in_some = true;
        self
    }

    fn in_key(mut self, key: &'a KeyDigest) -> Self {
        (self.key, self.in_some) = (Some(key), false);
        self
    }

    /// Checks a value that the format writes as null.
    fn null<E: serde::ser::Error>(self) -> Result<(), E> {
        if self.in_some {
            return Err(self.refuse(Refusal::NullInSome));
        }
        self.feed(b'0', b"");
        Ok(())
    }

    fn float<E: serde::ser::Error>(self, value: f64, bits: &[u8]) -> Result<(), E> {
        if !F::HOLDS_NON_FINITE && !value.is_finite() {
            return Err(self.refuse(Refusal::NonFinite));
        }
        match F::KEYS_ARE_TEXT {
            true => self.feed_text(b's', &value),
            // `NaN` has many bit patterns.
            false => self.feed(b'f', bits),
        }
        Ok(())
    }

    /// Adds a part to the hash of a key. If keys are text, keys of different types can be equal.
    fn feed(self, kind: u8, bytes: &[u8]) {
        if let Some(key) = self.key {
            key.feed(if F::KEYS_ARE_TEXT { b's' } else { kind }, bytes);
        }
    }

    fn feed_text(self, kind: u8, value: &dyn fmt::Debug) {
        if self.key.is_some() {
            self.feed(kind, format!("{value:?}").as_bytes());
        }
    }

    fn nested<'v, T: ?Sized>(self, value: &'v T) -> Nested<'a, 'v, T, F> {
        Nested { value, context: self }
    }
}

/// A value inside another one, as the inner serializer gets it.
struct Nested<'a, 'v, T: ?Sized, F> {
    value: &'v T,
    context: Context<'a, F>,
}

impl<T: Serialize + ?Sized, F: Format> Serialize for Nested<'_, '_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Lossless { inner: serializer, context: self.context })
    }
}
