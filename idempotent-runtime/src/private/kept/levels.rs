//! Types that dereference to each other, so that the compiler takes the first method that applies.
//!
//! [`Returned`] is for values that are borrowed. It dereferences to a type for what can be written, that to one
//! for what can be read, and that to one for all others. Each has the same methods, with a bound that asks for
//! what is missing there. Answers that can be kept meet the bounds of all four.
//!
//! The remedy depends on the form of the type, too, which the attribute sees, and on `mode`. So
//! there is a method for each form, once with and once without a `mode` in the attribute. The compiler points at
//! the argument.

use super::errors::*;
use super::values::*;
use crate::answer_policy::AnswerPolicy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::ops::Deref;

/// The policy of a function, to be checked and to keep more.
#[derive(Debug)]
pub struct Returned<T, E>(Writable<T, E>);

/// For answers that can be written.
#[derive(Debug)]
pub struct Writable<T, E>(Readable<T, E>);

/// For answers that can be read.
#[derive(Debug)]
pub struct Readable<T, E>(Other<T, E>);

/// For all other answers.
#[derive(Debug)]
pub struct Other<T, E>(AnswerPolicy<T, E>);

impl<T, E> Returned<T, E> {
    /// Takes the policy.
    pub fn of(answers: AnswerPolicy<T, E>) -> Self {
        Self(Writable(Readable(Other(answers))))
    }
}

impl<T, E> Other<T, E> {
    fn answers(&self) -> AnswerPolicy<T, E> {
        self.0
    }
}

impl<T, E> Deref for Returned<T, E> {
    type Target = Writable<T, E>;

    fn deref(&self) -> &Writable<T, E> {
        &self.0
    }
}

impl<T, E> Deref for Writable<T, E> {
    type Target = Readable<T, E>;

    fn deref(&self) -> &Readable<T, E> {
        &self.0
    }
}

impl<T, E> Deref for Readable<T, E> {
    type Target = Other<T, E>;

    fn deref(&self) -> &Other<T, E> {
        &self.0
    }
}

/// Declares a method that keeps values, with its bound on each level. On the lower lines, the remedy is the same
/// whatever the type has of serde.
macro_rules! method {
    ($method:ident<$($of:ident),*>: $owned:ident, $read_back:ident, $written:ident, $kept:ident) => {
        impl<T: Borrowed, E> Returned<T, E> {
            /// The policy, which keeps values.
            pub fn $method<At: ?Sized, $($of: ?Sized),*>(&self, _: PhantomData<At>) -> AnswerPolicy<T, E>
            where
                T: $owned<At>,
            {
                T::kept(self.answers())
            }
        }

        impl<T: Serialize, E> Writable<T, E> {
            /// The policy, which keeps values.
            pub fn $method<At: ?Sized, $($of: ?Sized),*>(&self, _: PhantomData<At>) -> AnswerPolicy<T, E>
            where
                T: $read_back<At>,
            {
                T::kept(self.answers())
            }
        }

        impl<T: DeserializeOwned, E> Readable<T, E> {
            /// The policy, which keeps values.
            pub fn $method<At: ?Sized, $($of: ?Sized),*>(&self, _: PhantomData<At>) -> AnswerPolicy<T, E>
            where
                T: $written<At>,
            {
                T::kept(self.answers())
            }
        }

        method!($method<$($of),*>(PhantomData<At>): $kept);
    };
    ($method:ident<$($of:ident),*>($at:ty): $kept:ident) => {
        impl<T, E> Other<T, E> {
            /// The policy, which keeps values.
            pub fn $method<At, $($of: ?Sized),*>(&self, _: $at) -> AnswerPolicy<T, E>
            where
                At: ?Sized,
                $at: Sized,
                T: $kept<At, $($of),*>,
            {
                T::kept(self.answers())
            }
        }
    };
}

method!(__idempotent_kept<>: Owned, ReadBack, Written, KeptOwn);
method!(__idempotent_kept_around<Inside>: Owned, ReadBack, Written, KeptAround);
method!(__idempotent_kept_among<>: Owned, ReadBack, Written, KeptAmong);
method!(__idempotent_kept_shared<Inside>: Owned, ReadBack, Written, KeptShared);
method!(__idempotent_kept_object<>: Owned, ReadBack, Written, KeptObject);
method!(__idempotent_kept_stream<>: Owned, ReadBack, Written, KeptStream);
method!(__idempotent_kept_response<>: Owned, ReadBack, Written, KeptResponse);
method!(__idempotent_kept_array<Inside>: Owned, ReadBack, Written, KeptArray);
method!(__idempotent_kept_inside<Inside>(PhantomData<At>): KeptInside);
method!(__idempotent_kept_parameter<Inside>(At): KeptParameter);
method!(__idempotent_may_keep<>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptOwnConfigured);
method!(__idempotent_may_keep_around<Inside>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptAroundConfigured);
method!(__idempotent_may_keep_among<>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptAmongConfigured);
method!(__idempotent_may_keep_shared<Inside>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptSharedConfigured);
method!(__idempotent_may_keep_object<>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptObjectConfigured);
method!(__idempotent_may_keep_stream<>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptStreamConfigured);
method!(__idempotent_may_keep_response<>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptResponseConfigured);
method!(__idempotent_may_keep_array<Inside>: OwnedConfigured, ReadBackConfigured, WrittenConfigured, KeptArrayConfigured);
method!(__idempotent_may_keep_inside<Inside>(PhantomData<At>): KeptInsideConfigured);
method!(__idempotent_may_keep_parameter<Inside>(At): KeptParameterConfigured);

impl<T, E: Serialize> Writable<T, E> {
    /// The policy, which keeps errors.
    pub fn __idempotent_errors(&self) -> AnswerPolicy<T, E>
    where
        E: ReadBackError,
    {
        E::kept(self.answers())
    }
}

impl<T, E: DeserializeOwned> Readable<T, E> {
    /// The policy, which keeps errors.
    pub fn __idempotent_errors(&self) -> AnswerPolicy<T, E>
    where
        E: WrittenError,
    {
        E::kept(self.answers())
    }
}

impl<T, E> Other<T, E> {
    /// The policy, which keeps errors.
    pub fn __idempotent_errors(&self) -> AnswerPolicy<T, E>
    where
        E: KeptError,
    {
        E::kept(self.answers())
    }
}
