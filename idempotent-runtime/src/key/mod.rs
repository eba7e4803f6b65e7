//! Keys: key parts, their encoding, and the record key built from them.
//!
//! The encoding is injective. Two different operations, scopes, tuples or templates never give the
//! same record key, whatever characters their parts contain. The text stays readable, so that an
//! operator can recognise a key in the store.

mod crates;
mod encoded;
mod impls;
mod json;
mod number;
mod parse;
mod record_key;
mod time;
mod writer;

pub(crate) use encoded::Origin;
pub use encoded::{Encoded, Parts};
pub use parse::InvalidRecordKey;
pub(crate) use parse::RecordParts;
pub use record_key::RecordKey;
pub(crate) use record_key::{InvalidKey, MAX_KEY_BYTES, Scope, hex, written_name, written_part};
pub(crate) use writer::spare;
pub use writer::{Group, KeyWriter};

/// A value that can be a key, a scope or a fingerprint, or a part of one.
///
/// Implemented for strings, characters, integers, booleans, tuples, arrays, slices, vectors,
/// ordered maps and sets, IP addresses, `Duration`, `SystemTime`, `serde_json::Value`,
/// [`Fingerprint`](crate::Fingerprint), and references or smart pointers to those. Structs and enums
/// get it with `#[derive(KeyPart)]`.
///
/// Types of other crates have it with the feature of their crate: `uuid`, `chrono`, `time`, `jiff`,
/// `bytes`, `rust_decimal`. The [derive](derive@crate::KeyPart) lists their texts.
///
/// Not implemented for floats (equal amounts may differ in their last bit), unordered collections
/// (their order changes from run to run) and `Option` (all calls without a value would share one
/// key; end the path with `?` to refuse them instead). A field of a struct may be an `Option`:
/// [`Group::optional`] writes it.
///
/// # Implementing
///
/// The derive writes the fields:
///
/// ```
/// #[derive(idempotent_runtime::KeyPart)]
/// struct Price { cents: u64, currency: String }
/// ```
///
/// An implementation by hand MUST write equal values equally and different values differently, MUST NOT
/// depend on the platform, the process or time, and SHOULD write exactly one atom or group.
///
/// ```
/// use idempotent_runtime::key::{KeyPart, KeyWriter};
///
/// struct Money { cents: u64, currency: [u8; 3] }
///
/// impl KeyPart for Money {
///     fn encode(&self, key: &mut KeyWriter) {
///         key.tuple().part(&self.cents).part(&self.currency);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key or a fingerprint",
    label = "not a key part",
    note = "if `{Self}` is a type of your own, add `#[derive(idempotent_runtime::KeyPart)]` to it, or name the fields that \
            tell two calls apart",
    note = "for a type of another crate: turn on the feature of `idempotent-runtime` with its name, such as `uuid` or \
            `chrono`; else end the path with `.to_string()`, or add `#[key_part(display)]` or `#[key_part(skip)]` to \
            the field"
)]
pub trait KeyPart {
    /// Writes this value into `key`, most simply as a tuple of its fields:
    ///
    /// ```
    /// use idempotent_runtime::KeyPart;
    ///
    /// struct Money { cents: u64, currency: String }
    ///
    /// impl KeyPart for Money {
    ///     fn encode(&self, key: &mut idempotent_runtime::key::KeyWriter) {
    ///         (self.cents, &self.currency).encode(key);
    ///     }
    /// }
    /// ```
    fn encode(&self, key: &mut KeyWriter);
}
