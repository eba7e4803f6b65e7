//! Every replay equals the value that the first caller got, or is refused: no value is read back as
//! another one.
#![expect(clippy::option_option, reason = "it is one of the values that must come back")]

use idempotent_runtime::codec::MessagePack;
use idempotent_runtime::{Error, ErrorKind, Idempotency, Mode};
use proptest::collection::{btree_map, hash_map, hash_set, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newtype<T>(T);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Name {
    First,
    Second,
    #[serde(rename = "")]
    Third,
}

/// A float that equals itself to the last bit, `NaN` included, and can be a key.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Float<F>(F);

impl<F: Copy + Into<f64>> PartialEq for Float<F> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<F: Copy + Into<f64>> Eq for Float<F> {}

impl<F: Copy + Into<f64>> PartialOrd for Float<F> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F: Copy + Into<f64>> Ord for Float<F> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.into().total_cmp(&other.0.into())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape")]
enum Shape {
    Dot,
    Circle { radius: Float<f64>, label: Option<Option<u8>> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Message {
    Empty,
    One(Option<u8>),
    Two(Option<Newtype<Option<u8>>>, Float<f32>),
}

/// A value of any form that serde knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Unit,
    Nothing(()),
    Flag(bool),
    Number(i64),
    Unsigned(u64),
    Big(i128),
    Bigger(u128),
    Single(Float<f32>),
    Double(Float<f64>),
    Letter(char),
    Text(String),
    Address(IpAddr),
    Time(Duration),
    Maybe(Option<Option<Option<u8>>>),
    MaybeUnit(Option<()>),
    MaybeMarker(Option<Marker>),
    MaybeNewtype(Option<Newtype<Option<u8>>>),
    MaybeTuple(Option<(Option<u8>,)>),
    MaybeFloat(Option<Float<f64>>),
    MaybeJson(Option<serde_json::Value>),
    Outcome(Result<u8, String>),
    Shape(Shape),
    Message(Message),
    Numbers(HashSet<u16>),
    Names(BTreeMap<Name, Option<Option<bool>>>),
    Letters(BTreeMap<char, u8>),
    Flags(BTreeMap<bool, u8>),
    Doubles(BTreeMap<Float<f64>, u8>),
    Bigs(BTreeMap<i128, u8>),
    Options(BTreeMap<Option<u8>, u8>),
    Pairs(BTreeMap<(u8, u8), u8>),
    Nested(Option<Box<Tree>>),
    List(Vec<Tree>),
    Pair(Box<Tree>, Box<Tree>),
    Fields { left: Box<Tree>, right: Option<Box<Tree>> },
    Dictionary(HashMap<String, Tree>),
    ByNumber(BTreeMap<i32, Tree>),
}

/// JSON of any form.
fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn double() -> impl Strategy<Value = Float<f64>> {
    prop_oneof![8 => prop::num::f64::ANY, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)]
        .prop_map(Float)
}

fn single() -> impl Strategy<Value = Float<f32>> {
    prop::num::f32::ANY.prop_map(Float)
}

fn leaf() -> impl Strategy<Value = Tree> {
    let simple = prop_oneof![
        Just(Tree::Unit),
        Just(Tree::Nothing(())),
        any::<bool>().prop_map(Tree::Flag),
        any::<i64>().prop_map(Tree::Number),
        any::<u64>().prop_map(Tree::Unsigned),
        any::<i128>().prop_map(Tree::Big),
        any::<u128>().prop_map(Tree::Bigger),
        single().prop_map(Tree::Single),
        double().prop_map(Tree::Double),
        any::<char>().prop_map(Tree::Letter),
        vec(any::<char>(), 0..9).prop_map(|text| Tree::Text(text.into_iter().collect())),
        any::<IpAddr>().prop_map(Tree::Address),
        any::<Duration>().prop_map(Tree::Time),
        any::<Result<u8, String>>().prop_map(Tree::Outcome),
    ];
    let optional = prop_oneof![
        any::<Option<Option<Option<u8>>>>().prop_map(Tree::Maybe),
        any::<Option<()>>().prop_map(Tree::MaybeUnit),
        any::<bool>().prop_map(|some| Tree::MaybeMarker(some.then_some(Marker))),
        any::<Option<Option<u8>>>().prop_map(|some| Tree::MaybeNewtype(some.map(Newtype))),
        any::<Option<(Option<u8>,)>>().prop_map(Tree::MaybeTuple),
        prop::option::of(double()).prop_map(Tree::MaybeFloat),
        prop::option::of(json()).prop_map(Tree::MaybeJson),
        Just(Tree::Shape(Shape::Dot)),
        (double(), any::<Option<Option<u8>>>())
            .prop_map(|(radius, label)| Tree::Shape(Shape::Circle { radius, label })),
        Just(Tree::Message(Message::Empty)),
        any::<Option<u8>>().prop_map(|one| Tree::Message(Message::One(one))),
        (any::<Option<Option<u8>>>(), single())
            .prop_map(|(one, two)| Tree::Message(Message::Two(one.map(Newtype), two))),
    ];
    let name = prop_oneof![Just(Name::First), Just(Name::Second), Just(Name::Third)];
    let keyed = prop_oneof![
        hash_set(any::<u16>(), 0..4).prop_map(Tree::Numbers),
        btree_map(name, any::<Option<Option<bool>>>(), 0..4).prop_map(Tree::Names),
        btree_map(any::<char>(), any::<u8>(), 0..4).prop_map(Tree::Letters),
        btree_map(any::<bool>(), any::<u8>(), 0..3).prop_map(Tree::Flags),
        btree_map(double(), any::<u8>(), 0..4).prop_map(Tree::Doubles),
        btree_map(any::<i128>(), any::<u8>(), 0..4).prop_map(Tree::Bigs),
        btree_map(any::<Option<u8>>(), any::<u8>(), 0..4).prop_map(Tree::Options),
        btree_map(any::<(u8, u8)>(), any::<u8>(), 0..3).prop_map(Tree::Pairs),
    ];
    prop_oneof![simple, optional, keyed]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::option::of(inner.clone().prop_map(Box::new)).prop_map(Tree::Nested),
            vec(inner.clone(), 0..4).prop_map(Tree::List),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| Tree::Pair(Box::new(left), Box::new(right))),
            (inner.clone(), prop::option::of(inner.clone())).prop_map(|(left, right)| {
                Tree::Fields { left: Box::new(left), right: right.map(Box::new) }
            }),
            hash_map(any::<String>(), inner.clone(), 0..4).prop_map(Tree::Dictionary),
            btree_map(any::<i32>(), inner, 0..4).prop_map(Tree::ByNumber),
        ]
    })
}

