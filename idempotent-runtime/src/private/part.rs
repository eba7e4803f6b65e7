//! Parts of keys, and a text of its own for each kind of type that is none.
//!
//! [`Part`] dereferences to a type for floats, that to one for unordered collections, and so on. Each
//! has a method of the same name, and the compiler takes the first one that applies: [`Part::__idempotent_checked`]
//! for what can be part of a key, and otherwise the one that says why not.

use super::field::OptionalPart;
use super::key::IsOption;
use super::no_part::{
    Float, HasFloats, HasOptions, IsInstant, IsOsText, IsRange, IsResult, IsSequence, Unordered,
    reasons,
};
use crate::key::KeyPart;
use std::fmt;
use std::future::Future;
use std::ops::Deref;

/// The type of the elements.
type Element<T> = <T as IsSequence>::Element;

reasons! {
    /// Asked of floats.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: equal amounts may differ in their last bit",
        label = "a float",
        note = "an amount seldom tells two calls apart: name the field that does, such as an id",
        note = "or make it an integer, such as cents in a `u64`",
        note = "for numbers with the same bits, end the path with `.to_bits()`"
    )]
    Exact;

    /// Asked of floats in a fingerprint.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a fingerprint: equal amounts may differ in their last bit",
        label = "a float",
        note = "make it an integer, such as cents in a `u64`",
        note = "for numbers with the same bits, end the path with `.to_bits()`"
    )]
    ExactPayload;

    /// Asked of sequences of floats.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: equal amounts may differ in their last bit",
        label = "has floats in it",
        note = "an amount seldom tells two calls apart: name the field that does, such as an id",
        note = "or make them integers, such as cents in a `u64`"
    )]
    AllExact;

    /// Asked of unordered collections.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: its order changes from run to run",
        label = "has no order",
        note = "make it a `std::collections::BTreeMap` or a `std::collections::BTreeSet`"
    )]
    Ordered;

    /// Asked of `Option`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no key: all calls without a value would share one",
        label = "may have no value",
        note = "refuse a call without it: end the path with `?`"
    )]
    Present;

    /// Asked of an `Option` in a sequence.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` inside of another type is no part of a key: it may have no value",
        label = "has parts that may have no value",
        note = "a field may: `#[derive(idempotent_runtime::KeyPart)] struct Slot {{ value: {Self} }}`, and `Slot` \
                in its place"
    )]
    AllPresent;

    /// Asked of `Result`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no key: all calls without a value would share one",
        label = "may have no value",
        note = "refuse a call without it: end the path with `.ok()?`, or with `.as_ref().ok()?` for a field"
    )]
    Successful;

    /// Asked of texts of the operating system.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: it may be no text",
        label = "may be no text",
        note = "refuse a call in which it is none: end the path with `.to_str()?`",
        note = "or take the text that is shown for it: end the path with `.display().to_string()`"
    )]
    Text;

    /// Asked of ranges.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key, and its ends are",
        label = "a range",
        note = "name them, as in `(range.start, range.end)`, or `(range.start(), range.end())` for an inclusive one"
    )]
    Ends;

    /// Asked of instants.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: it means nothing in another process",
        label = "an instant of this process",
        note = "make it a `std::time::SystemTime`"
    )]
    Shared;

    /// Asked of iterators.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: an iterator is used up",
        label = "an iterator",
        note = "name the collection: leave the last method, such as `.iter()`, out"
    )]
    Collected;

    /// Asked of futures.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: a key is made before the body runs, and awaits nothing",
        label = "a future",
        note = "await it in the caller, and pass the value as a parameter `value: ..`: `key = value`"
    )]
    Awaited;
}

macro_rules! first_that_applies {
    ($name:ident $next:ident $($rest:ident)*) => {
        /// A value for a key.
        pub struct $name<'a, T: ?Sized>($next<'a, T>);

        impl<T: ?Sized> fmt::Debug for $name<'_, T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(stringify!($name))
            }
        }

        impl<'a, T: ?Sized> $name<'a, T> {
            fn new(value: &'a T) -> Self {
                Self($next::new(value))
            }

            #[allow(dead_code)]
            fn value(&self) -> &'a T {
                self.0.value()
            }
        }

        impl<'a, T: ?Sized> Deref for $name<'a, T> {
            type Target = $next<'a, T>;

            fn deref(&self) -> &$next<'a, T> {
                &self.0
            }
        }

        first_that_applies!($next $($rest)*);
    };
    ($name:ident) => {
        /// A value for a key.
        pub struct $name<'a, T: ?Sized>(&'a T);

        impl<T: ?Sized> fmt::Debug for $name<'_, T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(stringify!($name))
            }
        }

        impl<'a, T: ?Sized> $name<'a, T> {
            fn new(value: &'a T) -> Self {
                Self(value)
            }

            fn value(&self) -> &'a T {
                self.0
            }
        }
    };
}
pub(super) use first_that_applies;

