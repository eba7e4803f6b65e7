use super::MAX_DEPTH;
use crate::codec::{Codecs, Encode, Json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

fn all() -> Vec<Codecs> {
    vec![
        Codecs::default(),
        #[cfg(feature = "msgpack")]
        Codecs::default().writing_with(crate::codec::MessagePack).unwrap(),
    ]
}

fn refused(codecs: &Codecs, value: &impl Serialize) -> String {
    let error = codecs.encode(value).unwrap_err().to_string();
    let (_, reason) = error.split_once(": ").expect("a reason");
    reason.to_owned()
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    codecs: &Codecs,
    value: &T,
) {
    let stored = codecs.encode(value).unwrap();
    assert_eq!(codecs.decode::<T>(&stored).unwrap(), *value);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newtype<T>(T);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fields<T> {
    first: T,
    second: Option<T>,
}

#[test]
fn null_inside_some_is_refused_however_it_is_wrapped() {
    let reason = "it holds a `Some` whose content is written as null and would be read as `None`";
    for codecs in all() {
        assert_eq!(refused(&codecs, &Some(None::<u8>)), reason);
        assert_eq!(refused(&codecs, &Some(())), reason);
        assert_eq!(refused(&codecs, &Some(Some(None::<u8>))), reason);
        assert_eq!(refused(&codecs, &Some(Newtype(Newtype(())))), reason);
        assert_eq!(refused(&codecs, &Some(Box::new(None::<u8>))), reason);
        assert_eq!(refused(&codecs, &vec![(1, Some(None::<u8>))]), reason);
        assert_eq!(refused(&codecs, &BTreeMap::from([(1, Some(()))])), reason);
        assert_eq!(refused(&codecs, &Fields { first: (), second: Some(()) }), reason);
        assert_eq!(refused(&codecs, &Some(serde_json::Value::Null)), reason);
        assert_eq!(refused(&codecs, &Ok::<_, u8>(Some(Newtype(None::<u8>)))), reason);
    }
    assert_eq!(refused(&Codecs::default(), &Some(Marker)), reason);
}

#[test]
fn null_that_is_not_inside_some_is_kept() {
    for codecs in all() {
        comes_back(&codecs, &());
        comes_back(&codecs, &None::<Option<()>>);
        comes_back(&codecs, &Some(Some(1)));
        comes_back(&codecs, &Some((None::<u8>,)));
        comes_back(&codecs, &Some(vec![None::<u8>]));
        comes_back(&codecs, &Some(Fields { first: None::<u8>, second: None }));
        comes_back(&codecs, &Some(Ok::<Option<u8>, ()>(None)));
        comes_back(&codecs, &Some(BTreeMap::from([(1, None::<u8>)])));
    }
}

#[test]
fn json_refuses_floats_that_are_not_finite() {
    let codecs = Codecs::default();
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(refused(&codecs, &float), "it holds a float that is not finite");
        assert_eq!(refused(&codecs, &vec![Some(float)]), "it holds a float that is not finite");
    }
    assert_eq!(refused(&codecs, &f32::NAN), "it holds a float that is not finite");
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Word(String),
    Flag(bool),
}

#[derive(Serialize)]
struct Flattened {
    id: u8,
    #[serde(flatten)]
    more: BTreeMap<&'static str, u8>,
}

#[test]
fn keys_that_are_written_alike_are_refused() {
    let reason = "it holds a map in which two keys are written alike";
    let word = |text: &str| Id::Word(text.to_owned());
    for codecs in all() {
        assert_eq!(
            refused(&codecs, &Flattened { id: 1, more: BTreeMap::from([("id", 2)]) }),
            reason
        );
        assert!(codecs.encode(&Flattened { id: 1, more: BTreeMap::from([("it", 2)]) }).is_ok());
        let many: BTreeMap<_, _> = (0..1000).map(|number| (number.to_string(), number)).collect();
        comes_back(&codecs, &many);
    }
    let json = Codecs::default();
    assert_eq!(refused(&json, &BTreeMap::from([(Id::Number(1), 1), (word("1"), 2)])), reason);
    assert_eq!(refused(&json, &BTreeMap::from([(Id::Flag(true), 1), (word("true"), 2)])), reason);
    assert!(json.encode(&BTreeMap::from([(Id::Number(1), 1), (word("01"), 2)])).is_ok());
}

#[cfg(feature = "msgpack")]
#[test]
fn keys_of_any_form_are_told_apart_in_message_pack() {
    let codecs = &all()[1];
    let word = |text: &str| Id::Word(text.to_owned());
    assert!(codecs.encode(&BTreeMap::from([(Id::Number(1), 1), (word("1"), 2)])).is_ok());
    comes_back(codecs, &BTreeMap::from([((vec![1, 2], vec![3]), 1), ((vec![1], vec![2, 3]), 2)]));
    comes_back(codecs, &BTreeMap::from([(vec![Some(1)], 1), (vec![None], 2), (vec![], 3)]));
    let inner = |key: u8| BTreeMap::from([(key, key)]);
    comes_back(codecs, &BTreeMap::from([(inner(1), 1), (inner(2), 2)]));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Chain {
    End,
    Newtype(Box<Chain>),
    Tuple(Box<Chain>, u8),
    Struct { next: Box<Chain> },
    List(Vec<Chain>),
}

impl Chain {
    fn of(levels: usize, link: impl Fn(Box<Chain>) -> Chain) -> Self {
        (0..levels).fold(Self::End, |chain, _| link(Box::new(chain)))
    }
}

type Link<'a> = &'a dyn Fn(Box<Chain>) -> Chain;

/// Every value that is written can be read: the limits of the readers are not stricter.
#[test]
fn values_nest_as_deep_as_they_can_be_read() {
    for codecs in all() {
        let reason = format!("it nests deeper than {MAX_DEPTH}");
        let links: [(usize, Link<'_>); 4] = [
            (1, &Chain::Newtype),
            (2, &|next| Chain::Tuple(next, 1)),
            (2, &|next| Chain::Struct { next }),
            (2, &|next| Chain::List(vec![*next])),
        ];
        for (levels, link) in links {
            let most = usize::from(MAX_DEPTH) / levels;
            comes_back(&codecs, &Chain::of(most, link));
            assert_eq!(refused(&codecs, &Chain::of(most + 1, link)), reason);
        }
    }
}

#[test]
fn what_is_kept_is_written_as_the_format_writes_it() {
    #[expect(clippy::option_option, reason = "it is one of the values that are looked at")]
    #[derive(Serialize)]
    struct Everything {
        text: &'static str,
        letter: char,
        numbers: (u8, i64, u128, f32, f64),
        address: IpAddr,
        maybe: Option<Option<u8>>,
        unit: (),
        marker: Marker,
        newtype: Newtype<bool>,
        chain: Chain,
        map: BTreeMap<i32, Vec<u8>>,
    }
    let value = Everything {
        text: "größe \"\n",
        letter: '\u{1f4a1}',
        numbers: (1, -2, u128::MAX, 0.1, 1e300),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        maybe: Some(Some(3)),
        unit: (),
        marker: Marker,
        newtype: Newtype(true),
        chain: Chain::of(3, |next| Chain::Tuple(next, 7)),
        map: BTreeMap::from([(-1, vec![1, 2])]),
    };
    let stored = Codecs::default().encode(&value).unwrap();
    assert_eq!(stored[1..], serde_json::to_vec(&value).unwrap());
    #[cfg(feature = "msgpack")]
    {
        let stored = all()[1].encode(&value).unwrap();
        assert_eq!(stored[1..], rmp_serde::to_vec_named(&value).unwrap());
    }
}

#[test]
fn a_codec_of_ones_own_can_refuse_the_same() {
    let pretty = |value| serde_json::to_vec_pretty(&Encode::new(value).for_json());
    assert!(pretty(&Some(Some(1))).is_ok());
    let error = pretty(&Some(None)).unwrap_err().to_string();
    assert!(error.contains("would be read as `None`"), "{error}");
    assert!(crate::codec::Codec::encode(&Json, Encode::new(&Some(()))).is_err());
}
