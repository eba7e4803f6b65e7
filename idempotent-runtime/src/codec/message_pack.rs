//! MessagePack: binary, and smaller than JSON.

use std::cell::Cell;
use std::io::Cursor;

use rmp_serde::decode::ReadReader;
use serde::{Serialize, de::DeserializeOwned};

use super::lossless::{Format, Lossless, MAX_DEPTH};
use super::{Codec, CodecError, Decode, Encode, id};

/// MessagePack codec. Field names are written, so that fields can be added and reordered.
///
/// A value that MessagePack cannot hold is refused, and recorded as succeeded without its value: a
/// `Some` whose content is written as nil, as `Some(None)` and `Some(())` are; a map in which two
/// keys are written alike; a value that nests deeper than 127. Floats and keys may be of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessagePack;

pub(super) const NAME: &str = "message-pack";

impl Codec for MessagePack {
    fn id(&self) -> u8 {
        id::MESSAGE_PACK
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(&self, value: Encode<'_>) -> Result<Vec<u8>, CodecError> {
        let mut out = Vec::new();
        write(&value, &mut out)?;
        Ok(out)
    }

    fn decode(&self, bytes: &[u8], into: Decode<'_>) -> Result<(), CodecError> {
        let mut reader = reader(bytes);
        into.deserialize(&mut reader).map_err(unreadable)?;
        expect_end(reader.position(), bytes)
    }
}

/// Appends a value to `out`.
pub(super) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let refused = Cell::new(None);
    let mut packed = rmp_serde::Serializer::new(out).with_struct_map();
    let written = value.serialize(Lossless::<_, MessagePack>::new(&mut packed, &refused));
    match refused.take() {
        Some(refusal) => {
            Err(CodecError::text(format!("value has no form in message-pack: {refusal}")))
        }
        None => {
            written.map_err(|error| CodecError::because("value has no form in message-pack", error))
        }
    }
}

impl Format for MessagePack {
    const HOLDS_NON_FINITE: bool = true;
    const UNIT_STRUCT_IS_NULL: bool = false;
    const KEYS_ARE_TEXT: bool = false;
}

/// Reads exactly one value.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut reader = reader(bytes);
    let value = T::deserialize(&mut reader).map_err(unreadable)?;
    expect_end(reader.position(), bytes)?;
    Ok(value)
}

type Reader<'a> = rmp_serde::Deserializer<ReadReader<Cursor<&'a [u8]>>>;

fn reader(bytes: &[u8]) -> Reader<'_> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
    // The reader's own limit is too deep for the stack of a thread.
    reader.set_max_depth(usize::from(MAX_DEPTH) + 1);
    reader
}

fn unreadable(error: rmp_serde::decode::Error) -> CodecError {
    CodecError::because("stored message-pack does not fit the type, or is damaged", error)
}

/// Fails if bytes follow the value, which the reader itself does not notice.
fn expect_end(position: u64, bytes: &[u8]) -> Result<(), CodecError> {
    match (bytes.len() as u64).saturating_sub(position) {
        0 => Ok(()),
        left => Err(CodecError::text(format!(
            "stored message-pack has {left} bytes left after the value"
        ))),
    }
}
