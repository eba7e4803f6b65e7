//! The name of a record in Redis.
//!
//! Braces choose the slot of a name in a cluster. User data never does: a name with braces of its
//! own begins with an empty pair, which switches the rule off. Only a [tag](Name::tagged) that the
//! caller asks for chooses a slot.

use crate::key::RecordKey;
use crate::store::{StoreError, StoreErrorKind};
#[cfg(test)]
use redis::cluster_routing::Slot;

/// The name of a record in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(String);

impl Name {
    pub(super) fn of(key: &RecordKey) -> Self {
        let text = key.as_str();
        if text.contains('{') { Self(format!("{{}}{text}")) } else { Self(text.to_owned()) }
    }

    /// The name of a record that lies in the slot of `tag`.
    pub(super) fn tagged(key: &RecordKey, tag: &str) -> Result<Self, StoreError> {
        if tag.is_empty() || tag.contains(['{', '}']) {
            let text = format!("`{tag}` is not a hash tag: it must not be empty or hold a brace");
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        Ok(Self(format!("{{{tag}}}{}", key.as_str())))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    fn slot(&self) -> Slot {
        Slot::for_key(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::of(&RecordKey::from(text))
    }

    #[test]
    fn a_name_without_braces_is_the_key() {
        assert_eq!(name("p|orders|42").as_str(), "p|orders|42");
    }

    #[test]
    fn braces_in_user_data_do_not_choose_a_slot() {
        let spread = |texts: [&str; 4]| {
            let mut slots: Vec<_> =
                texts.iter().map(|text| format!("{:?}", name(text).slot())).collect();
            slots.sort();
            slots.dedup();
            slots.len()
        };
        assert_eq!(spread(["p|{a}1", "p|{a}2", "p|{a}3", "p|{a}4"]), 4);
        assert_eq!(spread(["{a}1", "{a}2", "{}{a}3", "{}{a}4"]), 4);
    }

    #[test]
    fn two_keys_never_share_a_name() {
        let keys = ["a", "{a", "{}a", "{}{a", "{}{}a", "{a}", "{a}b"];
        let mut names: Vec<_> = keys.iter().map(|key| name(key).as_str().to_owned()).collect();
        let tagged = |tag, key| Name::tagged(&RecordKey::from(key), tag).unwrap().0;
        names.extend([tagged("a", ""), tagged("a", "b"), tagged("a", "{}a"), tagged("b", "b")]);
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_tag_chooses_the_slot() {
        let record = Name::tagged(&RecordKey::from("p|stock|{x}"), "sku-1").unwrap();
        assert_eq!(record.slot(), Slot::for_key("stock:{sku-1}"));
    }

    #[test]
    fn what_is_not_a_tag_is_refused() {
        for tag in ["", "{", "a}b"] {
            assert!(Name::tagged(&RecordKey::from("k"), tag).is_err(), "{tag:?}");
        }
    }
}
