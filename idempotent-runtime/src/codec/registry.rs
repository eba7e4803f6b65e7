//! The codecs of one instance: one for writing, and all that can be read.
//!
//! The built-in codecs are called with the static type, because every call passes here. Only codecs
//! of users go through a trait object.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{Codec, CodecError, Encode, Json, erased::Slot, id, json};
#[cfg(feature = "msgpack")]
use super::{MessagePack, message_pack};

/// The codecs of an instance. By default it writes JSON and reads every built-in format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codecs {
    active: Known,
    others: Vec<Custom>,
}

#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    Json,
    #[cfg(feature = "msgpack")]
    MessagePack,
    Custom(Custom),
}

/// A user's codec, and the id that it had when it was registered.
#[derive(Clone, Debug)]
struct Custom {
    id: u8,
    codec: Arc<dyn Codec>,
}

impl Codecs {
    /// Sets the codec for writing. Values of the previous one can still be read.
    pub(crate) fn writing_with<C: Codec>(mut self, codec: C) -> Result<Self, CodecError> {
        let codec = Known::of(codec)?;
        if let Known::Custom(custom) = &codec {
            self.expect_free(custom)?;
        }
        if let Known::Custom(before) = std::mem::replace(&mut self.active, codec) {
            self.others.push(before);
        }
        Ok(self)
    }

    /// Adds a codec for reading.
    pub(crate) fn and_reading<C: Codec>(mut self, codec: C) -> Result<Self, CodecError> {
        if let Known::Custom(custom) = Known::of(codec)? {
            self.expect_free(&custom)?;
            self.others.push(custom);
        }
        Ok(self)
    }

    fn expect_free(&self, wanted: &Custom) -> Result<(), CodecError> {
        match self.customs().find(|known| known.id == wanted.id) {
            None => Ok(()),
            Some(known) => Err(CodecError::text(format!(
                "codecs `{}` and `{}` both have id {:#04x}; give one of them another",
                known.codec.name(),
                wanted.codec.name(),
                wanted.id,
            ))),
        }
    }

    fn customs(&self) -> impl Iterator<Item = &Custom> {
        let active = match &self.active {
            Known::Custom(custom) => Some(custom),
            _ => None,
        };
        active.into_iter().chain(&self.others)
    }

    /// Encodes a value: the id of the codec, followed by its output.
    pub(crate) fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        match &self.active {
            Known::Json => caught(ENCODING, json::NAME, || {
                let mut out = started(id::JSON);
                json::write(value, &mut out)?;
                Ok(out)
            }),
            #[cfg(feature = "msgpack")]
            Known::MessagePack => caught(ENCODING, message_pack::NAME, || {
                let mut out = started(id::MESSAGE_PACK);
                message_pack::write(value, &mut out)?;
                Ok(out)
            }),
            Known::Custom(custom) => {
                let name = custom.codec.name();
                caught(ENCODING, name, || {
                    let mut out = custom
                        .codec
                        .encode(Encode::new(value))
                        .map_err(|error| custom_failed(name, "encode the value", error))?;
                    out.insert(0, custom.id);
                    Ok(out)
                })
            }
        }
    }

    /// Decodes a value of any known codec.
    pub(crate) fn decode<T: DeserializeOwned>(&self, stored: &[u8]) -> Result<T, CodecError> {
        let Some((&stored_id, payload)) = stored.split_first() else {
            return Err(CodecError::text("stored value is empty and names no codec"));
        };
        match stored_id {
            id::JSON => caught(DECODING, json::NAME, || json::read(payload)),
            #[cfg(feature = "msgpack")]
            id::MESSAGE_PACK => {
                caught(DECODING, message_pack::NAME, || message_pack::read(payload))
            }
            _ => match self.customs().find(|custom| custom.id == stored_id) {
                Some(custom) => decode_custom(custom.codec.as_ref(), payload),
                None => Err(unknown(stored_id)),
            },
        }
    }
}

impl Known {
    fn of<C: Codec>(codec: C) -> Result<Self, CodecError> {
        let any: &dyn Any = &codec;
        if any.is::<Json>() {
            return Ok(Self::Json);
        }
        #[cfg(feature = "msgpack")]
        if any.is::<MessagePack>() {
            return Ok(Self::MessagePack);
        }
        let id = codec.id();
        if id < id::FIRST_CUSTOM {
            let name = codec.name();
            return Err(CodecError::text(format!(
                "codec `{name}` has the reserved id {id:#04x}; accepted: 0x80 to 0xff"
            )));
        }
        Ok(Self::Custom(Custom { id, codec: Arc::new(codec) }))
    }
}

/// A buffer that starts with the codec's id, large enough for most values.
fn started(id: u8) -> Vec<u8> {
    let mut out = spare::take();
    out.push(id);
    out
}

/// A reusable buffer per thread, since every call that runs encodes a value.
pub(crate) mod spare {
    use std::cell::Cell;

    thread_local! {
        static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }

    pub(crate) fn take() -> Vec<u8> {
        let mut bytes = SPARE.take();
        bytes.clear();
        bytes.reserve(128);
        bytes
    }

    /// Gives back a buffer that is no longer needed.
    pub(crate) fn give_back(bytes: Vec<u8>) {
        if bytes.capacity() <= 4096 {
            SPARE.set(bytes);
        }
    }
}

/// Values that encode themselves.
pub(crate) mod own_bytes {
    use super::{CodecError, DECODING, ENCODING, caught, id, started};
    use crate::codec::StoredBytes;

    /// The name in errors.
    const NAME: &str = "bytes of its own";

    pub(crate) fn encode<T: StoredBytes>(value: &T) -> Result<Vec<u8>, CodecError> {
        caught(ENCODING, NAME, || {
            let mut out = started(id::BYTES);
            value.write_to(&mut out)?;
            Ok(out)
        })
    }

    pub(crate) fn decode<T: StoredBytes>(stored: &[u8]) -> Result<T, CodecError> {
        match stored.split_first() {
            Some((&id::BYTES, bytes)) => caught(DECODING, NAME, || T::from_bytes(bytes)),
            _ => Err(CodecError::new("the stored value was written by a codec")),
        }
    }
}

const ENCODING: &str = "encoding the value";
const DECODING: &str = "decoding the stored value";

/// Turns a panic of the user's code into an error.
fn caught<R>(
    doing: &str,
    codec: &str,
    work: impl FnOnce() -> Result<R, CodecError>,
) -> Result<R, CodecError> {
    // Unwind safe: after a panic the output is dropped, and the value was only borrowed for
    // reading.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(CodecError::panicked(doing, codec, payload.as_ref())))
}

fn decode_custom<T: DeserializeOwned>(codec: &dyn Codec, bytes: &[u8]) -> Result<T, CodecError> {
    let name = codec.name();
    caught(DECODING, name, || {
        let mut slot = Slot::empty();
        codec
            .decode(bytes, slot.as_decode())
            .map_err(|error| custom_failed(name, "decode the stored value", error))?;
        slot.into_value()
            .ok_or_else(|| CodecError::text(format!("codec `{name}` decoded no value")))
    })
}

fn custom_failed(name: &str, doing: &str, error: CodecError) -> CodecError {
    CodecError::because(format!("codec `{name}` could not {doing}"), error)
}

fn unknown(id: u8) -> CodecError {
    CodecError::text(match id {
        id::MESSAGE_PACK => "stored value is message-pack, and the feature `msgpack` is off".into(),
        id::SEALED => "stored value is encrypted, and no encryption is configured".into(),
        _ => format!("stored value has the unknown codec id {id:#04x}"),
    })
}

#[cfg(test)]
mod tests;
