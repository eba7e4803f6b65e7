//! Digest of a payload, which must not change under one key.

use crate::codec::{CodecError, json_value};
use crate::key::{Encoded, KeyPart, KeyWriter};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;

/// The digest of a call's payload: the first 128 bits of the SHA-256 of its encoding.
///
/// It depends on the encoded text alone, so it is the same on every platform and in every version.
///
/// ```
/// use idempotent_runtime::{Error, ErrorKind, Fingerprint, Idempotency};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let pay = |cents: u64| {
///     let payment = idem.operation("payments.create").key("p-1").fingerprint(Fingerprint::of(&cents));
///     payment.run(async { Ok::<(), Error>(()) })
/// };
/// pay(500).await?;
/// let refused = pay(900).await.unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Mismatch, "the key was used for another amount");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a part, as `fingerprint = ".."` takes it.
    pub fn of<K: KeyPart + ?Sized>(part: &K) -> Self {
        Self::of_encoded(&Encoded::of(part))
    }

    /// The fingerprint of anything that serializes: that of its JSON, with the members of objects
    /// sorted by name and numbers by their value. The order of a hash map makes no difference, and
    /// neither do spaces in the JSON that a payload was read from.
    ///
    /// In the attribute, a method of the payload returns it:
    ///
    /// ```
    /// use idempotent_runtime::{Error, ErrorKind, Fingerprint, idempotent};
    /// use std::collections::HashMap;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Order { id: u64, items: HashMap<String, f64> }
    ///
    /// impl Order {
    ///     fn payload(&self) -> Option<Fingerprint> {
    ///         Fingerprint::of_serialized(self).ok()
    ///     }
    /// }
    ///
    /// #[idempotent(key = "order.id", fingerprint = "order.payload()?", mode = "strong")]
    /// async fn create(order: Order) -> Result<u64, Error> { Ok(order.id) }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let order = |lamps| Order { id: 7, items: HashMap::from([("lamp".into(), lamps)]) };
    /// create(order(1.0)).await?;
    /// create(order(1.0)).await?;
    /// assert_eq!(create(order(2.0)).await.unwrap_err().kind(), ErrorKind::Mismatch);
    /// // `NaN` has no form in JSON. All payloads without a fingerprint count as one.
    /// let nameless = |lamps| Order { id: 8, ..order(lamps) };
    /// create(nameless(f64::NAN)).await?;
    /// create(nameless(f64::NAN)).await?;
    /// assert_eq!(create(nameless(1.0)).await.unwrap_err().kind(), ErrorKind::Mismatch);
    /// # Ok(()) }
    /// ```
    ///
    /// With `None`, the call still runs, and another one with `None` gets its answer. A method that
    /// returns the `Fingerprint` itself has to panic for such a payload, in the caller.
    ///
    /// # Errors
    /// The payload has no form in JSON that tells it from others, as [`Json`](crate::codec::Json)
    /// says: `NaN`, `Some(None)`, keys of maps that are not text; or its `Serialize` failed.
    pub fn of_serialized<T: Serialize + ?Sized>(payload: &T) -> Result<Self, CodecError> {
        Ok(Self::of(&json_value(payload)?))
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

/// As 32 hexadecimal digits.
#[diagnostic::do_not_recommend]
impl KeyPart for Fingerprint {
    fn encode(&self, key: &mut KeyWriter) {
        key.text(&crate::key::hex(&self.0));
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

    #[test]
    fn a_fingerprint_in_a_key_is_frozen() {
        let key = Encoded::of(&Fingerprint::of_bytes(b"payload"));
        assert_eq!(key.as_str(), r#""239f59ed55e737c77147cf55ad0c1b03""#);
    }

    #[test]
    fn equal_payloads_have_one_fingerprint_whatever_their_order_and_type() {
        use std::collections::{BTreeMap, HashMap};
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let hashed: HashMap<_, _> = names.into_iter().zip(0..).collect();
        let sorted: BTreeMap<_, _> =
            names.into_iter().zip([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).collect();
        let of =
            |payload: &dyn erased_serde::Serialize| Fingerprint::of_serialized(payload).unwrap();
        assert_eq!(of(&hashed), of(&sorted));
        let read: serde_json::Value =
            serde_json::from_str(r#"{"g":6,"f":5,"e":4,"d":3,"c":2,"b":1,"a":0}"#).unwrap();
        assert_eq!(of(&hashed), of(&read));
        assert_eq!(of(&read), Fingerprint::of(&read));
        assert_ne!(of(&0.1), of(&0.1_f64.next_up()));
    }

    #[test]
    fn a_payload_that_json_would_mistake_for_another_is_refused() {
        for payload in [f64::NAN, f64::INFINITY] {
            let error = Fingerprint::of_serialized(&payload).unwrap_err();
            assert!(error.to_string().contains("not finite"), "{error}");
        }
        assert!(Fingerprint::of_serialized(&Some(None::<u8>)).is_err());
    }
}
