//! `KeyPart` for JSON: members sorted by their names, numbers by their value.

use super::{KeyPart, KeyWriter, number};
use serde_json::{Number, Value};

/// Arrays are lists, objects are tuples of pairs, and null writes nothing. A key that is null, an
/// empty array or an empty object is refused as an empty key.
#[diagnostic::do_not_recommend]
impl KeyPart for Value {
    fn encode(&self, key: &mut KeyWriter) {
        match self {
            Self::Null => {}
            Self::Bool(value) => key.boolean(*value),
            Self::Number(value) => number::write(&digits(value), key),
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

/// The text of a number. A float that is an integer has all its digits: the shortest text of a large
/// one is also the text of another integer.
fn digits(number: &Number) -> String {
    // All integers of JSON that are no floats are smaller.
    const LARGEST: f64 = u64::MAX as f64;
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= LARGEST);
    match float {
        Some(float) if Number::from_f64(float).as_ref() == Some(number) => format!("{float:.0}"),
        _ => number.to_string(),
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
    fn large_floats_are_equal_to_their_own_integers_alone() {
        for integer in [1_u64 << 53, 1 << 60, 1 << 63, (1 << 63) + (1 << 11)] {
            assert_eq!(encode(&json!(integer as f64)), encode(&json!(integer)));
        }
        assert_eq!(encode(&json!(i64::MIN as f64)), encode(&json!(i64::MIN)));
        let float = json!((1_u64 << 63) as f64);
        assert_ne!(encode(&float), encode(&json!(9_223_372_036_854_776_000_u64)));
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