first_that_applies!(
    Part FloatPart FloatsPart UnorderedPart OptionPart OptionsPart ResultPart OsTextPart RangePart InstantPart
    IteratorPart FuturePart InmostPart InnerPart ElementPart OtherPart
);

/// A value for a key, to be checked.
pub fn part<T: ?Sized>(value: &T) -> Part<'_, T> {
    Part::new(value)
}

/// A value for a fingerprint, to be checked. It may be an `Option`: without a value the payload is another one.
pub fn payload<T: ?Sized>(value: &T) -> Payload<'_, T> {
    Payload(FloatPayload(Part::new(value)))
}

macro_rules! payloads {
    ($($name:ident before $next:ident),*) => {$(
        /// A value for a fingerprint.
        pub struct $name<'a, T: ?Sized>($next<'a, T>);

        impl<T: ?Sized> fmt::Debug for $name<'_, T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(stringify!($name))
            }
        }

        impl<'a, T: ?Sized> Deref for $name<'a, T> {
            type Target = $next<'a, T>;

            fn deref(&self) -> &$next<'a, T> {
                &self.0
            }
        }
    )*};
}

payloads!(Payload before FloatPayload, FloatPayload before Part);

impl<'a, K: KeyPart> Payload<'a, Option<K>> {
    /// The value that may be missing.
    pub fn __idempotent_checked(&self) -> OptionalPart<'a, K> {
        OptionalPart::new(self.value())
    }
}

impl<T: Float + ?Sized> FloatPayload<'_, T> {
    /// Reports a float.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: ExactPayload,
    {
        &()
    }
}

impl<'a, T: KeyPart + ?Sized> Part<'a, T> {
    /// The value, which can be part of a key.
    pub fn __idempotent_checked(&self) -> &'a T {
        self.value()
    }
}

impl<T: Float + ?Sized> FloatPart<'_, T> {
    /// Reports a float.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Exact,
    {
        &()
    }
}

impl<T: HasFloats + ?Sized> FloatsPart<'_, T> {
    /// Reports floats in a sequence.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: AllExact,
    {
        &()
    }
}

impl<T: Unordered + ?Sized> UnorderedPart<'_, T> {
    /// Reports a collection without an order.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Ordered,
    {
        &()
    }
}

impl<T: IsOption + ?Sized> OptionPart<'_, T> {
    /// Reports an `Option`.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Present,
    {
        &()
    }
}

impl<T: HasOptions + ?Sized> OptionsPart<'_, T> {
    /// Reports an `Option` in a sequence.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T::Option: AllPresent,
    {
        &()
    }
}

impl<T: IsResult + ?Sized> ResultPart<'_, T> {
    /// Reports a `Result`.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Successful,
    {
        &()
    }
}

impl<T: IsOsText + ?Sized> OsTextPart<'_, T> {
    /// Reports a text of the operating system.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Text,
    {
        &()
    }
}

impl<T: IsRange + ?Sized> RangePart<'_, T> {
    /// Reports a range.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Ends,
    {
        &()
    }
}

impl<T: IsInstant + ?Sized> InstantPart<'_, T> {
    /// Reports an instant.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Shared,
    {
        &()
    }
}

impl<T: Iterator + ?Sized> IteratorPart<'_, T> {
    /// Reports an iterator.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Collected,
    {
        &()
    }
}

impl<T: Future + ?Sized> FuturePart<'_, T> {
    /// Reports a future.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: Awaited,
    {
        &()
    }
}

impl<T: IsSequence + ?Sized> InmostPart<'_, T>
where
    T::Element: IsSequence<Element: IsSequence>,
{
    /// Reports the type of the elements of elements of elements.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        Element<Element<Element<T>>>: KeyPart,
    {
        &()
    }
}

impl<T: IsSequence<Element: IsSequence> + ?Sized> InnerPart<'_, T> {
    /// Reports the type of the elements of elements.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        Element<Element<T>>: KeyPart,
    {
        &()
    }
}

impl<T: IsSequence + ?Sized> ElementPart<'_, T> {
    /// Reports the type of the elements.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        Element<T>: KeyPart,
    {
        &()
    }
}

impl<T: ?Sized> OtherPart<'_, T> {
    /// Reports any other type.
    pub fn __idempotent_checked(&self) -> &'static ()
    where
        T: KeyPart,
    {
        &()
    }
}
