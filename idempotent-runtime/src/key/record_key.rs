//! The name of a record in the store: prefix, operation, scope and key, joined injectively.

use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Length above which an encoded key is stored as its SHA-256.
pub(super) const HASH_OVER_BYTES: usize = 512;
/// Start of a part that is replaced by its hash. No part can start with it and have no brace.
pub(super) const HASHED: &str = "#sha256:";
/// Length above which an encoded key is refused.
pub(crate) const MAX_KEY_BYTES: usize = 64 * 1024;

/// The name of one record: unique for (prefix, operation, scope, key).
///
/// `Debug` shows a hash, because keys may contain data that does not belong in a log.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey(Arc<str>);

/// Reason why a key cannot name a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidKey {
    TooLong { bytes: usize },
}

impl RecordKey {
    /// Joins the parts: `prefix|operation|key`, or `prefix|operation|ambient|own|key` with a scope.
    ///
    /// Prefix and operation are escaped where they hold a bar; scopes and key are encoded parts, in
    /// which a bare bar cannot occur outside quotes.
    pub(crate) fn compose(
        prefix: &str,
        operation: &str,
        scope: Scope<'_>,
        key: &str,
    ) -> Result<Self, InvalidKey> {
        if key.len() > MAX_KEY_BYTES {
            return Err(InvalidKey::TooLong { bytes: key.len() });
        }
        // Composed in a reused buffer, so that a key costs one allocation.
        SCRATCH.with_borrow_mut(|scratch| {
            let text = scratch.begin(prefix, operation);
            if !scope.is_empty() {
                push_part(text, scope.ambient);
                text.push('|');
                push_part(text, scope.own);
                text.push('|');
            }
            push_part(text, key);
            Ok(Self(text.as_str().into()))
        })
    }

    /// The key as the store holds it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same key with a hash tag, which puts all keys with that tag on one node of a cluster.
    /// `None` if `tag` is empty or contains a brace.
    pub(crate) fn with_hash_tag(&self, tag: &str) -> Option<Self> {
        (!tag.is_empty() && !tag.contains(['{', '}']))
            .then(|| Self(format!("{{{tag}}}{}", self.0).into()))
    }

    /// The hash tag that the key begins with, if any.
    #[cfg(feature = "redis")]
    pub(crate) fn hash_tag(&self) -> Option<&str> {
        hash_tag(&self.0)
    }

    /// The key shortened to 16 hexadecimal digits of its SHA-256, as logs show it.
    pub fn hashed(&self) -> String {
        hex(&Sha256::digest(self.0.as_bytes())[..8])
    }
}

impl From<&str> for RecordKey {
    /// Creates a key from its text in the store, for store implementations and tests. The text of an
    /// operator is checked by `parse`.
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RecordKey(#{})", self.hashed())
    }
}

/// The two parts of a scope, both encoded: the ambient one and the function's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scope<'a> {
    pub(crate) ambient: &'a str,
    pub(crate) own: &'a str,
}

impl Scope<'_> {
    fn is_empty(self) -> bool {
        self.ambient.is_empty() && self.own.is_empty()
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> =
        const { RefCell::new(Scratch { text: String::new(), plain: None }) };
}

/// A buffer for keys, which holds the last one that was composed in it.
struct Scratch {
    text: String,
    /// The lengths of the prefix and the operation that the text begins with, if neither was escaped.
    plain: Option<(usize, usize)>,
}

impl Scratch {
    /// The buffer with prefix and operation in it, each with its bar. They stay there from one key to the next: a thread
    /// mostly makes keys of the same few functions.
    fn begin(&mut self, prefix: &str, operation: &str) -> &mut String {
        let Self { text, plain } = self;
        let lengths = (prefix.len(), operation.len());
        let head = prefix.len() + operation.len() + 2;
        let is_there = |text: &str| {
            let operation_at = prefix.len() + 1;
            text.as_bytes().starts_with(prefix.as_bytes())
                && text.as_bytes()[operation_at..].starts_with(operation.as_bytes())
        };
        if *plain == Some(lengths) && is_there(text) {
            text.truncate(head);
            return text;
        }
        text.clear();
        push_name(text, prefix);
        text.push('|');
        push_name(text, operation);
        text.push('|');
        *plain = (text.len() == head).then_some(lengths);
        text
    }
}

/// The hash tag that a text begins with, as a cluster reads it.
pub(super) fn hash_tag(text: &str) -> Option<&str> {
    let (tag, _) = text.strip_prefix('{')?.split_once('}')?;
    (!tag.is_empty() && !tag.contains('{')).then_some(tag)
}

/// A prefix or an operation as a key holds it.
pub(crate) fn written_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    push_name(&mut text, name);
    text
}

/// An encoded scope or key as a key holds it.
pub(crate) fn written_part(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    push_part(&mut text, part);
    text
}

/// Appends a part. A long part is replaced by its hash, after a word that no part can start with.
fn push_part(text: &mut String, part: &str) {
    if part.len() > HASH_OVER_BYTES {
        text.push_str(HASHED);
        text.push_str(&hex(&Sha256::digest(part.as_bytes())));
    } else {
        text.push_str(part);
    }
}

