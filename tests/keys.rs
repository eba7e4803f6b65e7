//! Two calls share a record only if operation, scopes and key are the same, whatever characters
//! they hold.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::key::{Encoded, KeyPart, KeyWriter, Parts};
use idempotent_runtime::{Config, Idempotency};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

/// A part of a key.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Number(i128),
    Bool(bool),
    /// A part that writes nothing.
    Silent,
    Tuple(Vec<Part>),
    List(Vec<Part>),
    Variant(String, Vec<Part>),
}

impl KeyPart for Part {
    fn encode(&self, key: &mut KeyWriter) {
        let (mut group, parts) = match self {
            Self::Text(text) => return key.text(text),
            Self::Number(number) => return key.signed(*number),
            Self::Bool(value) => return key.boolean(*value),
            Self::Silent => return,
            Self::Tuple(parts) => (key.tuple(), parts),
            Self::List(parts) => (key.list(), parts),
            Self::Variant(name, parts) => (key.variant(name), parts),
        };
        for part in parts {
            group.part(part);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(String),
    Hole(Part),
}

/// How a function names its key.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    One(Part),
    Tuple(Vec<Part>),
    Template(Vec<Piece>),
    /// The token that an adapter put in place.
    Ambient(String),
}

/// Everything that makes two calls the same.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    /// Which instance: they differ in the prefix of their keys.
    instance: usize,
    operation: String,
    ambient_scope: Option<Part>,
    own_scope: Option<Part>,
    key: Key,
}

impl Call {
    /// The one form of all descriptions that mean the same.
    fn normal(&self) -> Self {
        let key = match &self.key {
            Key::One(part) => Key::One(part.clone()),
            Key::Tuple(parts) => Key::One(Part::Tuple(parts.clone())),
            Key::Ambient(token) => Key::One(Part::Text(token.clone())),
            Key::Template(pieces) => Key::Template(merged(pieces)),
        };
        Self { key, ..self.clone() }
    }

    /// The name of the record, if the key is one.
    fn record_key(&self) -> Option<String> {
        let mut operation = INSTANCES[self.instance].operation(self.operation.clone());
        if let Some(scope) = &self.own_scope {
            operation = operation.scope(Borrowed(scope));
        }
        let mut surroundings = Ambient::new();
        if let Some(scope) = &self.ambient_scope {
            surroundings = surroundings.scope(Borrowed(scope));
        }
        match &self.key {
            Key::One(part) => operation = operation.key(Borrowed(part)),
            Key::Tuple(parts) => {
                let built = parts.iter().fold(Parts::tuple(), |built, part| built.part(part));
                operation = operation.encoded_key(built.finish());
            }
            Key::Template(pieces) => operation = operation.encoded_key(template(pieces)),
            Key::Ambient(token) => surroundings = surroundings.token(token),
        }
        let mut named = pin!(ambient::scope(surroundings, async { operation.record_key() }));
        match named.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(key) => key.ok().map(|key| key.as_str().to_owned()),
            Poll::Pending => unreachable!("nothing is waited for"),
        }
    }
}

struct Borrowed<'a>(&'a Part);

impl KeyPart for Borrowed<'_> {
    fn encode(&self, key: &mut KeyWriter) {
        self.0.encode(key);
    }
}

fn template(pieces: &[Piece]) -> Encoded {
    let add = |built: Parts, piece: &Piece| match piece {
        Piece::Literal(text) => built.text(text),
        Piece::Hole(part) => built.part(part),
    };
    pieces.iter().fold(Parts::template(), add).finish()
}

/// Literal text side by side is one text, and empty text is none.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (all.last_mut(), piece) {
            (_, Piece::Literal(text)) if text.is_empty() => {}
            (Some(Piece::Literal(before)), Piece::Literal(text)) => before.push_str(text),
            _ => all.push(piece.clone()),
        }
    }
    all
}

static INSTANCES: LazyLock<Vec<Idempotency>> = LazyLock::new(|| {
    let instance = |prefix: &str| {
        let config = Config::new().with_key_prefix(prefix);
        Idempotency::builder().config(config).build().unwrap()
    };
    ["p", "p|", "p|a", "p\\", "\"p\""].map(instance).into()
});

/// Few characters, most of them with a meaning somewhere, so that likenesses are frequent.
const CHARACTERS: &str = "aab1-2 \"\\|{}()[],;:_'?#\n\t\0\u{7f}\u{e9}\u{1f980}";

