//! Types of settings: reading a value from a file or a variable, and writing it.

use super::draft::Scalar;
use super::duration;
use serde::ser::SerializeStruct;
use std::time::Duration;

/// The type of a setting.
pub(super) trait Value: Sized {
    /// `true` if text is taken as it is. Environment variables are always text: for other types,
    /// one that looks like a number or a boolean is read as one.
    const IS_TEXT: bool = false;

    /// Reads a value; `None` if it is of another kind.
    fn read(value: &Scalar) -> Option<Self>;

    /// A description of the accepted values, for error messages.
    fn accepted() -> String;

    /// `false` if leaving the setting out has the same meaning.
    fn is_written(&self) -> bool {
        true
    }

    /// Writes the value in a form that reads back equal.
    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error>;
}

impl Value for String {
    const IS_TEXT: bool = true;

    fn read(value: &Scalar) -> Option<Self> {
        match value {
            Scalar::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn accepted() -> String {
        "text".to_owned()
    }

    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error> {
        out.serialize_field(name, self)
    }
}

impl Value for Duration {
    fn read(value: &Scalar) -> Option<Self> {
        match value {
            Scalar::Int(seconds) => u64::try_from(*seconds).ok().map(Self::from_secs),
            Scalar::Text(text) => duration::parse(text).ok(),
            _ => None,
        }
    }

    fn accepted() -> String {
        format!("a whole number of seconds, or {}", duration::EXAMPLES)
    }

    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error> {
        out.serialize_field(name, &duration::display(*self))
    }
}

/// A number of milliseconds, or text with a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Millis(pub(super) Duration);

impl Value for Millis {
    fn read(value: &Scalar) -> Option<Self> {
        match value {
            Scalar::Int(millis) => u64::try_from(*millis).ok().map(Duration::from_millis).map(Self),
            other => Duration::read(other).map(Self),
        }
    }

    fn accepted() -> String {
        format!("a whole number of milliseconds, or {}", duration::EXAMPLES)
    }

    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error> {
        self.0.write(name, out)
    }
}

impl Value for bool {
    fn read(value: &Scalar) -> Option<Self> {
        match value {
            Scalar::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn accepted() -> String {
        "true or false".to_owned()
    }

    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error> {
        out.serialize_field(name, self)
    }
}

macro_rules! whole_numbers {
    ($($Type:ty),+) => {$(
        impl Value for $Type {
            fn read(value: &Scalar) -> Option<Self> {
                match value {
                    Scalar::Int(number) => Self::try_from(*number).ok(),
                    _ => None,
                }
            }

            fn accepted() -> String {
                "a whole number".to_owned()
            }

            fn write<S: SerializeStruct>(
                &self,
                name: &'static str,
                out: &mut S,
            ) -> Result<(), S::Error> {
                out.serialize_field(name, self)
            }
        }
    )+};
}

whole_numbers!(u32, usize);

impl<T: Value> Value for Option<T> {
    fn read(value: &Scalar) -> Option<Self> {
        match value {
            Scalar::Nothing => Some(None),
            other => T::read(other).map(Some),
        }
    }

    fn accepted() -> String {
        T::accepted()
    }

    /// `None` is left out, because not every format has a null.
    fn is_written(&self) -> bool {
        self.is_some()
    }

    fn write<S: SerializeStruct>(&self, name: &'static str, out: &mut S) -> Result<(), S::Error> {
        match self {
            Some(value) => value.write(name, out),
            None => out.skip_field(name),
        }
    }
}
