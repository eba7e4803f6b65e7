//! JSON, the default codec.

use serde::{Serialize, de::DeserializeOwned};

use super::{Codec, CodecError, Decode, Encode, id};

/// Values as JSON: readable in the store, and tolerant of added fields.
///
/// JSON has no form for maps whose keys are neither text nor numbers; such a value is recorded as
/// succeeded without its value. `NaN` and infinities are written as `null`, `Some(None)` reads
/// back as `None`, and a value nested more than 127 deep cannot be read back.
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

/// Appends a value.
pub(super) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    serde_json::to_writer(out, value)
        .map_err(|error| CodecError::because("value has no form in json", error))
}

/// Reads exactly one value.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// Says where, and leaves out what serde quotes from the value.
fn unreadable(error: serde_json::Error) -> CodecError {
    let what = match error.classify() {
        serde_json::error::Category::Data => "stored json does not fit the type",
        serde_json::error::Category::Eof => "stored json is cut short",
        _ => "stored value is not json",
    };
    let text = format!("{what}, at line {} column {}", error.line(), error.column());
    CodecError::because(text, error)
}
