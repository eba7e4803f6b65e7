//! Compound values: lists, structs and maps.

use super::keys::{KeyDigest, Keys};
use super::{Context, Format, Refusal};
use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

/// A list or a struct.
pub(in crate::codec) struct Compound<'a, C, F> {
    pub(super) inner: C,
    pub(super) context: Context<'a, F>,
}

macro_rules! list {
    ($($trait:ident $add:ident;)*) => {$(
        impl<C: $trait, F: Format> $trait for Compound<'_, C, F> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                self.inner.$add(&self.context.nested(value))
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.context.feed(b']', b"");
                self.inner.end()
            }
        }
    )*};
}

list! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! fields {
    ($($trait:ident)*) => {$(
        impl<C: $trait, F: Format> $trait for Compound<'_, C, F> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                self.context.feed(b'n', name.as_bytes());
                self.inner.serialize_field(name, &self.context.nested(value))
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(name)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.context.feed(b'}', b"");
                self.inner.end()
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

/// A map. Its keys are compared when it ends.
pub(in crate::codec) struct MapCompound<'a, C, F> {
    pub(super) inner: C,
    pub(super) context: Context<'a, F>,
    pub(super) keys: Keys,
}

impl<C: SerializeMap, F: Format> SerializeMap for MapCompound<'_, C, F> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        let digest = KeyDigest::new();
        // Shortens the lifetime: a key lives no longer than this call.
        let context: Context<'_, F> = self.context;
        self.inner.serialize_key(&context.in_key(&digest).nested(key))?;
        let hash = digest.finish();
        self.context.feed(b'k', &hash.to_ne_bytes());
        self.keys.add(hash);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&self.context.nested(value))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.context.feed(b'}', b"");
        if self.keys.repeat() {
            return Err(self.context.refuse(Refusal::RepeatedKey));
        }
        self.inner.end()
    }
}
