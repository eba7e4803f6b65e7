//! Decoders of bytes from outside, and the properties that they have for any bytes.
//!
//! Each function panics if a property does not hold, and returns `true` if the bytes were read. The
//! fuzz targets and the property tests call the same functions.

use crate::codec::{CodecError, Codecs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Reads the bytes of a record.
pub fn record(bytes: &[u8]) -> bool {
    crate::store::wire::is_sound(bytes)
}

/// Reads a stored value: the byte of its codec, then the codec's own bytes.
pub fn stored_value(bytes: &[u8]) -> bool {
    type Typed = (String, Option<i64>, Vec<u8>, BTreeMap<String, bool>);
    #[cfg(feature = "encryption")]
    {
        let encryption = crate::codec::Encryption::new(0, [7; 32]).allow_plain();
        if let Ok(plain) = encryption.open(bytes, b"k") {
            assert_eq!(plain, bytes, "nobody can seal without the key");
        }
    }
    comes_back::<serde_json::Value>(bytes) | comes_back::<Typed>(bytes)
}

/// Reads a value of this type, and checks that writing and reading it again changes nothing.
fn comes_back<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> bool {
    let codecs = Codecs::default();
    #[cfg(feature = "msgpack")]
    let codecs = match bytes.first() {
        Some(&crate::codec::id::MESSAGE_PACK) => {
            codecs.writing_with(crate::codec::MessagePack).expect("it is built in")
        }
        _ => codecs,
    };
    let read = |bytes: &[u8]| codecs.decode::<T>(bytes).map_err(not_a_panic);
    let write = |value: &T| codecs.encode(value).map_err(not_a_panic);
    let Ok(value) = read(bytes) else { return false };
    let written = write(&value).expect("what was read can be written");
    let again = read(&written).expect("what was written can be read");
    assert_eq!(write(&again).expect("what was read can be written"), written);
    true
}

/// Fails the test if the error is a caught panic of a codec.
fn not_a_panic(error: CodecError) -> CodecError {
    assert!(!error.to_string().ends_with("panicked"), "{error}");
    error
}
