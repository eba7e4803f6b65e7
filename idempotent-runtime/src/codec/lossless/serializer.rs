//! The serializer: every method checks the context, then delegates to the format's own serializer.

use super::compound::{Compound, MapCompound};
use super::keys::Keys;
use super::{Context, Format, Refusal};
use serde::{Serialize, Serializer};
use std::cell::Cell;
use std::fmt::{Debug, Display};

/// Serializer that writes as `inner` does, and fails on values that the format `F` cannot tell
/// apart.
pub(in crate::codec) struct Lossless<'a, S, F> {
    pub(super) inner: S,
    pub(super) context: Context<'a, F>,
}

impl<'a, S, F: Format> Lossless<'a, S, F> {
    /// Wraps a serializer. The reason for a refusal is stored in `refused`.
    pub(in crate::codec) fn new(inner: S, refused: &'a Cell<Option<Refusal>>) -> Self {
        Self { inner, context: Context::new(refused) }
    }
}

impl<'a, S: Serializer, F: Format> Lossless<'a, S, F> {
    /// The context of a value `levels` deeper.
    fn enter(&self, kind: u8, levels: u8) -> Result<Context<'a, F>, S::Error> {
        self.context.feed(kind, b"");
        self.context.deeper(levels)
    }
}

macro_rules! leaf {
    ($($method:ident($type:ty) $kind:literal;)*) => {$(
        fn $method(self, value: $type) -> Result<S::Ok, S::Error> {
            self.context.feed_text($kind, &value as &dyn Debug);
            self.inner.$method(value)
        }
    )*};
}

impl<'a, S: Serializer, F: Format> Serializer for Lossless<'a, S, F> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Compound<'a, S::SerializeSeq, F>;
    type SerializeTuple = Compound<'a, S::SerializeTuple, F>;
    type SerializeTupleStruct = Compound<'a, S::SerializeTupleStruct, F>;
    type SerializeTupleVariant = Compound<'a, S::SerializeTupleVariant, F>;
    type SerializeMap = MapCompound<'a, S::SerializeMap, F>;
    type SerializeStruct = Compound<'a, S::SerializeStruct, F>;
    type SerializeStructVariant = Compound<'a, S::SerializeStructVariant, F>;

    leaf! {
        serialize_bool(bool) b'b';
        serialize_i8(i8) b'i';
        serialize_i16(i16) b'i';
        serialize_i32(i32) b'i';
        serialize_i64(i64) b'i';
        serialize_i128(i128) b'I';
        serialize_u8(u8) b'i';
        serialize_u16(u16) b'i';
        serialize_u32(u32) b'i';
        serialize_u64(u64) b'i';
        serialize_u128(u128) b'I';
    }

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.context.float(f64::from(value), &value.to_be_bytes())?;
        self.inner.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        self.context.float(value, &value.to_be_bytes())?;
        self.inner.serialize_f64(value)
    }

    fn serialize_char(self, value: char) -> Result<S::Ok, S::Error> {
        self.context.feed(b's', value.encode_utf8(&mut [0; 4]).as_bytes());
        self.inner.serialize_char(value)
    }

    fn serialize_str(self, value: &str) -> Result<S::Ok, S::Error> {
        self.context.feed(b's', value.as_bytes());
        self.inner.serialize_str(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<S::Ok, S::Error> {
        self.context.feed(b'x', value);
        self.inner.serialize_bytes(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.context.null()?;
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let context = self.context.in_some();
        self.inner.serialize_some(&context.nested(value))
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.context.null()?;
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        match F::UNIT_STRUCT_IS_NULL {
            true => self.context.null()?,
            false => self.context.feed(b'u', b""),
        }
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.context.feed(b's', variant.as_bytes());
        self.inner.serialize_unit_variant(name, index, variant)
    }

    /// A newtype struct is written as its content, so that a null inside it is a null of the whole.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(name, &self.context.nested(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let context = self.enter(b'v', 1)?;
        context.feed(b's', variant.as_bytes());
        self.inner.serialize_newtype_variant(name, index, variant, &context.nested(value))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        let context = self.enter(b'[', 1)?;
        Ok(Compound { inner: self.inner.serialize_seq(length)?, context })
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        let context = self.enter(b'[', 1)?;
        Ok(Compound { inner: self.inner.serialize_tuple(length)?, context })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        let context = self.enter(b'[', 1)?;
        Ok(Compound { inner: self.inner.serialize_tuple_struct(name, length)?, context })
    }

    /// A list inside a map with one entry.
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let context = self.enter(b'v', 2)?;
        context.feed(b's', variant.as_bytes());
        let inner = self.inner.serialize_tuple_variant(name, index, variant, length)?;
        Ok(Compound { inner, context })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let context = self.enter(b'{', 1)?;
        let keys = Keys::default();
        Ok(MapCompound { inner: self.inner.serialize_map(length)?, context, keys })
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        let context = self.enter(b'{', 1)?;
        Ok(Compound { inner: self.inner.serialize_struct(name, length)?, context })
    }

    /// A map inside a map with one entry.
    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let context = self.enter(b'v', 2)?;
        context.feed(b's', variant.as_bytes());
        let inner = self.inner.serialize_struct_variant(name, index, variant, length)?;
        Ok(Compound { inner, context })
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        if self.context.key.is_some() {
            return self.serialize_str(&value.to_string());
        }
        self.inner.collect_str(value)
    }

    /// Same as the inner serializer, because types such as addresses and times choose their form by
    /// it.
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
