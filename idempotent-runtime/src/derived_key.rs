//! Keys for the requests that a body sends to other services: derived from the key of its attempt.
//!
//! A derived key depends on the record's key and a name, and on nothing else: not on the attempt's
//! number, the process or the time. Other services store it, so the function is frozen.

use crate::key::{RecordKey, hex};
use sha2::{Digest, Sha256};

/// Domain separator against other uses of SHA-256 on the same text.
const DOMAIN: &[u8] = b"idempotent derived key 1\0";

/// Derives a key: 128 bits of a SHA-256, as 32 lower-case hexadecimal digits.
///
/// The digits have one case, because some services compare keys without regard to case.
pub(crate) fn derive(key: &RecordKey, name: &str) -> String {
    let key = key.as_str().as_bytes();
    let digest = Sha256::new_with_prefix(DOMAIN)
        // The length goes first, so that no part of the key can pass for a part of the name.
        .chain_update((key.len() as u64).to_be_bytes())
        .chain_update(key)
        .chain_update(name)
        .finalize();
    hex(&digest[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Scope;

    fn key(operation: &str, scope: Scope<'_>, key: &str) -> RecordKey {
        RecordKey::compose("p:", operation, scope, key).unwrap()
    }

    #[test]
    fn the_text_is_frozen() {
        let plain = key("orders.create", Scope::default(), "42");
        assert_eq!(derive(&plain, "stripe.charge"), "8d7a25cf1362f79321db2122ed956397");
        let scoped = key("orders.create", Scope { ambient: "\"acme\"", own: "7" }, "42");
        assert_eq!(derive(&scoped, "stripe.charge"), "5d2374bbd7e0fcd777b5bfb30bf1aee8");
    }

    #[test]
    fn a_name_cannot_continue_a_key() {
        let derived = |key: &str, name: &str| derive(&RecordKey::from(key), name);
        assert_ne!(derived("p:|o|4", "2name"), derived("p:|o|42", "name"));
        assert_ne!(derived("p:|o|42name", ""), derived("p:|o|42", "name"));
    }
}
