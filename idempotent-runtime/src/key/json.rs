//! `KeyPart` for JSON: members sorted by their names, numbers by their value.

use super::{KeyPart, KeyWriter, number};
use serde_json::Value;

/// Arrays are lists, objects are tuples of pairs, and null writes nothing. A key that is null, an
/// empty array or an empty object is refused as an empty key.
#[diagnostic::do_not_recommend]
impl KeyPart for Value {
    fn encode(&self, key: &mut KeyWriter) {
        match self {
            Self::Null => {}
            Self::Bool(value) => key.boolean(*value),
            Self::Number(value) => number::write(&value.to_string(), key),
            Self::String(text) => key.text(text),
            Self::Array(values) => values.encode(key),
            Self::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                let mut tuple = key.tuple();
                for member in &sorted {
                    tuple.part(member);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::key::{Encoded, Origin};
    use serde_json::{Value, json};

    fn encode(value: &Value) -> String {
        Encoded::of(value).as_str().to_owned()
    }

    #[test]
    fn json_is_frozen() {
        let order = json!({
            "id": 42, "paid": true, "note": null, "tags": ["a", "b"], "price": 12.50, "to": {},
        });
        assert_eq!(
            encode(&order),
            r#"(("id",42),("note",_),("paid",true),("price",12.5),("tags",["a","b"]),("to",()))"#
        );
    }

    #[test]
    fn the_order_of_members_makes_no_difference_and_that_of_elements_does() {
        let read = |text: &str| encode(&serde_json::from_str(text).unwrap());
        assert_eq!(read(r#"{"a":1,"b":{"c":2,"d":3}}"#), read(r#"{"b":{"d":3,"c":2},"a":1}"#));
        assert_ne!(read("[1,2]"), read("[2,1]"));
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert_eq!(encode(&json!(1.0)), encode(&json!(1)));
        assert_eq!(encode(&json!(-0.0)), encode(&json!(0)));
        assert_eq!(encode(&json!(u64::MAX)), Encoded::of(&u64::MAX).as_str());
        assert_eq!(encode(&json!(1e300)), "1e300");
        assert_ne!(encode(&json!(0.1)), encode(&json!(0.1_f64.next_up())));
    }

    #[test]
    fn different_values_are_different_keys() {
        let values = [
            json!(null),
            json!([]),
            json!({}),
            json!(""),
            json!(0),
            json!(false),
            json!("null"),
            json!([null]),
            json!([[]]),
            json!([{}]),
            json!({"": null}),
            json!([["a", 1]]),
            json!({"a": 1}),
            json!([1, 2]),
            json!("1"),
            json!([1.5]),
            json!("_"),
        ];
        for (at, one) in values.iter().enumerate() {
            for other in &values[at + 1..] {
                assert_ne!(encode(one), encode(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn nothing_is_an_empty_key() {
        for nothing in [json!(null), json!([]), json!({}), json!("")] {
            assert_eq!(Encoded::of(&nothing).origin, Origin::Empty, "{nothing}");
        }
    }
}
