//! Type-erased values, so that a codec can be a trait object.

use std::cell::Cell;
use std::fmt;

use super::{Json, lossless::Lossless};
use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};

/// A value to encode, of a type that the codec does not know. Implements `Serialize`.
#[derive(Clone, Copy)]
pub struct Encode<'a> {
    value: &'a dyn erased_serde::Serialize,
}

impl<'a> Encode<'a> {
    pub(super) fn new<T: Serialize>(value: &'a T) -> Self {
        Self { value }
    }

    /// Wraps the value for a codec that writes JSON: serializing it fails on values that JSON
    /// cannot tell apart, as [`Json`](super::Json) does.
    pub fn for_json(self) -> impl Serialize + 'a {
        ForJson(self)
    }
}

struct ForJson<'a>(Encode<'a>);

impl Serialize for ForJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused = Cell::new(None);
        self.0.serialize(Lossless::<_, Json>::new(serializer, &refused))
    }
}

impl Serialize for Encode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.value, serializer)
    }
}

impl fmt::Debug for Encode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encode").finish_non_exhaustive()
    }
}

/// Destination of a decoded value, of a type that the codec does not know.
pub struct Decode<'a> {
    slot: &'a mut dyn Fill,
}

impl Decode<'_> {
    /// Reads the value from a deserializer and keeps it.
    ///
    /// # Errors
    /// Returns the error of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let mut deserializer = <dyn erased_serde::Deserializer<'_>>::erase(deserializer);
        self.slot.fill(&mut deserializer).map_err(D::Error::custom)
    }
}

impl fmt::Debug for Decode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decode").finish_non_exhaustive()
    }
}

trait Fill {
    fn fill(
        &mut self,
        deserializer: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error>;
}

/// Typed destination behind a [`Decode`].
pub(super) struct Slot<T>(Option<T>);

impl<T: DeserializeOwned> Slot<T> {
    pub(super) fn empty() -> Self {
        Self(None)
    }

    pub(super) fn as_decode(&mut self) -> Decode<'_> {
        Decode { slot: self }
    }

    /// The decoded value, if the codec stored one.
    pub(super) fn into_value(self) -> Option<T> {
        self.0
    }
}

impl<T: DeserializeOwned> Fill for Slot<T> {
    fn fill(
        &mut self,
        deserializer: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error> {
        self.0 = Some(erased_serde::deserialize(deserializer)?);
        Ok(())
    }
}
