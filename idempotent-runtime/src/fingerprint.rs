//! Digest of a payload, which must not change under one key.

use crate::key::{Encoded, KeyPart};
use sha2::{Digest, Sha256};
use std::fmt;

/// The digest of a call's payload: the first 128 bits of the SHA-256 of its encoding.
///
/// It depends on the encoded text alone, so it is the same on every platform and in every version.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a part, as `fingerprint = ".."` takes it.
    pub fn of<K: KeyPart + ?Sized>(part: &K) -> Self {
        Self::of_encoded(&Encoded::of(part))
    }

    /// The fingerprint of raw bytes, for adapters that compare whole messages.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::of_parts([bytes])
    }

    /// Like [`of_bytes`](Self::of_bytes), for bytes in several slices. The boundaries between the
    /// slices make no difference.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Self(short)
    }

    pub(crate) fn of_encoded(encoded: &Encoded) -> Self {
        Self::of_bytes(encoded.as_str().as_bytes())
    }

    /// The fingerprint's bytes, for stores.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// A fingerprint read back from a store.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Fingerprint({})", crate::key::hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_frozen() {
        let fingerprint = Fingerprint::of(&("EUR", 1299_u64));
        assert_eq!(format!("{fingerprint:?}"), "Fingerprint(63da2a6a93eb535046ba292b39d3b7ae)");
    }
}