/// The formats that are built in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Json,
    MessagePack,
}

impl Format {
    fn instance(self) -> Idempotency {
        let builder = Idempotency::builder();
        match self {
            Self::Json => builder,
            Self::MessagePack => builder.codec(MessagePack),
        }
        .build()
        .unwrap()
    }

    fn holds_float<F: Copy + Into<f64>>(self, Float(float): &Float<F>) -> bool {
        self == Self::MessagePack || (*float).into().is_finite()
    }

    fn holds_all<'a>(self, trees: impl IntoIterator<Item = &'a Tree>) -> bool {
        trees.into_iter().all(|tree| self.holds(tree))
    }

    /// `true` if the value has a form of its own, told from the value alone.
    fn holds(self, tree: &Tree) -> bool {
        let is_json = self == Self::Json;
        match tree {
            Tree::Single(float) => self.holds_float(float),
            Tree::Double(float) | Tree::MaybeFloat(Some(float)) => self.holds_float(float),
            Tree::Maybe(Some(None | Some(None))) => false,
            Tree::MaybeUnit(Some(())) | Tree::MaybeNewtype(Some(Newtype(None))) => false,
            // MessagePack writes a unit struct as an empty list.
            Tree::MaybeMarker(Some(Marker)) => !is_json,
            Tree::MaybeJson(Some(serde_json::Value::Null)) => false,
            Tree::Shape(Shape::Circle { radius, label }) => {
                self.holds_float(radius) && *label != Some(None)
            }
            Tree::Message(Message::Two(some, float)) => {
                *some != Some(Newtype(None)) && self.holds_float(float)
            }
            Tree::Names(map) => map.values().all(|value| *value != Some(None)),
            Tree::Doubles(map) => map.keys().all(|key| self.holds_float(key)),
            Tree::Options(map) => !is_json || !map.contains_key(&None),
            Tree::Pairs(map) => !is_json || map.is_empty(),
            Tree::Nested(Some(tree)) => self.holds(tree),
            Tree::List(trees) => self.holds_all(trees),
            Tree::Pair(left, right) => self.holds(left) && self.holds(right),
            Tree::Fields { left, right } => {
                self.holds(left) && right.as_ref().is_none_or(|right| self.holds(right))
            }
            Tree::Dictionary(map) => self.holds_all(map.values()),
            Tree::ByNumber(map) => self.holds_all(map.values()),
            _ => true,
        }
    }
}

/// Calls twice; the second call has no body that could run.
async fn replayed(idem: &Idempotency, key: u64, value: &Tree) -> Result<Tree, Error> {
    let call = || idem.operation("replays").key(key).mode(Mode::Strong);
    let first = call().run(async { Ok::<_, Error>(value.clone()) }).await?;
    assert_eq!(first, *value, "the first caller gets its own value");
    call().run(async { panic!("it ran again") }).await
}

fn every_replay_equals_its_value(format: Format) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let idem = format.instance();
    let key = std::cell::Cell::new(0);
    let cases = u32::try_from(support::size(2_000, 200_000)).unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let tested = runner.run(&tree(), |value| {
        key.set(key.get() + 1);
        match runtime.block_on(replayed(&idem, key.get(), &value)) {
            Ok(replay) => {
                prop_assert_eq!(&replay, &value);
                prop_assert!(format.holds(&value), "{value:?} cannot be told apart");
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::ResultUnavailable, "{:?}", &value);
                prop_assert!(!format.holds(&value), "{value:?} was refused");
            }
        }
        Ok(())
    });
    if let Err(error) = tested {
        panic!("{error}");
    }
}

#[test]
fn every_replay_from_json_equals_its_value_or_is_refused() {
    every_replay_equals_its_value(Format::Json);
}

#[test]
fn every_replay_from_message_pack_equals_its_value_or_is_refused() {
    every_replay_equals_its_value(Format::MessagePack);
}
