//! The traits of serde that kept answers need, and a text of its own for each that is missing.
//!
//! [`Returned`] is for values that are borrowed. It dereferences to a type for values that can be kept, that
//! to one for values that are only written, that to one for values that are only read, and that to one for
//! all others. Each has a method of the same name, and the compiler takes the first one that applies: the
//! one that asks for what is missing. [`Failing`] does the same for errors.

use crate::answer_policy::AnswerPolicy;
use crate::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::ops::Deref;

/// Values that can be kept for a replay. One trait for both directions, so that a type with neither
/// is one error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
    label = "its values cannot be stored and read back",
    note = "a type of your own: add `#[derive(serde::Serialize, serde::Deserialize)]` to it",
    note = "a response: return the value that it is made from, and let the handler make it",
    note = "a channel or a stream: collect its items into a `Vec`, and return that",
    note = "`std::sync::Arc` and `std::rc::Rc` need a feature: `cargo add serde --features rc`; in place of \
            `dyn Trait`, name the type; a type of another crate may have a feature `serde`",
    note = "`mode = \"reject\"` keeps no value and needs neither trait"
)]
pub trait Kept: Sized {
    /// The policy for keeping them.
    fn kept<E>(answers: AnswerPolicy<Self, E>) -> AnswerPolicy<Self, E>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Kept for T {
    fn kept<E>(answers: AnswerPolicy<T, E>) -> AnswerPolicy<T, E> {
        answers.keep_values()
    }
}

/// An [`Outcome`], which is not `Serialize` itself: its value alone is kept.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Kept for Outcome<T> {
    fn kept<E>(answers: AnswerPolicy<Outcome<T>, E>) -> AnswerPolicy<Outcome<T>, E> {
        answers.keep_outcomes()
    }
}

/// Text and slices that are borrowed, alone or in a collection. They cannot be read back: serde does not, and
/// the crate of the user cannot implement it.
pub trait Borrowed {}

impl Borrowed for &str {}
impl<T> Borrowed for &[T] {}
impl<T: Borrowed> Borrowed for Option<T> {}
impl<T: Borrowed> Borrowed for Vec<T> {}

/// Asked of borrowed values. No type has it: the traits of serde would seem to be there, for one lifetime.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: a borrowed value cannot be read back",
    label = "a borrowed value",
    note = "return an owned value: `String` in place of `&str`, `Vec<T>` in place of `&[T]`",
    note = "`mode = \"reject\"` keeps no value, and takes one that is borrowed"
)]
pub trait Owned: Kept {}

/// Responses that are made from a value of type `Inside`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: it is a response, and `{Inside}` is what it is made from",
    label = "not the value itself",
    note = "return `{Inside}` in its place, and in `Ok` the value without the response around it",
    note = "the handler calls the function, and makes the response of its value",
    note = "`mode = \"reject\"` keeps no value, and takes a response"
)]
pub trait KeptInside<Inside: ?Sized>: Kept {}

#[diagnostic::do_not_recommend]
impl<T: Kept, Inside: ?Sized> KeptInside<Inside> for T {}

/// Type parameters of the user's function, whose remedy is a bound.
///
/// `Here` is the type of a closure. It has no name, so that the compiler does not propose this trait as the
/// bound.
#[diagnostic::on_unimplemented(
    message = "a value of type `{Self}` cannot be kept for replay: it needs `Serialize` and \
               `DeserializeOwned` of serde",
    label = "its values cannot be stored and read back",
    note = "add bounds: `{Self}: serde::Serialize + serde::de::DeserializeOwned`",
    note = "`mode = \"reject\"` keeps no value and needs neither bound"
)]
pub trait KeptParameter<Here>: Kept {}

#[diagnostic::do_not_recommend]
impl<T: Kept, Here> KeptParameter<Here> for T {}

/// Values that can be written, and have to be read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: it has `Serialize`, and needs `DeserializeOwned` of serde",
    label = "its values cannot be read back",
    note = "add `#[derive(serde::Deserialize)]` to it; a field with a lifetime, such as `&str`, has to be \
            owned, such as `String`",
    note = "`mode = \"reject\"` keeps no value and does not need it"
)]
pub trait ReadBack: Kept {}

#[diagnostic::do_not_recommend]
impl<T: Kept> ReadBack for T {}

/// Values that can be read, and have to be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: it has `Deserialize`, and needs `Serialize` of serde",
    label = "its values cannot be stored",
    note = "add `#[derive(serde::Serialize)]` to it",
    note = "`mode = \"reject\"` keeps no value and does not need it"
)]
pub trait Written: Kept {}

#[diagnostic::do_not_recommend]
impl<T: Kept> Written for T {}

/// Errors that can be kept for a replay.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it needs `Serialize` \
               and `DeserializeOwned` of serde",
    label = "`{Self}` cannot be stored and read back",
    note = "an error of your own: add `#[derive(serde::Serialize, serde::Deserialize)]` to it",
    note = "in place of an error of another crate, one of your own: `#[derive(Debug, thiserror::Error, \
            serde::Serialize, serde::Deserialize)] enum CallError {{ #[error(\"{{0}}\")] Final(String), \
            #[error(transparent)] Refused(#[from] idempotent_runtime::Error) }}`, with \
            `final_errors = CallError::is_final` and `impl CallError {{ fn is_final(&self) -> bool {{ \
            matches!(self, Self::Final(_)) }} }}`"
)]
pub trait KeptError: Sized {
    /// The policy for keeping them.
    fn kept<T>(answers: AnswerPolicy<T, Self>) -> AnswerPolicy<T, Self>;
}