fn text() -> impl Strategy<Value = String> {
    let characters: Vec<char> = CHARACTERS.chars().collect();
    let short = prop::collection::vec(select(characters), 0..4)
        .prop_map(|characters| characters.into_iter().collect::<String>());
    let words = ["true", "null", "\\n", "\\x00", "#sha256:", "\\\"", "x;y", "\\|", "\\u7c."];
    prop_oneof![
        12 => short.clone(),
        2 => select(words.to_vec()).prop_map(str::to_owned),
        // Around and over the length from which parts are hashed.
        1 => (short, 500_usize..520).prop_map(|(text, length)| text + &"x".repeat(length)),
    ]
}

/// The name of an enum's variant. Names are words, but not those that booleans are written with.
fn name() -> impl Strategy<Value = String> {
    text().prop_filter("not a boolean", |name| name != "true" && name != "false")
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![
        6 => text().prop_map(Part::Text),
        2 => (-12_i128..13).prop_map(Part::Number),
        1 => any::<i128>().prop_map(Part::Number),
        1 => any::<bool>().prop_map(Part::Bool),
        1 => Just(Part::Silent),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            3 => parts().prop_map(Part::Tuple),
            2 => parts().prop_map(Part::List),
            1 => (name(), parts()).prop_map(|(name, parts)| Part::Variant(name, parts)),
        ]
    })
}

fn key() -> impl Strategy<Value = Key> {
    let piece = prop_oneof![text().prop_map(Piece::Literal), part().prop_map(Piece::Hole)];
    let template = (prop::collection::vec(piece, 0..4), part(), any::<Index>());
    prop_oneof![
        3 => part().prop_map(Key::One),
        3 => prop::collection::vec(part(), 1..4).prop_map(Key::Tuple),
        // A template has a hole: without one the attribute refuses it.
        3 => template.prop_map(|(mut pieces, hole, at)| {
            pieces.insert(at.index(pieces.len() + 1), Piece::Hole(hole));
            Key::Template(pieces)
        }),
        1 => text().prop_map(Key::Ambient),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let scope = || prop::option::weighted(0.4, part());
    (0_usize..5, text(), scope(), scope(), key()).prop_map(
        |(instance, operation, ambient_scope, own_scope, key)| Call {
            instance,
            operation,
            ambient_scope,
            own_scope,
            key,
        },
    )
}

/// Something else that reads almost like `part`.
fn alike(part: &Part, way: usize) -> Part {
    let written = Encoded::of(part).as_str().to_owned();
    match (part, way % 8) {
        (_, 0) => Part::Text(written),
        (_, 1) => Part::Tuple(vec![part.clone()]),
        (_, 2) => Part::List(vec![part.clone()]),
        (Part::Tuple(parts), 3) => Part::List(parts.clone()),
        (Part::List(parts), 3) => Part::Tuple(parts.clone()),
        // Another border between two neighbours: ("ab","c") and ("a","bc").
        (Part::Tuple(parts), 4 | 5) => Part::Tuple(other_border(parts)),
        (Part::List(parts), 4 | 5) => Part::List(other_border(parts)),
        // Two neighbours as one text that holds the separator: ("a","b") and ("a\",\"b").
        (Part::Tuple(parts), 6) => Part::Tuple(glued(parts)),
        // Deeper on one side: (a,b,c) and ((a,b),c).
        (Part::Tuple(parts), _) if parts.len() > 1 => {
            let (last, first) = parts.split_last().expect("more than one");
            Part::Tuple(vec![Part::Tuple(first.to_vec()), last.clone()])
        }
        (Part::Text(text), 3) => Part::Text(format!("{text}\0")),
        (Part::Text(text), 4) => Part::Text(text.replace('\\', "\\\\").replace('"', "\\\"")),
        (Part::Text(text), 5) => text.parse().map_or(Part::Silent, Part::Number),
        (Part::Text(text), _) => Part::Variant(format!("{text}'"), Vec::new()),
        (Part::Number(number), 3) => Part::Variant(number.to_string(), Vec::new()),
        (Part::Number(number), _) => Part::Text(number.to_string()),
        (Part::Variant(name, parts), 3) if parts.is_empty() => Part::Text(name.clone()),
        (Part::Variant(name, parts), _) => {
            Part::Tuple(vec![Part::Text(name.clone()), Part::Tuple(parts.clone())])
        }
        _ => Part::Variant("_".to_owned(), Vec::new()),
    }
}

fn other_border(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    for index in 1..parts.len() {
        if let [Part::Text(left), Part::Text(right)] = &mut parts[index - 1..=index] {
            match left.pop() {
                Some(moved) => right.insert(0, moved),
                None => std::mem::swap(left, right),
            }
        }
    }
    parts
}

fn glued(parts: &[Part]) -> Vec<Part> {
    let inner = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        other => Encoded::of(other).as_str().to_owned(),
    };
    vec![Part::Text(parts.iter().map(inner).collect::<Vec<_>>().join("\",\""))]
}