fn push_name(text: &mut String, name: &str) {
    // Without an early exit, so that it is vectorized.
    let special = |found, byte| found | matches!(byte, b'|' | b'\\');
    if !name.bytes().fold(false, special) {
        return text.push_str(name);
    }
    for character in name.chars() {
        if matches!(character, '|' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Encoded, Parts};

    fn compose(operation: &str, scope: Scope<'_>, key: &str) -> String {
        RecordKey::compose("p:", operation, scope, key).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_record_key_shows_operation_and_key() {
        assert_eq!(compose("orders.create", Scope::default(), "42"), "p:|orders.create|42");
        let scope = Scope { ambient: "\"acme\"", own: "7" };
        assert_eq!(compose("orders.create", scope, "42"), "p:|orders.create|\"acme\"|7|42");
    }

    #[test]
    fn one_scope_is_enough_to_be_told_apart() {
        let ambient = Scope { ambient: "7", own: "" };
        let own = Scope { ambient: "", own: "7" };
        assert_eq!(compose("o", ambient, "42"), "p:|o|7||42");
        assert_eq!(compose("o", own, "42"), "p:|o||7|42");
    }

    #[test]
    fn a_key_does_not_depend_on_the_key_before_it() {
        let names = ["", "a", "b", "ab", "a|b", "a\\", "aa"];
        for (before, after) in names.iter().flat_map(|a| names.iter().map(move |b| (a, b))) {
            for prefix in ["", "p:", "p|", "a"] {
                compose_with(prefix, before, "1");
                let after_another = compose_with(prefix, after, "2");
                SCRATCH.with_borrow_mut(|scratch| scratch.plain = None);
                assert_eq!(after_another, compose_with(prefix, after, "2"));
                // The same bytes, with the border between the two elsewhere.
                compose_with("a", "ab", "1");
                assert_eq!(compose_with("aa", "b", "1"), "aa|b|1");
            }
        }
    }

    fn compose_with(prefix: &str, operation: &str, key: &str) -> String {
        let key = RecordKey::compose(prefix, operation, Scope::default(), key).unwrap();
        key.as_str().to_owned()
    }

    #[test]
    fn operations_with_bars_do_not_run_into_the_key() {
        assert_ne!(compose("a|1", Scope::default(), "2"), compose("a", Scope::default(), "1|2"));
    }

    #[test]
    fn a_template_cannot_imitate_a_scope() {
        let scope = Encoded::of(&1);
        let key = Encoded::of(&2);
        let scoped = compose("o", Scope { ambient: scope.as_str(), own: "" }, key.as_str());
        let hostile = Parts::template().text("1||2").part("").finish();
        let bare = compose("o", Scope::default(), hostile.as_str());
        assert!(!bare.starts_with(&scoped), "{bare} starts with {scoped}");
    }

    #[test]
    fn long_keys_are_hashed_and_longer_ones_refused() {
        let long = Encoded::of("x".repeat(513).as_str());
        let key = RecordKey::compose("p", "o", Scope::default(), long.as_str()).unwrap();
        assert!(key.as_str().starts_with("p|o|#sha256:"));
        assert!(key.as_str().len() < 100);
        let just = "x".repeat(512);
        assert_eq!(compose("o", Scope::default(), &just), format!("p:|o|{just}"));
        assert_eq!(MAX_KEY_BYTES, 65_536);
        let longest = "x".repeat(MAX_KEY_BYTES);
        assert!(RecordKey::compose("p", "o", Scope::default(), &longest).is_ok());
        let longer = "x".repeat(MAX_KEY_BYTES + 1);
        assert_eq!(
            RecordKey::compose("p", "o", Scope::default(), &longer),
            Err(InvalidKey::TooLong { bytes: MAX_KEY_BYTES + 1 })
        );
    }

    #[test]
    fn a_hash_tag_goes_before_the_key_and_must_be_one() {
        let key = RecordKey::from("p:|o|42");
        let tagged = |tag: &str| key.with_hash_tag(tag).map(|key| key.as_str().to_owned());
        assert_eq!(tagged("acme").as_deref(), Some("{acme}p:|o|42"));
        for bad in ["", "a{b", "a}b", "{", "}"] {
            assert_eq!(tagged(bad), None, "{bad}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_hash_tag_is_read_where_a_cluster_reads_it() {
        let tag = |text: &str| RecordKey::from(text).hash_tag().map(str::to_owned);
        assert_eq!(tag("{acme}p:|o|42").as_deref(), Some("acme"));
        assert_eq!(tag("{a}{b}").as_deref(), Some("a"));
        for without in ["p:|o|{42}", "p:|o|42", "{}p", "{open", "{a{b}c"] {
            assert_eq!(tag(without), None, "{without}");
        }
    }

    #[test]
    fn debug_hides_the_key() {
        let key = RecordKey::from("secret@example.com");
        assert_eq!(key.hashed(), "85b5c9aa53b07576");
        assert_eq!(format!("{key:?}"), "RecordKey(#85b5c9aa53b07576)");
    }
}
