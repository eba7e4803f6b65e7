//! Encryption of stored values, bound to the record that they belong to.
//!
//! A sealed value is `[0x7f][key id, 4 bytes][nonce, 24 bytes][ciphertext and tag]`. The tag also
//! covers the key id and the bytes that the value is bound to, so that a value copied to another
//! record does not open.

use std::{collections::BTreeMap, fmt};

use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use rand::{TryRng, rngs::SysRng};

use super::{CodecError, id};

const DOMAIN: &[u8] = b"idempotent-runtime sealed value, version 1";
const KEY_ID: usize = 4;
const NONCE: usize = 24;
const TAG: usize = 16;
const HEADER: usize = 1 + KEY_ID + NONCE;

/// Encrypts stored values with XChaCha20-Poly1305, under keys that can be rotated.
///
/// Values are bound to their record: an attacker who can write to the store can remove or repeat an
/// answer of the same record, but cannot read, change or move one.
///
/// ```
/// use idempotent_runtime::codec::Encryption;
///
/// # fn secret(_: &str) -> [u8; 32] { [7; 32] }
/// # fn other_secret(_: &str) -> [u8; 32] { [8; 32] }
/// # let (current, previous) = (secret("a"), other_secret("b"));
/// let encryption = Encryption::new(2, current).and_key(1, previous)?;
/// # Ok::<(), idempotent_runtime::codec::CodecError>(())
/// ```
///
/// The key must be 32 random bytes from a secret store, not a password.
///
/// # Turning it on
/// 1. Deploy everywhere with the key and [`allow_plain`](Self::allow_plain). A process that does
///    not have the key yet answers `Undecodable` for values that others encrypted; it never runs
///    the body instead.
/// 2. Wait for the longest `expire` to pass, so that no plain value is left.
/// 3. Deploy without `allow_plain`. Until then, an attacker who can write to the store can plant an
///    answer.
///
/// Encryption cannot be turned off without losing answers: a process without the key cannot read
/// them until they have expired.
///
/// # Rotating the key
/// 1. Deploy everywhere with `new(1, old).and_key(2, fresh)`: still written with 1, and 2 can be
///    read.
/// 2. Deploy everywhere with `new(2, fresh).and_key(1, old)`.
/// 3. After the longest `expire`, drop key 1.
///
/// A key id must never be given to another key.
#[derive(Clone)]
pub struct Encryption {
    sealing: u32,
    // The cipher wipes its key from memory when it is dropped.
    keys: BTreeMap<u32, XChaCha20Poly1305>,
    allow_plain: bool,
}

impl Encryption {
    /// Encrypts and decrypts with this key.
    pub fn new(key_id: u32, key: [u8; 32]) -> Self {
        let keys = BTreeMap::from([(key_id, XChaCha20Poly1305::new(&key.into()))]);
        Self { sealing: key_id, keys, allow_plain: false }
    }

    /// Adds a key for decryption only.
    ///
    /// # Errors
    /// There is already a key with this id.
    pub fn and_key(mut self, key_id: u32, key: [u8; 32]) -> Result<Self, CodecError> {
        if self.keys.contains_key(&key_id) {
            return Err(CodecError::text(format!(
                "encryption key id {key_id} is given twice; give each key an id of its own"
            )));
        }
        self.keys.insert(key_id, XChaCha20Poly1305::new(&key.into()));
        Ok(self)
    }

    /// Reads values that were stored without encryption, while it is being turned on.
    #[must_use]
    pub fn allow_plain(mut self) -> Self {
        self.allow_plain = true;
        self
    }