/// A call that reads almost like `call`.
fn near(call: &Call, way: usize) -> Call {
    let mut near = call.clone();
    let written = |part: &Option<Part>| {
        part.as_ref().map_or(String::new(), |part| Encoded::of(part).as_str().to_owned())
    };
    match way % 7 {
        0 => near.key = near_key(&call.key, way / 7),
        1 => near.own_scope = call.own_scope.as_ref().map(|scope| alike(scope, way / 7)),
        2 => near.ambient_scope = call.ambient_scope.as_ref().map(|scope| alike(scope, way / 7)),
        3 => std::mem::swap(&mut near.own_scope, &mut near.ambient_scope),
        // An operation that ends as the scope, or the key, begins.
        4 => {
            near.operation = format!("{}|{}|", call.operation, written(&call.ambient_scope));
            near.ambient_scope = None;
        }
        // A template that reads like scopes and key.
        5 => {
            let (ambient, own) = (written(&call.ambient_scope), written(&call.own_scope));
            let mut pieces = vec![Piece::Literal(format!("{ambient}|{own}|"))];
            match &call.key {
                Key::Template(more) => pieces.extend(more.iter().cloned()),
                Key::One(part) => pieces.push(Piece::Hole(part.clone())),
                Key::Tuple(parts) => pieces.push(Piece::Hole(Part::Tuple(parts.clone()))),
                Key::Ambient(token) => pieces.push(Piece::Hole(Part::Text(token.clone()))),
            }
            (near.key, near.ambient_scope, near.own_scope) = (Key::Template(pieces), None, None);
        }
        _ => near.instance = (call.instance + 1 + way / 7 % 4) % 5,
    }
    near
}

fn near_key(key: &Key, way: usize) -> Key {
    match key {
        Key::One(part) if way % 9 == 8 => Key::Template(vec![Piece::Hole(part.clone())]),
        Key::One(part) => Key::One(alike(part, way)),
        Key::Tuple(parts) => Key::One(alike(&Part::Tuple(parts.clone()), way)),
        Key::Ambient(token) => Key::One(alike(&Part::Text(token.clone()), way)),
        Key::Template(pieces) => near_template(pieces, way),
    }
}

fn near_template(pieces: &[Piece], way: usize) -> Key {
    let mut pieces = merged(pieces);
    match way % 4 {
        // The whole template as text of another one, with an empty hole.
        0 => Key::Template(vec![
            Piece::Literal(template(&pieces).as_str().to_owned()),
            Piece::Hole(Part::Text(String::new())),
        ]),
        1 => Key::One(Part::Text(template(&pieces).as_str().to_owned())),
        // A hole as text in braces, if another one is left.
        2 => {
            let hole = |piece: &Piece| matches!(piece, Piece::Hole(_));
            if pieces.iter().filter(|piece| hole(piece)).count() < 2 {
                pieces.push(Piece::Hole(Part::Number(1)));
            } else if let Some(piece) = pieces.iter_mut().find(|piece| hole(piece))
                && let Piece::Hole(part) = piece
            {
                *piece = Piece::Literal(format!("{{{}}}", Encoded::of(part).as_str()));
            }
            Key::Template(pieces)
        }
        _ => {
            for piece in &mut pieces {
                if let Piece::Hole(part) = piece {
                    *part = alike(part, way / 4);
                }
            }
            Key::Template(pieces)
        }
    }
}

fn check(one: &Call, two: &Call) {
    if let (Some(left), Some(right)) = (one.record_key(), two.record_key()) {
        if one.normal() == two.normal() {
            assert_eq!(left, right, "one call, two records: {one:?} and {two:?}");
        } else {
            assert_ne!(left, right, "two calls, one record: {one:?} and {two:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn calls_that_read_almost_alike_have_different_records(
        call in call(),
        ways in prop::collection::vec(0_usize..10_000, 1..6),
    ) {
        let mut last = call.clone();
        for way in ways {
            let next = near(&last, way);
            check(&last, &next);
            check(&call, &next);
            last = next;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_two_of_many_calls_share_a_record(calls in prop::collection::vec(call(), 200)) {
        let mut known: HashMap<String, Call> = HashMap::new();
        for call in calls {
            let call = call.normal();
            let Some(key) = call.record_key() else { continue };
            if let Some(other) = known.insert(key, call.clone()) {
                prop_assert_eq!(other, call);
            }
        }
    }

    #[test]
    fn all_ways_to_write_one_key_name_one_record(call in call()) {
        let normal = call.normal();
        prop_assert_eq!(call.record_key(), normal.record_key());
    }
}
