//! Parts of keys, and a text of its own for each kind of type that is none.
//!
//! [`Part`] dereferences to a type for floats, that to one for unordered collections, and so on. Each
//! has a method of the same name, and the compiler takes the first one that applies: [`Part::checked`]
//! for what can be part of a key, and otherwise the one that says why not.

use super::key::IsOption;
use crate::key::KeyPart;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::ops::Deref;

/// Floats, and references to them.
pub trait Float {}

impl Float for f32 {}
impl Float for f64 {}
impl<T: Float + ?Sized> Float for &T {}

/// Collections without an order, and references to them.
pub trait Unordered {}

impl<K, V, S> Unordered for HashMap<K, V, S> {}
impl<K, S> Unordered for HashSet<K, S> {}
impl<T: Unordered + ?Sized> Unordered for &T {}

/// `Result`, and references to it.
pub trait IsResult {}

impl<T, E> IsResult for Result<T, E> {}
impl<T: IsResult + ?Sized> IsResult for &T {}

macro_rules! reasons {
    ($($(#[$text:meta])* $reason:ident;)*) => {$(
        $(#[$text])*
        pub trait $reason: KeyPart {}

        #[diagnostic::do_not_recommend]
        impl<T: KeyPart> $reason for T {}
    )*};
}

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

    /// Asked of `Result`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no key: all calls without a value would share one",
        label = "may have no value",
        note = "refuse a call without it: end the path with `.ok()?`, or with `.as_ref().ok()?` for a field"
    )]
    Successful;

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
        }
    };
}

first_that_applies!(Part FloatPart UnorderedPart OptionPart ResultPart IteratorPart FuturePart OtherPart);

/// A value for a key, to be checked.
pub fn part<T: ?Sized>(value: &T) -> Part<'_, T> {
    Part::new(value)
}

impl<'a, T: KeyPart + ?Sized> Part<'a, T> {
    /// The value, which can be part of a key.
    pub fn checked(&self) -> &'a T {
        self.0.0.0.0.0.0.0.0
    }
}

impl<'a, T: Float> FloatPart<'a, T> {
    /// Reports a float.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Exact,
    {
        self.0.0.0.0.0.0.0
    }
}

impl<'a, T: Unordered> UnorderedPart<'a, T> {
    /// Reports a collection without an order.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Ordered,
    {
        self.0.0.0.0.0.0
    }
}

impl<'a, T: IsOption> OptionPart<'a, T> {
    /// Reports an `Option`.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Present,
    {
        self.0.0.0.0.0
    }
}

impl<'a, T: IsResult> ResultPart<'a, T> {
    /// Reports a `Result`.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Successful,
    {
        self.0.0.0.0
    }
}

impl<'a, T: Iterator> IteratorPart<'a, T> {
    /// Reports an iterator.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Collected,
    {
        self.0.0.0
    }
}

impl<'a, T: Future> FuturePart<'a, T> {
    /// Reports a future.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: Awaited,
    {
        self.0.0
    }
}

impl<'a, T> OtherPart<'a, T> {
    /// Reports any other type.
    pub fn checked(&self) -> &'a (dyn KeyPart + 'a)
    where
        T: KeyPart,
    {
        self.0
    }
}
