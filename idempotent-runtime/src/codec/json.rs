//! JSON, the default codec.

use std::cell::Cell;

use serde::{Serialize, de::DeserializeOwned};

use super::lossless::{Format, Lossless, Refusal};
use super::{Codec, CodecError, Decode, Encode, id};

/// JSON codec: readable in the store, and tolerant of added fields.
///
/// A value that JSON cannot hold is refused, and recorded as succeeded without its value:
///
/// - a `Some` whose content is written as `null`: `Some(None)`, `Some(())`, `Some` of a unit struct;
/// - floats that are not finite;
/// - maps whose keys are neither text, numbers, truth values nor unit variants, and maps in which
///   two keys are written alike;
/// - values that nest deeper than 127.
///
/// A value that is written reads back equal if the type's `Serialize` and `Deserialize` agree on
/// JSON. Some do not, and no serializer can tell: `#[serde(untagged)]` with variants that look
/// alike, `#[serde(flatten)]` around maps with keys that are not text, `#[serde(skip)]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

pub(super) const NAME: &str = "json";

impl Codec for Json {
    fn id(&self) -> u8 {
        id::JSON
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
        let mut json = serde_json::Deserializer::from_slice(bytes);
        into.deserialize(&mut json).map_err(unreadable)?;
        json.end().map_err(unreadable)
    }
}

/// Appends a value to `out`.
pub(super) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let mut json = serde_json::Serializer::new(out);
    written(|refused| value.serialize(Lossless::<_, Json>::new(&mut json, refused)))
}

/// The JSON of a value, without a text in between.
pub(crate) fn json_value<T: Serialize + ?Sized>(
    value: &T,
) -> Result<serde_json::Value, CodecError> {
    written(|refused| {
        value.serialize(Lossless::<_, Json>::new(serde_json::value::Serializer, refused))
    })
}

/// Runs a serializer that leaves its refusal in a cell.
fn written<R>(
    write: impl FnOnce(&Cell<Option<Refusal>>) -> Result<R, serde_json::Error>,
) -> Result<R, CodecError> {
    let refused = Cell::new(None);
    let written = write(&refused);
    match refused.take() {
        Some(refusal) => Err(CodecError::text(format!("value has no form in json: {refusal}"))),
        None => written.map_err(|error| CodecError::because("value has no form in json", error)),
    }
}

impl Format for Json {
    const HOLDS_NON_FINITE: bool = false;
    const UNIT_STRUCT_IS_NULL: bool = true;
    const KEYS_ARE_TEXT: bool = true;
}

/// Reads exactly one value.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// An error with the position only, without the parts of the value that serde quotes.
fn unreadable(error: serde_json::Error) -> CodecError {
    let what = match error.classify() {
        serde_json::error::Category::Data => "stored json does not fit the type",
        serde_json::error::Category::Eof => "stored json is cut short",
        _ => "stored value is not json",
    };
    let text = format!("{what}, at line {} column {}", error.line(), error.column());
    CodecError::because(text, error)
}
