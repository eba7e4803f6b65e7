//! Values, which are kept for a replay.
//!
//! All traits here are [`Kept`], with a text of their own. The parameter `At` is where the compiler points: the
//! user's own type, or a part of it.

use super::super::hooks::Never;
use crate::answer_policy::AnswerPolicy;
use crate::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Values that can be kept for a replay.
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
impl<T, const N: usize> Borrowed for &[T; N] {}
impl<T: Borrowed> Borrowed for Option<T> {}
impl<T: Borrowed> Borrowed for Vec<T> {}
impl<T: Borrowed, const N: usize> Borrowed for [T; N] {}
// A second impl for the first member would overlap.
impl<A, T: Borrowed> Borrowed for (A, T) {}
impl<A, B, T: Borrowed> Borrowed for (A, B, T) {}

/// Declares traits with a text each: one for `mode = "strong"`, one for a function without `mode`.
macro_rules! texts {
    ($(
        $(#[$doc:meta])*
        $strong:ident, $configured:ident<$($of:ident),*>: $message:literal, $label:literal, $note:literal;
    )*) => {$(
        $(#[$doc])*
        #[diagnostic::on_unimplemented(
            message = $message,
            label = $label,
            note = $note,
            note = "`mode = \"reject\"` keeps no value, and needs neither trait"
        )]
        pub trait $strong<$($of: ?Sized),*>: Kept {}

        $(#[$doc])*
        #[diagnostic::on_unimplemented(
            message = $message,
            label = $label,
            note = $note,
            note = "without `mode`, the configuration decides, and may keep the value: add `mode = \"reject\"`, which \
                    keeps none and needs neither trait"
        )]
        pub trait $configured<$($of: ?Sized),*>: Kept {}
    )*};
}

/// Declares such traits, which all values that can be kept have.
macro_rules! asked {
    ($(
        $(#[$doc:meta])*
        $strong:ident, $configured:ident<$($of:ident),*>: $message:literal, $label:literal, $note:literal;
    )*) => {$(
        texts! {
            $(#[$doc])*
            $strong, $configured<$($of),*>: $message, $label, $note;
        }

        #[diagnostic::do_not_recommend]
        impl<T: Kept, $($of: ?Sized),*> $strong<$($of),*> for T {}

        #[diagnostic::do_not_recommend]
        impl<T: Kept, $($of: ?Sized),*> $configured<$($of),*> for T {}
    )*};
}

texts! {
    /// Borrowed values. No type has it: the traits of serde would seem to be there, for one lifetime.
    Owned, OwnedConfigured<At>:
        "`{Self}` cannot be kept for replay: a borrowed value cannot be read back",
        "a borrowed value",
        "return an owned value: `String` in place of `&str`, with `.to_owned()` on the value, and `Vec<T>` in \
         place of `&[T]`, with `.to_vec()`";
}

#[diagnostic::do_not_recommend]
impl<T: Kept + Never, At: ?Sized> Owned<At> for T {}

#[diagnostic::do_not_recommend]
impl<T: Kept + Never, At: ?Sized> OwnedConfigured<At> for T {}

asked! {
    /// Values that can be written, and have to be read back.
    ReadBack, ReadBackConfigured<At>:
        "`{Self}` cannot be kept for replay: it has `Serialize`, and needs `DeserializeOwned` of serde",
        "its values cannot be read back",
        "add `#[derive(serde::Deserialize)]` to it; a field with a lifetime, such as `&str`, has to be owned, \
         such as `String`";

    /// Values that can be read, and have to be written.
    Written, WrittenConfigured<At>:
        "`{Self}` cannot be kept for replay: it has `Deserialize`, and needs `Serialize` of serde",
        "its values cannot be stored",
        "add `#[derive(serde::Serialize)]` to it";

    /// Values of the type `At`, or of one with such values in it, as in a collection.
    KeptOwn, KeptOwnConfigured<At>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "add `#[derive(serde::Serialize, serde::Deserialize)]` to `{At}`; if it is of another crate, that may \
         have a feature `serde`";

    /// Values of a type with the argument `Inside`, either of which may be at fault.
    KeptAround, KeptAroundConfigured<At, Inside>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Inside}`, and to the type around it if that \
         has none";

    /// Values of a type with several arguments.
    KeptAmong, KeptAmongConfigured<At>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, or to the types in its arguments that \
         have none";

    /// Values behind a counted pointer.
    KeptShared, KeptSharedConfigured<At, Inside>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "`std::sync::Arc` and `std::rc::Rc` have them with `cargo add serde --features rc`, if what is inside has: \
         `#[derive(serde::Serialize, serde::Deserialize)]` on `{Inside}`";

    /// Trait objects.
    KeptObject, KeptObjectConfigured<At>:
        "`{Self}` cannot be kept for replay: a `dyn Trait` cannot be stored and read back",
        "its values cannot be stored and read back",
        "name the type in place of `dyn Trait`, and add `#[derive(serde::Serialize, serde::Deserialize)]` to it";

    /// Channels and streams.
    KeptStream, KeptStreamConfigured<At>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "a channel or a stream cannot be stored: collect its items into a `Vec`, and return that";

    /// Responses.
    KeptResponse, KeptResponseConfigured<At>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "return the value that the response is made from; the handler calls the function, and makes the response";

    /// Responses that are made from a value of type `Inside`.
    KeptInside, KeptInsideConfigured<At, Inside>:
        "`{Self}` cannot be kept for replay: it is a response, and `{Inside}` is what it is made from",
        "not the value itself",
        "return `{Inside}` in its place, and in `Ok` the value without the response around it; the handler calls \
         this function, and makes the response, as in `create_order(order).await.map(axum::Json)`";

    /// Arrays.
    KeptArray, KeptArrayConfigured<At, Inside>:
        "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "serde has them for arrays of up to 32 elements: return a `Vec<{Inside}>`, with `.to_vec()` on the value";

    /// Type parameters of the user's function, whose remedy is a bound, or types with one inside.
    ///
    /// `At` is the type of a closure. It has no name, so that the compiler does not propose this trait as the bound.
    KeptParameter, KeptParameterConfigured<At, Inside>:
        "a value of type `{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        "its values cannot be stored and read back",
        "add bounds: `{Inside}: serde::Serialize + serde::de::DeserializeOwned`";
}