    /// Encrypts a value that can only be opened with the same `bound_to`.
    pub(crate) fn seal(&self, plain: &[u8], bound_to: &[u8]) -> Result<Vec<u8>, CodecError> {
        let mut nonce = XNonce::default();
        // The system's generator and not a thread-local one: a copy of the process, by fork or
        // snapshot, must not repeat a nonce.
        SysRng
            .try_fill_bytes(&mut nonce)
            .map_err(|error| CodecError::because("no random bytes to encrypt the value", error))?;
        let mut sealed = Vec::with_capacity(HEADER + plain.len() + TAG);
        sealed.push(id::SEALED);
        sealed.extend_from_slice(&self.sealing.to_be_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let tag = self.keys[&self.sealing]
            .encrypt_inout_detached(
                &nonce,
                &associated(self.sealing, bound_to),
                (&mut sealed[HEADER..]).into(),
            )
            .map_err(|_| CodecError::text("value is too large to encrypt"))?;
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// Decrypts what [`seal`](Self::seal) returned. A plain value is refused, or passed through if
    /// that is allowed.
    pub(crate) fn open(&self, stored: &[u8], bound_to: &[u8]) -> Result<Vec<u8>, CodecError> {
        if stored.first() != Some(&id::SEALED) {
            return if self.allow_plain {
                Ok(stored.to_vec())
            } else {
                Err(CodecError::text(
                    "stored value is not encrypted, and plain values are not allowed",
                ))
            };
        }
        let cut_short = || CodecError::text("stored value is encrypted and cut short");
        let (key_id, rest) = stored[1..].split_first_chunk::<KEY_ID>().ok_or_else(cut_short)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>().ok_or_else(cut_short)?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG>().ok_or_else(cut_short)?;
        let key_id = u32::from_be_bytes(*key_id);
        let cipher = self.keys.get(&key_id).ok_or_else(|| {
            CodecError::text(format!("stored value is encrypted with the unknown key id {key_id}"))
        })?;
        let mut plain = ciphertext.to_vec();
        cipher
            .decrypt_inout_detached(
                &XNonce::from(*nonce),
                &associated(key_id, bound_to),
                plain.as_mut_slice().into(),
                &Tag::from(*tag),
            )
            .map_err(|_| {
                CodecError::text(format!(
                    "stored value failed authentication under key id {key_id}: it was changed, \
                     belongs to another record, or the key differs"
                ))
            })?;
        Ok(plain)
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("sealing", &self.sealing)
            .field("key_ids", &self.keys.keys().collect::<Vec<_>>())
            .field("allow_plain", &self.allow_plain)
            .finish_non_exhaustive()
    }
}

/// Associated data, which the tag covers beside the value. Lengths go first, so that no two inputs
/// give the same bytes.
fn associated(key_id: u32, bound_to: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(DOMAIN.len() + bound_to.len() + 8 + KEY_ID + 8);
    data.extend_from_slice(&(DOMAIN.len() as u64).to_be_bytes());
    data.extend_from_slice(DOMAIN);
    data.extend_from_slice(&key_id.to_be_bytes());
    data.extend_from_slice(&(bound_to.len() as u64).to_be_bytes());
    data.extend_from_slice(bound_to);
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RECORD: &[u8] = b"idempotent:token:orders.create:42";

    fn encryption() -> Encryption {
        Encryption::new(1, [1; 32])
    }

    fn refusal(result: Result<Vec<u8>, CodecError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_sealed_value_opens_and_does_not_show_itself() {
        let plain = b"\x01{\"card\":\"4111\"}";
        let sealed = encryption().seal(plain, RECORD).unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"4111"));
        assert_eq!(encryption().open(&sealed, RECORD).unwrap(), plain);
    }

    #[test]
    fn the_layout_is_frozen() {
        let sealed = Encryption::new(0x0102_0304, [1; 32]).seal(b"abc", RECORD).unwrap();
        assert_eq!(sealed[..5], [0x7f, 1, 2, 3, 4]);
        assert_eq!(sealed.len(), 1 + 4 + 24 + 3 + 16);
        let stored_earlier = concat!(
            "7f",
            "00000001",
            "d656397a797eebfbd8240ad8ffb650399448e53275675cc8",
            "6e43817b107393c8219ebca098936f811ee1acc2c972cb"
        );
        let stored_earlier: Vec<u8> = (0..stored_earlier.len() / 2)
            .map(|i| u8::from_str_radix(&stored_earlier[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(encryption().open(&stored_earlier, RECORD).unwrap(), b"\x01\"kept\"");
    }

    #[test]
    fn the_same_value_never_looks_the_same() {
        let first = encryption().seal(b"abc", RECORD).unwrap();
        assert_ne!(first, encryption().seal(b"abc", RECORD).unwrap());
    }

    #[test]
    fn a_value_moved_to_another_record_does_not_open() {
        let sealed = encryption().seal(b"abc", RECORD).unwrap();
        assert!(refusal(encryption().open(&sealed, b"another")).contains("failed authentication"));
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let sealed = encryption().seal(b"abc", RECORD).unwrap();
        for position in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[position / 8] ^= 1 << (position % 8);
            assert!(encryption().open(&changed, RECORD).is_err(), "bit {position}");
        }
        for length in 0..sealed.len() {
            assert!(encryption().open(&sealed[..length], RECORD).is_err(), "length {length}");
        }
    }

    #[test]
    fn older_keys_open_after_a_rotation() {
        let old = encryption();
        let rotated = Encryption::new(2, [2; 32]).and_key(1, [1; 32]).unwrap();
        let sealed = old.seal(b"abc", RECORD).unwrap();
        assert_eq!(rotated.open(&sealed, RECORD).unwrap(), b"abc");
        let sealed = rotated.seal(b"abc", RECORD).unwrap();
        assert_eq!(
            refusal(old.open(&sealed, RECORD)),
            "stored value is encrypted with the unknown key id 2"
        );
    }

    #[test]
    fn another_key_under_the_same_id_does_not_open() {
        let sealed = encryption().seal(b"abc", RECORD).unwrap();
        let other = Encryption::new(1, [9; 32]);
        assert!(refusal(other.open(&sealed, RECORD)).contains("failed authentication"));
    }

    #[test]
    fn the_key_id_is_authenticated_even_if_two_ids_share_a_key() {
        let both = encryption().and_key(2, [1; 32]).unwrap();
        let mut sealed = both.seal(b"abc", RECORD).unwrap();
        sealed[4] = 2;
        assert!(both.open(&sealed, RECORD).is_err());
    }

    #[test]
    fn a_key_id_given_twice_is_refused() {
        let error = encryption().and_key(1, [2; 32]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "encryption key id 1 is given twice; give each key an id of its own"
        );
    }

    #[test]
    fn plain_values_are_read_only_when_allowed() {
        let plain = b"\x01\"abc\"";
        assert!(refusal(encryption().open(plain, RECORD)).contains("is not encrypted"));
        assert!(refusal(encryption().open(b"", RECORD)).contains("is not encrypted"));
        assert_eq!(encryption().allow_plain().open(plain, RECORD).unwrap(), plain);
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", Encryption::new(3, [0xAB; 32]));
        assert_eq!(shown, "Encryption { sealing: 3, key_ids: [3], allow_plain: false, .. }");
    }

    proptest! {
        #[test]
        fn any_value_opens_under_what_it_is_bound_to(
            plain in prop::collection::vec(any::<u8>(), 0..300),
            bound_to in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let sealed = encryption().seal(&plain, &bound_to).unwrap();
            prop_assert_eq!(encryption().open(&sealed, &bound_to).unwrap(), plain);
        }

        #[test]
        fn damaged_bytes_never_panic(stored in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut stored = stored;
            let _ = encryption().open(&stored, RECORD);
            stored.insert(0, id::SEALED);
            prop_assert!(encryption().open(&stored, RECORD).is_err());
        }
    }
}
