//! Fields of types that derive `KeyPart`.
//!
//! A field may be an `Option`, which its name does not tell: an alias may be one, and a user's own type of that
//! name is none. So the compiler chooses, as it does for [`Part`](super::part::Part). The methods have names that no
//! trait of the user's has, since such a trait may be implemented for every type, and would come before what is
//! dereferenced to.

use super::key::IsOption;
use super::no_part::{HasFloats, HasOptions, IsOsText, IsSequence, Unordered, reasons};
use super::part::first_that_applies;
use crate::key::{KeyPart, KeyWriter};
use std::fmt;
use std::ops::Deref;

/// The type of the elements.
type Element<T> = <T as IsSequence>::Element;

reasons! {
    /// Asked of fields with floats.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: equal amounts may differ in their last bit",
        label = "a float",
        note = "use an integer, such as an `i64` of the smallest unit; or leave the field out, if there are others: \
                `#[key_part(skip)]`"
    )]
    ExactField;

    /// Asked of fields without an order.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: its order changes from run to run",
        label = "has no order",
        note = "make it a `std::collections::BTreeMap` or a `std::collections::BTreeSet`; or leave the field out, if \
                there are others: `#[key_part(skip)]`"
    )]
    OrderedField;

    /// Asked of an `Option` inside of a field.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` inside of another type is no part of a key: it may have no value",
        label = "has parts that may have no value",
        note = "a field may: `#[derive(idempotent_runtime::KeyPart)] struct Slot {{ value: {Self} }}`, and `Slot` \
                in its place"
    )]
    PresentField;

    /// Asked of the field of a newtype.
    #[diagnostic::on_unimplemented(
        message = "a newtype is encoded as its field, and an `Option` is no key by itself",
        label = "may have no value",
        note = "give the field a name: `{{ value: {Self} }}`"
    )]
    PresentNewtype;

    /// Asked of fields with texts of the operating system.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no part of a key: it may be no text",
        label = "may be no text",
        note = "make it a `String`; or leave the field out, if there are others: `#[key_part(skip)]`"
    )]
    TextField;
}

first_that_applies!(
    Newtype OptionNewtype Field OptionalField FloatField UnorderedField OptionsField OsTextField InmostField InnerField
    ElementField OptionalElementField OptionalOtherField OtherField
);

/// A field of several.
pub fn field<T: ?Sized>(value: &T) -> Field<'_, T> {
    Field::new(value)
}

/// The only field of a newtype.
pub fn newtype<T: ?Sized>(value: &T) -> Newtype<'_, T> {
    Newtype::new(value)
}

impl<'a, T: KeyPart + ?Sized> Newtype<'a, T> {
    /// The value, which can be part of a key.
    pub fn __idempotent_part(&self) -> &'a T {
        self.value()
    }
}

impl<T: IsOption + ?Sized> OptionNewtype<'_, T> {
    /// Reports an `Option`.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T: PresentNewtype,
    {
        &()
    }
}

impl<'a, T: KeyPart + ?Sized> Field<'a, T> {
    /// The value, which can be part of a key.
    pub fn __idempotent_part(&self) -> &'a T {
        self.value()
    }
}

impl<'a, K: KeyPart> OptionalField<'a, Option<K>> {
    /// The value that may be missing.
    pub fn __idempotent_part(&self) -> OptionalPart<'a, K> {
        OptionalPart::new(self.value())
    }
}

/// A part that may be missing. It is written only into groups and fingerprints.
#[derive(Debug)]
pub struct OptionalPart<'a, K>(Option<&'a K>);

impl<'a, K> OptionalPart<'a, K> {
    pub(super) fn new(value: &'a Option<K>) -> Self {
        Self(value.as_ref())
    }
}

impl<K: KeyPart> KeyPart for OptionalPart<'_, K> {
    fn encode(&self, key: &mut KeyWriter) {
        match self.0 {
            Some(part) => part.encode(key),
            None => key.absent_part(false),
        }
    }
}

impl<T: HasFloats + ?Sized> FloatField<'_, T> {
    /// Reports floats.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T: ExactField,
    {
        &()
    }
}

impl<T: Unordered + ?Sized> UnorderedField<'_, T> {
    /// Reports a collection without an order.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T: OrderedField,
    {
        &()
    }
}

