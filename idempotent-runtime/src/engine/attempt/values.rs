//! From answers to stored bytes and back: codec, size limit, encryption.

use crate::codec::{CodecError, Codecs, spare};
use crate::key::RecordKey;
use crate::store::Value;
use std::fmt;

/// The kind of a stored answer, so that one cannot be passed off as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Value,
    Error,
}

/// The codecs and the encryption of an instance.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) codecs: Codecs,
    #[cfg(feature = "encryption")]
    pub(crate) encryption: Option<crate::codec::Encryption>,
}

/// The reason for which an answer is recorded without its value.
#[derive(Debug)]
pub(crate) enum NotKept {
    TooLarge { bytes: usize, limit: usize },
    Codec(CodecError),
}

impl fmt::Display for NotKept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(formatter, "it has {bytes} bytes, {limit} are allowed")
            }
            Self::Codec(error) => error.fmt(formatter),
        }
    }
}

impl Values {
    /// `true` if stored values are encrypted.
    #[cfg(feature = "redis")]
    pub(crate) fn encrypts(&self) -> bool {
        #[cfg(feature = "encryption")]
        return self.encryption.is_some();
        #[cfg(not(feature = "encryption"))]
        false
    }

    /// Encrypts, if so configured, and checks the size.
    pub(crate) fn keep(
        &self,
        kind: Kind,
        key: &RecordKey,
        encoded: Result<Vec<u8>, CodecError>,
        limit: usize,
    ) -> Result<Value, NotKept> {
        let bytes = encoded.map_err(NotKept::Codec)?;
        if bytes.len() > limit {
            return Err(NotKept::TooLarge { bytes: bytes.len(), limit });
        }
        #[cfg(feature = "encryption")]
        if let Some(encryption) = &self.encryption {
            let sealed = encryption.seal(&bytes, &bound_to(kind, key)).map_err(NotKept::Codec)?;
            return Ok(sealed.into());
        }
        let _ = (kind, key);
        let value = Value::from(bytes.as_slice());
        spare::give_back(bytes);
        Ok(value)
    }

    /// Decrypts, if so configured, and hands the encoded bytes to `decode`.
    pub(crate) fn read<T>(
        &self,
        kind: Kind,
        key: &RecordKey,
        stored: &Value,
        decode: impl FnOnce(&Codecs, &[u8]) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        #[cfg(feature = "encryption")]
        if let Some(encryption) = &self.encryption {
            let bytes = encryption.open(stored.as_bytes(), &bound_to(kind, key))?;
            return decode(&self.codecs, &bytes);
        }
        let _ = (kind, key);
        decode(&self.codecs, stored.as_bytes())
    }
}

#[cfg(feature = "encryption")]
fn bound_to(kind: Kind, key: &RecordKey) -> Vec<u8> {
    let kind: &[u8] = match kind {
        Kind::Value => b"value:",
        Kind::Error => b"error:",
    };
    [kind, key.as_str().as_bytes()].concat()
}
