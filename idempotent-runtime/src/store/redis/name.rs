//! The name of a record in Redis.
//!
//! Braces choose the slot of a name in a cluster. User data never does: a name with braces of its
//! own begins with an empty pair, which switches the rule off. Only a tag that the caller asks for
//! chooses a slot.
//!
//! A name leads back to its key. The name of a key with a tag, or without braces, is its text, and
//! does not begin with an empty pair; the name of every other key does.

use crate::key::RecordKey;
use redis::cluster_routing::Slot;
use std::borrow::Cow;

/// The name of a record in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name<'a>(Cow<'a, str>);

impl<'a> Name<'a> {
    pub(super) fn of(key: &'a RecordKey) -> Self {
        let text = key.as_str();
        if key.hash_tag().is_none() && text.contains('{') {
            Self(format!("{{}}{text}").into())
        } else {
            Self(text.into())
        }
    }

    /// The key whose name this is; `None` if there is none.
    pub(super) fn key_of(name: &str) -> Option<RecordKey> {
        let key = RecordKey::from(name.strip_prefix("{}").unwrap_or(name));
        (Name::of(&key).as_str() == name).then_some(key)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn slot(&self) -> Slot {
        Slot::for_key(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name<'static> {
        Name(Name::of(&RecordKey::from(text)).0.into_owned().into())
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
        assert_eq!(spread(["{{a}1", "{{a}2", "{}{a}3", "{}{a}4"]), 4);
    }

    #[test]
    fn two_keys_never_share_a_name() {
        let keys =
            ["a", "{a", "{}a", "{}{a", "{}{}a", "{a}", "{a}b", "{a}{}a", "{b}b", "a{", "{}a{"];
        let mut names: Vec<_> = keys.iter().map(|key| name(key).as_str().to_owned()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }

    #[test]
    fn a_name_that_no_key_has_leads_to_no_key() {
        for foreign in ["{}a", "a{", "{", "{{a}", "{}", "{}{a}b"] {
            assert_eq!(Name::key_of(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn a_name_leads_back_to_its_key(text in prop_oneof![".*", "[{}a|]{0,8}"]) {
            let key = RecordKey::from(text.as_str());
            prop_assert_eq!(Name::key_of(Name::of(&key).as_str()), Some(key));
        }

        #[test]
        fn a_key_has_no_other_name(name in "[{}a|]{0,8}") {
            if let Some(key) = Name::key_of(&name) {
                prop_assert_eq!(Name::of(&key), Name(name.into()));
            }
        }
    }

    #[test]
    fn a_tag_chooses_the_slot() {
        let record = RecordKey::from("p|stock|{x}").with_hash_tag("sku-1").unwrap();
        assert_eq!(Name::of(&record).slot(), Slot::for_key("stock:{sku-1}"));
    }
}
