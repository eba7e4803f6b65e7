//! Functions that the user names in the attribute: `final_errors`, `expire_with`, `on_replay`.
//!
//! Each is passed twice: as itself, for a check with a text of its own, and as the function pointer
//! that it is coerced to. The type of the pointer comes from the check. If that fails, the second can
//! have any type, and nothing is reported twice.
//!
//! The check has two impls for every type, one of which never applies: with a single one, rustc would
//! report the bound of that impl and not the check.

use crate::answer_policy::AnswerPolicy;
use std::time::Duration;

/// Marks the impl that applies.
#[derive(Debug)]
pub enum Applies {}

/// Marks the impl that never applies.
#[derive(Debug)]
pub enum NeverApplies {}

/// A condition that no type meets.
pub trait Never {}

macro_rules! hooks {
    ($(
        $(#[$text:meta])*
        $check:ident: fn(&$of:ident) $(-> $returns:ty)?;
    )*) => {$(
        $(#[$text])*
        pub trait $check<$of, Impl> {
            /// The pointer to the function.
            type Pointer;

            /// Returns `pointer`, whose type is known here.
            fn pointer(pointer: Self::Pointer) -> fn(&$of) $(-> $returns)?;
        }

        #[diagnostic::do_not_recommend]
        impl<$of, F: Fn(&$of) $(-> $returns)?> $check<$of, Applies> for F {
            type Pointer = fn(&$of) $(-> $returns)?;

            fn pointer(pointer: Self::Pointer) -> fn(&$of) $(-> $returns)? {
                pointer
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$of, F: Never> $check<$of, NeverApplies> for F {
            type Pointer = fn(&$of) $(-> $returns)?;

            fn pointer(pointer: Self::Pointer) -> fn(&$of) $(-> $returns)? {
                pointer
            }
        }
    )*};
}

hooks! {
    /// Functions for `final_errors`.
    #[diagnostic::on_unimplemented(
        message = "`final_errors` takes a function from `&{E}` to `bool`",
        label = "this is `{Self}`",
        note = "it gets the error by reference, and is not async: `fn(&{E}) -> bool`, with `*error` where its body \
                compares",
        note = "for one of the whole `Result`: `fn is_final(error: &{E}) -> bool {{ matches!(error, ..) }}`, with the pattern \
                that is inside of its `Err(..)`; a value is kept anyway, and `expire_with` says for how long",
        note = "for a function that takes or returns something else, add one that calls it: `final_errors = is_final`, \
                with `fn is_final(error: &{E}) -> bool {{ .. }}`"
    )]
    IsFinal: fn(&E) -> bool;

    /// Functions for `expire_with`.
    #[diagnostic::on_unimplemented(
        message = "`expire_with` takes a function from `&{T}` to `std::time::Duration`",
        label = "this is `{Self}`",
        note = "it gets the value of `Ok` by reference, and is not async: `fn(&{T}) -> std::time::Duration`; one \
                duration for all values belongs in `expire`",
        note = "let one that returns another type return this one: with `std::time::Duration::from_secs(..)` around a \
                number, or with `.unwrap_or_default()` behind an `Option`, where zero keeps nothing",
        note = "for one of the request, which is out of reach: return `Result<({T}, bool), _>`, as in `Ok((value, \
                is_premium))`, with `fn retention(value: &({T}, bool)) -> std::time::Duration {{ \
                std::time::Duration::from_secs(if value.1 {{ 86_400 }} else {{ 600 }}) }}`",
        note = "an error frees its key; those that `final_errors` names are kept for `expire`"
    )]
    Retention: fn(&T) -> Duration;

    /// Functions for `on_replay`.
    #[diagnostic::on_unimplemented(
        message = "`on_replay` takes a function of `&{T}` that returns nothing",
        label = "this is `{Self}`",
        note = "it gets the value of `Ok` by reference, and neither the `Result` nor the arguments of the call: \
                `fn(&{T})`; return what it has to know of them as part of the value",
        note = "an `async fn` is not awaited: remove `async`, and put what awaits into `let value = value.clone(); \
                tokio::spawn(async move {{ .. }});`, with `#[derive(Clone)]` on a type of your own"
    )]
    Replayed: fn(&T);
}

/// The policy that keeps final errors, too.
pub fn final_errors<T, E, Impl, F: IsFinal<E, Impl>>(
    answers: AnswerPolicy<T, E>,
    _: F,
    pointer: F::Pointer,
) -> AnswerPolicy<T, E> {
    answers.with_final_errors(F::pointer(pointer))
}

/// The policy that keeps a value for as long as the function says.
pub fn expire_with<T, E, Impl, F: Retention<T, Impl>>(
    answers: AnswerPolicy<T, E>,
    _: F,
    pointer: F::Pointer,
) -> AnswerPolicy<T, E> {
    answers.expire_with(F::pointer(pointer))
}

/// The policy that calls the function with every replayed value.
pub fn on_replay<T, E, Impl, F: Replayed<T, Impl>>(
    answers: AnswerPolicy<T, E>,
    _: F,
    pointer: F::Pointer,
) -> AnswerPolicy<T, E> {
    answers.on_replay(F::pointer(pointer))
}