impl<T: HasOptions + ?Sized> OptionsField<'_, T> {
    /// Reports an `Option` inside of another type.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T::Option: PresentField,
    {
        &()
    }
}

impl<T: IsOsText + ?Sized> OsTextField<'_, T> {
    /// Reports a text of the operating system.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T: TextField,
    {
        &()
    }
}

impl<T: IsSequence + ?Sized> InmostField<'_, T>
where
    T::Element: IsSequence<Element: IsSequence>,
{
    /// Reports the type of the elements of elements of elements.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        Element<Element<Element<T>>>: KeyPart,
    {
        &()
    }
}

impl<T: IsSequence<Element: IsSequence> + ?Sized> InnerField<'_, T> {
    /// Reports the type of the elements of elements.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        Element<Element<T>>: KeyPart,
    {
        &()
    }
}

impl<T: IsSequence + ?Sized> ElementField<'_, T> {
    /// Reports the type of the elements.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        Element<T>: KeyPart,
    {
        &()
    }
}

impl<K: IsSequence> OptionalElementField<'_, Option<K>> {
    /// Reports the type of the elements inside of an `Option`.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        Element<K>: KeyPart,
    {
        &()
    }
}

impl<K> OptionalOtherField<'_, Option<K>> {
    /// Reports the type inside of an `Option`.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        K: KeyPart,
    {
        &()
    }
}

impl<T: ?Sized> OtherField<'_, T> {
    /// Reports any other type.
    pub fn __idempotent_part(&self) -> &'static ()
    where
        T: KeyPart,
    {
        &()
    }
}

/// Types with a text, which is their part of a key.
#[diagnostic::on_unimplemented(
    message = "`#[key_part(display)]` needs `Display`, which `{Self}` lacks",
    label = "has no text of its own",
    note = "remove `#[key_part(display)]`, and add `#[derive(idempotent_runtime::KeyPart)]` to `{Self}`",
    note = "or add an `impl std::fmt::Display for {Self}`, whose text is another one for every other value"
)]
pub trait HasText {}

#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> HasText for T {}

/// A value whose key part is the text that it displays.
#[derive(Debug)]
pub struct Displayed<'a, T: ?Sized>(&'a T);

impl<T: fmt::Display + ?Sized> KeyPart for Displayed<'_, T> {
    fn encode(&self, key: &mut KeyWriter) {
        key.display(self.0);
    }
}

first_that_applies!(Display OptionalDisplay OptionDisplay OtherDisplay);

/// A field with `#[key_part(display)]`.
pub fn display<T: ?Sized>(value: &T) -> Display<'_, T> {
    Display::new(value)
}

impl<'a, T: fmt::Display + ?Sized> Display<'a, T> {
    /// The text.
    pub fn __idempotent_part(&self) -> Displayed<'a, T> {
        Displayed(self.value())
    }

    /// The text of the only field of a newtype.
    pub fn __idempotent_newtype(&self) -> Displayed<'a, T> {
        Displayed(self.value())
    }
}

impl<'a, T: fmt::Display> OptionalDisplay<'a, Option<T>> {
    /// The text that may be missing.
    pub fn __idempotent_part(&self) -> OptionalDisplayed<'a, T> {
        OptionalDisplayed(self.value().as_ref())
    }
}

impl<T> OptionDisplay<'_, Option<T>> {
    /// Reports the type inside of an `Option`.
    pub fn __idempotent_part(&self)
    where
        T: HasText,
    {
    }
}

impl<T: ?Sized> OtherDisplay<'_, T> {
    /// Reports any other type.
    pub fn __idempotent_part(&self)
    where
        T: HasText,
    {
    }

    /// Reports any other type.
    pub fn __idempotent_newtype(&self)
    where
        T: HasText,
    {
    }
}

/// A text that may be missing. It is written only into groups.
#[derive(Debug)]
pub struct OptionalDisplayed<'a, T>(Option<&'a T>);

impl<T: fmt::Display> KeyPart for OptionalDisplayed<'_, T> {
    fn encode(&self, key: &mut KeyWriter) {
        match self.0 {
            Some(value) => key.display(value),
            None => key.absent_part(false),
        }
    }
}