#[diagnostic::do_not_recommend]
impl<E: Serialize + DeserializeOwned> KeptError for E {
    fn kept<T>(answers: AnswerPolicy<T, E>) -> AnswerPolicy<T, E> {
        answers.keep_errors()
    }
}

/// Errors that can be written, and have to be read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it has `Serialize`, and \
               needs `DeserializeOwned` of serde",
    label = "`{Self}` cannot be read back",
    note = "add `#[derive(serde::Deserialize)]` to it; a field such as `&'static str` has to be owned, such \
            as `String`"
)]
pub trait ReadBackError: KeptError {}

#[diagnostic::do_not_recommend]
impl<E: KeptError> ReadBackError for E {}

/// Errors that can be read, and have to be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it has `Deserialize`, and \
               needs `Serialize` of serde",
    label = "`{Self}` cannot be stored",
    note = "add `#[derive(serde::Serialize)]` to it"
)]
pub trait WrittenError: KeptError {}

#[diagnostic::do_not_recommend]
impl<E: KeptError> WrittenError for E {}

macro_rules! first_that_applies {
    ($(
        $kept:ident, $written:ident, $read:ident, $other:ident;
    )*) => {$(
        /// The policy of a function, to be checked and to keep more.
        #[derive(Debug)]
        pub struct $kept<T, E>($written<T, E>);

        /// For types that are only written.
        #[derive(Debug)]
        pub struct $written<T, E>($read<T, E>);

        /// For types that are only read.
        #[derive(Debug)]
        pub struct $read<T, E>($other<T, E>);

        /// For all other types.
        #[derive(Debug)]
        pub struct $other<T, E>(AnswerPolicy<T, E>);

        impl<T, E> $kept<T, E> {
            pub(super) fn new(answers: AnswerPolicy<T, E>) -> Self {
                Self($written($read($other(answers))))
            }
        }

        impl<T, E> Deref for $kept<T, E> {
            type Target = $written<T, E>;

            fn deref(&self) -> &$written<T, E> {
                &self.0
            }
        }

        impl<T, E> Deref for $written<T, E> {
            type Target = $read<T, E>;

            fn deref(&self) -> &$read<T, E> {
                &self.0
            }
        }

        impl<T, E> Deref for $read<T, E> {
            type Target = $other<T, E>;

            fn deref(&self) -> &$other<T, E> {
                &self.0
            }
        }
    )*};
}

first_that_applies! {
    KeptValue, WrittenValue, ReadValue, OtherValue;
    Failing, WrittenFailure, ReadFailure, OtherFailure;
}

/// The policy of a function, to be checked and to keep its values.
#[derive(Debug)]
pub struct Returned<T, E>(KeptValue<T, E>);

impl<T, E> Returned<T, E> {
    pub(super) fn new(answers: AnswerPolicy<T, E>) -> Self {
        Self(KeptValue::new(answers))
    }
}

impl<T, E> Deref for Returned<T, E> {
    type Target = KeptValue<T, E>;

    fn deref(&self) -> &KeptValue<T, E> {
        &self.0
    }
}

impl<T: Borrowed, E> Returned<T, E> {
    /// The policy, which keeps values.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        T: Owned,
    {
        T::kept(self.0.0.0.0.0)
    }
}

impl<T: Kept, E> KeptValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept(&self) -> AnswerPolicy<T, E> {
        T::kept(self.0.0.0.0)
    }
}

impl<T: Kept, E> KeptValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept_inside<Inside: ?Sized>(&self, _: PhantomData<Inside>) -> AnswerPolicy<T, E> {
        self.kept()
    }

    /// The policy, which keeps values.
    pub fn kept_parameter<Here>(&self, _: Here) -> AnswerPolicy<T, E> {
        self.kept()
    }
}

impl<T: Serialize, E> WrittenValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        T: ReadBack,
    {
        T::kept(self.0.0.0)
    }
}

impl<T: DeserializeOwned, E> ReadValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        T: Written,
    {
        T::kept(self.0.0)
    }
}

impl<T, E> OtherValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        T: Kept,
    {
        T::kept(self.0)
    }
}

impl<T, E> OtherValue<T, E> {
    /// The policy, which keeps values.
    pub fn kept_inside<Inside: ?Sized>(&self, _: PhantomData<Inside>) -> AnswerPolicy<T, E>
    where
        T: KeptInside<Inside>,
    {
        T::kept(self.0)
    }

    /// The policy, which keeps values.
    pub fn kept_parameter<Here>(&self, _: Here) -> AnswerPolicy<T, E>
    where
        T: KeptParameter<Here>,
    {
        T::kept(self.0)
    }
}

impl<T, E: KeptError> Failing<T, E> {
    /// The policy, which keeps errors.
    pub fn kept(&self) -> AnswerPolicy<T, E> {
        E::kept(self.0.0.0.0)
    }
}

impl<T, E: Serialize> WrittenFailure<T, E> {
    /// The policy, which keeps errors.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        E: ReadBackError,
    {
        E::kept(self.0.0.0)
    }
}

impl<T, E: DeserializeOwned> ReadFailure<T, E> {
    /// The policy, which keeps errors.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        E: WrittenError,
    {
        E::kept(self.0.0)
    }
}

impl<T, E> OtherFailure<T, E> {
    /// The policy, which keeps errors.
    pub fn kept(&self) -> AnswerPolicy<T, E>
    where
        E: KeptError,
    {
        E::kept(self.0)
    }
}

/// The policy of a function, to keep its errors.
pub fn failing<T, E>(answers: AnswerPolicy<T, E>) -> Failing<T, E> {
    Failing::new(answers)
}
