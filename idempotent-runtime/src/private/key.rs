//! The key of a call, encoded.

use crate::key::{Encoded, KeyPart, Parts};

/// Encodes a key that is one part.
pub fn key<K: KeyPart + ?Sized>(part: &K) -> Encoded {
    Encoded::of(part)
}

/// Encodes a key that is a constant.
pub fn constant_key<K: ConstantKey + ?Sized>(constant: &K) -> Encoded {
    Encoded::of(constant)
}

/// Constants after `const`.
#[diagnostic::on_unimplemented(
    message = "a constant of type `{Self}` cannot be part of a key or a fingerprint",
    label = "not a key part",
    note = "make it a text, as in `const NIGHTLY: &str = \"nightly\";`, or an integer",
    note = "for a value that is known only at run time, as in a `LazyLock`, add a parameter `job: &str`, and write `key = job`"
)]
pub trait ConstantKey: KeyPart {}

#[diagnostic::do_not_recommend]
impl<K: KeyPart + ?Sized> ConstantKey for K {}

/// Encodes a key that is one optional part.
pub fn optional_key<K: KeyPart>(part: &Option<K>) -> Encoded {
    Encoded::of_optional(part)
}

/// The value of a path that has none before its end.
pub const NOTHING: &Option<u8> = &None;

/// The value of a path before `?`.
pub fn option<O: IsOption>(value: &O) -> &Option<O::Part> {
    value.as_option()
}

/// Values of paths that end in `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Option`, so its path has no `?`",
    label = "not an `Option`",
    note = "a `Result`: end the path with `.ok()?`",
    note = "if it always has a value, remove the `?`",
    note = "if there is an `Option` inside, go on to it: `.0?` for the field of a newtype, `.as_ref()?` for \
            what dereferences to one"
)]
pub trait IsOption {
    /// The type of `Some`.
    type Part;

    /// Returns itself.
    fn as_option(&self) -> &Option<Self::Part>;
}

#[diagnostic::do_not_recommend]
impl<K> IsOption for Option<K> {
    type Part = K;

    fn as_option(&self) -> &Option<K> {
        self
    }
}

macro_rules! lead_to_an_option {
    ($($type:ty),+) => {$(
        #[diagnostic::do_not_recommend]
        impl<O: IsOption + ?Sized> IsOption for $type {
            type Part = O::Part;

            fn as_option(&self) -> &Option<O::Part> {
                (**self).as_option()
            }
        }
    )+};
}

lead_to_an_option!(&O, &mut O, Box<O>, std::rc::Rc<O>, std::sync::Arc<O>);

/// The ambient token.
pub fn ambient_key() -> Encoded {
    Encoded::ambient()
}

/// Starts a tuple.
pub fn tuple() -> Parts {
    Parts::tuple()
}

/// Starts a template.
pub fn template() -> Parts {
    Parts::template()
}
