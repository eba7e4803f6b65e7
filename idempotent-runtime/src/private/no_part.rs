//! Kinds of types that are no parts of keys: each has a trait, so that the compiler tells which one it is.

use super::key::IsOption;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Declares a trait for each reason, which is asked of what gives that reason and met by no such type.
macro_rules! reasons {
    ($($(#[$text:meta])* $reason:ident;)*) => {$(
        $(#[$text])*
        pub trait $reason {}

        #[diagnostic::do_not_recommend]
        impl<T: $crate::key::KeyPart + ?Sized> $reason for T {}
    )*};
}
pub(super) use reasons;

macro_rules! kinds {
    ($($(#[$text:meta])* $kind:ident: $($type:ty)*;)*) => {$(
        $(#[$text])*
        pub trait $kind {}

        $(impl $kind for $type {})*
        impl<T: $kind + ?Sized> $kind for &T {}
        impl<T: $kind + ?Sized> $kind for &mut T {}
        impl<T: $kind + ?Sized> $kind for Box<T> {}
        impl<T: $kind + ?Sized> $kind for Rc<T> {}
        impl<T: $kind + ?Sized> $kind for Arc<T> {}
    )*};
}

kinds! {
    /// Floats.
    Float: f32 f64;
    /// Floats, and sequences with floats in them.
    HasFloats: f32 f64;
    /// Collections without an order, and sequences of those.
    Unordered:;
    /// `Result`.
    IsResult:;
    /// Paths and other texts of the operating system.
    IsOsText: Path PathBuf OsStr OsString;
    /// Ranges.
    IsRange:;
    /// Instants of this process.
    IsInstant: Instant;
}

impl<T: HasFloats> HasFloats for Vec<T> {}
impl<T: HasFloats> HasFloats for [T] {}
impl<T: HasFloats, const N: usize> HasFloats for [T; N] {}
impl<T: HasFloats> HasFloats for Option<T> {}
impl<K, V: HasFloats> HasFloats for BTreeMap<K, V> {}

impl<K, V, S> Unordered for HashMap<K, V, S> {}
impl<K, S> Unordered for HashSet<K, S> {}
impl<T: Unordered> Unordered for Vec<T> {}
impl<T: Unordered> Unordered for [T] {}
impl<T: Unordered, const N: usize> Unordered for [T; N] {}

impl<T, E> IsResult for Result<T, E> {}

impl<T> IsRange for Range<T> {}
impl<T> IsRange for RangeFrom<T> {}
impl<T> IsRange for RangeInclusive<T> {}
impl<T> IsRange for RangeTo<T> {}
impl<T> IsRange for RangeToInclusive<T> {}

/// Sequences of values that may be missing.
pub trait HasOptions {
    /// The element.
    type Option: ?Sized;
}

impl<K, V: IsOption> HasOptions for BTreeMap<K, V> {
    type Option = V;
}

/// Sequences and pointers, which are parts of keys exactly if their elements are.
pub trait IsSequence {
    /// The element.
    type Element: ?Sized;
}

macro_rules! sequences {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<T: IsOption, $($generics)*> HasOptions for $type {
            type Option = T;
        }

        impl<T, $($generics)*> IsSequence for $type {
            type Element = T;
        }
    )*};
}

sequences! {
    [] Vec<T>;
    [] [T];
    [const N: usize] [T; N];
    [] BTreeSet<T>;
}

macro_rules! pointers {
    ($($type:ty)*) => {$(
        impl<T: HasOptions + ?Sized> HasOptions for $type {
            type Option = T::Option;
        }

        impl<T: ?Sized> IsSequence for $type {
            type Element = T;
        }
    )*};
}

pointers! { &T &mut T Box<T> Rc<T> Arc<T> }
