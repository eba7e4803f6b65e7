//! Ids of transitions.

use crate::entity::{EntityError, check_text};
use std::borrow::Cow;
use std::fmt;

/// The caller's id of a transition: of the payment, the message, the request that asks for it.
///
/// A repeat has the same id. Texts and integers convert into it; of other types, such as a UUID,
/// pass the text: `id.to_string()`. An id is not empty, and has at most 700 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct TransitionId<'a>(Cow<'a, str>);

impl TransitionId<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn check(&self) -> Result<(), EntityError> {
        check_text("the id of the transition", &self.0)
    }
}

/// Shows the length of the id, and not the id.
impl fmt::Debug for TransitionId<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TransitionId({} bytes)", self.0.len())
    }
}

impl<'a> From<&'a str> for TransitionId<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.into())
    }
}

impl<'a> From<&'a &str> for TransitionId<'a> {
    fn from(text: &'a &str) -> Self {
        Self((*text).into())
    }
}

impl<'a> From<&'a String> for TransitionId<'a> {
    fn from(text: &'a String) -> Self {
        Self(text.into())
    }
}

impl From<String> for TransitionId<'_> {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for TransitionId<'_> {
            fn from(value: $integer) -> Self {
                Self(value.to_string().into())
            }
        }

        impl From<&$integer> for TransitionId<'_> {
            fn from(value: &$integer) -> Self {
                Self(value.to_string().into())
            }
        }
    )*};
}

from_integers!(u8 u16 u32 u64 i8 i16 i32 i64);
