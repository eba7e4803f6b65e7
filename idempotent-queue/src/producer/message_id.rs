//! Ids of messages: a function of destination and business id, and of nothing else.
//!
//! Brokers and receivers store them, so the function is frozen.

use idempotent_runtime::key::Encoded;
use sha2::{Digest, Sha256};

/// Domain separator against other uses of SHA-256 on the same text.
const DOMAIN: &[u8] = b"idempotent message id 1\0";

/// The id: 128 bits of a SHA-256, as 32 lower-case hexadecimal digits.
///
/// The digits have one case, because some brokers compare ids without regard to case.
pub(super) fn message_id(destination: &str, business_id: &Encoded) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::new_with_prefix(DOMAIN)
        // The length goes first, so that no part of the destination can pass for a part of the id.
        .chain_update((destination.len() as u64).to_be_bytes())
        .chain_update(destination)
        .chain_update(business_id.as_str())
        .finalize();
    let nibbles = digest[..16].iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::KeyPart;

    fn id(destination: &str, business_id: impl KeyPart) -> String {
        message_id(destination, &Encoded::of(&business_id))
    }

    #[test]
    fn ids_are_frozen() {
        assert_eq!(id("orders", 42), "91728cd09965d38785f2882d575e58ff");
        assert_eq!(id("orders", "42"), "30c6bb9cde321e32d1aff02534cf297f");
        assert_eq!(id("shop.orders", ("acme", 42)), "8201ff5aef0c3950f7ef5bd267b50fb1");
    }

    #[test]
    fn a_business_id_cannot_continue_a_destination() {
        assert_ne!(id("orders", 42), id("orders4", 2));
        assert_ne!(id("a", ("b", 1)), id("a", ("b", "1")));
    }
}
