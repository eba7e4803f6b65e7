use std::{collections::BTreeMap, error::Error as _};

use proptest::prelude::*;
use serde::{Deserialize, Deserializer, Serializer};

use super::*;
use crate::codec::Decode;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    lines: Vec<(String, u32)>,
    note: Option<String>,
    total: f64,
    tags: BTreeMap<String, i64>,
}

fn order() -> Order {
    Order {
        id: u64::MAX,
        lines: vec![("sku-1".into(), 2)],
        note: None,
        total: 12.5,
        tags: BTreeMap::from([("größe".into(), -1)]),
    }
}

/// A user's codec, with an id of its own choice.
#[derive(Debug)]
struct Reversed(u8);

impl Codec for Reversed {
    fn id(&self) -> u8 {
        self.0
    }

    fn name(&self) -> &'static str {
        "reversed"
    }

    fn encode(&self, value: Encode<'_>) -> Result<Vec<u8>, CodecError> {
        let mut bytes = serde_json::to_vec(&value).map_err(CodecError::new)?;
        bytes.reverse();
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8], into: Decode<'_>) -> Result<(), CodecError> {
        let bytes: Vec<u8> = bytes.iter().rev().copied().collect();
        Json.decode(&bytes, into)
    }
}

/// A user's codec that does everything wrong.
#[derive(Debug)]
struct Careless;

impl Codec for Careless {
    fn id(&self) -> u8 {
        0xff
    }

    fn name(&self) -> &'static str {
        "careless"
    }

    fn encode(&self, _: Encode<'_>) -> Result<Vec<u8>, CodecError> {
        panic!("no idea")
    }

    fn decode(&self, _: &[u8], _: Decode<'_>) -> Result<(), CodecError> {
        Ok(())
    }
}

/// Panics when serialised, and when deserialised.
#[derive(Debug)]
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("card 4111")
    }
}

impl<'de> Deserialize<'de> for Bomb {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("card {}", 4111)
    }
}

fn writing_with(codec: impl Codec) -> Codecs {
    Codecs::default().writing_with(codec).unwrap()
}

fn all() -> Vec<Codecs> {
    vec![
        Codecs::default(),
        #[cfg(feature = "msgpack")]
        writing_with(MessagePack),
        writing_with(Reversed(0x80)),
    ]
}

#[test]
fn a_value_comes_back_from_every_codec() {
    for codecs in all() {
        let stored = codecs.encode(&order()).unwrap();
        assert_eq!(codecs.decode::<Order>(&stored).unwrap(), order(), "{codecs:?}");
        let stored = codecs.encode(&()).unwrap();
        codecs.decode::<()>(&stored).unwrap();
    }
}

#[test]
fn stored_bytes_are_frozen() {
    assert_eq!(Codecs::default().encode(&("a", 1)).unwrap(), b"\x01[\"a\",1]");
    #[cfg(feature = "msgpack")]
    assert_eq!(
        writing_with(MessagePack).encode(&BTreeMap::from([("a", 1)])).unwrap(),
        b"\x02\x81\xa1a\x01"
    );
    assert_eq!(writing_with(Reversed(0x81)).encode(&("a", 1)).unwrap(), b"\x81]1,\"a\"[");
}

#[cfg(feature = "msgpack")]
#[test]
fn message_pack_keeps_field_names() {
    #[derive(Serialize)]
    struct Before {
        id: u32,
        name: &'static str,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct After {
        name: String,
        #[serde(default)]
        added: Option<u8>,
        id: u32,
    }
    let codecs = writing_with(MessagePack);
    let stored = codecs.encode(&Before { id: 7, name: "x" }).unwrap();
    let read: After = codecs.decode(&stored).unwrap();
    assert_eq!(read, After { name: "x".into(), added: None, id: 7 });
}

#[test]
fn direct_and_erased_paths_write_and_read_the_same_bytes() {
    let direct = Codecs::default().encode(&order()).unwrap();
    let erased = Json.encode(Encode::new(&order())).unwrap();
    assert_eq!(direct[1..], erased);
    let read: Order = decode_custom(&Json, &direct[1..]).unwrap();
    assert_eq!(read, order());
    #[cfg(feature = "msgpack")]
    {
        let direct = writing_with(MessagePack).encode(&order()).unwrap();
        let erased = MessagePack.encode(Encode::new(&order())).unwrap();
        assert_eq!(direct[1..], erased);
        let read: Order = decode_custom(&MessagePack, &direct[1..]).unwrap();
        assert_eq!(read, order());
    }
}

#[test]
fn a_change_of_codec_leaves_older_values_readable() {
    let before = writing_with(Reversed(0x80));
    let stored = before.encode(&order()).unwrap();
    let after = before.writing_with(Json).unwrap();
    assert_eq!(after.decode::<Order>(&stored).unwrap(), order());
    assert_eq!(after.encode(&1).unwrap(), b"\x011");
    let elsewhere = Codecs::default().and_reading(Reversed(0x80)).unwrap();
    assert_eq!(elsewhere.decode::<Order>(&stored).unwrap(), order());
}

#[test]
fn an_unknown_id_is_named() {
    let error = |stored: &[u8]| Codecs::default().decode::<u8>(stored).unwrap_err().to_string();
    assert_eq!(error(b"\x991"), "stored value has the unknown codec id 0x99");
    assert_eq!(error(b"\x001"), "stored value has the unknown codec id 0x00");
    assert_eq!(error(b"\x7f1"), "stored value is encrypted, and no encryption is configured");
    assert_eq!(error(b""), "stored value is empty and names no codec");
    #[cfg(not(feature = "msgpack"))]
    assert_eq!(error(b"\x021"), "stored value is message-pack, and the feature `msgpack` is off");
}

#[test]
fn reserved_and_repeated_ids_are_refused() {
    let error = Codecs::default().writing_with(Reversed(0x01)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "codec `reversed` has the reserved id 0x01; accepted: 0x80 to 0xff"
    );
    let error = writing_with(Reversed(0x80)).and_reading(Reversed(0x80)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "codecs `reversed` and `reversed` both have id 0x80; give one of them another"
    );
    assert!(writing_with(Reversed(0x80)).writing_with(Reversed(0x80)).is_err());
    assert!(Codecs::default().and_reading(Json).is_ok());
}

#[test]
fn a_panic_of_the_users_code_is_an_error_that_says_so() {
    for codecs in all() {
        let error = codecs.encode(&Bomb).unwrap_err();
        assert!(error.to_string().ends_with(" panicked"), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "card 4111");
        let stored = codecs.encode(&1).unwrap();
        let error = codecs.decode::<Bomb>(&stored).unwrap_err();
        assert!(error.to_string().ends_with(" panicked"), "{error}");
    }
    let error = writing_with(Careless).encode(&1).unwrap_err();
    assert_eq!(error.to_string(), "encoding the value as careless panicked");
}

#[test]
fn a_codec_that_gives_no_value_is_an_error() {
    let error = writing_with(Careless).decode::<u8>(b"\xff").unwrap_err();
    assert_eq!(error.to_string(), "codec `careless` decoded no value");
}

#[test]
fn bytes_after_the_value_are_an_error() {
    for codecs in all() {
        let mut stored = codecs.encode(&"value").unwrap();
        // After the payload in reading order: the reversed codec reads from the end.
        let end = if stored[0] == 0x80 { 1 } else { stored.len() };
        stored.insert(end, b'1');
        assert!(codecs.decode::<String>(&stored).is_err(), "{codecs:?}");
    }
}

#[test]
fn a_value_without_a_form_is_an_error_with_a_source() {
    let map = BTreeMap::from([(vec![1], 2)]);
    let error = Codecs::default().encode(&map).unwrap_err();
    assert_eq!(error.to_string(), "value has no form in json");
    assert!(error.source().is_some());
}

#[test]
fn what_does_not_fit_is_not_quoted() {
    for codecs in all() {
        let stored = codecs.encode(&"secret").unwrap();
        let error = codecs.decode::<u64>(&stored).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        assert!(error.source().is_some());
    }
    let error = Codecs::default().decode::<u64>(b"\x01\"secret\"").unwrap_err();
    assert_eq!(error.to_string(), "stored json does not fit the type, at line 1 column 8");
}

proptest! {
    #[test]
    fn every_number_comes_back_to_the_last_bit(
        float in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        single in prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
        big in any::<i128>(),
        unsigned in any::<u64>(),
    ) {
        for codecs in all() {
            // The erased path has no 128-bit integers in every format; the built-in ones do.
            let stored = codecs.encode(&(float, single, unsigned)).unwrap();
            let read: (f64, f32, u64) = codecs.decode(&stored).unwrap();
            prop_assert_eq!(read.0.to_bits(), float.to_bits());
            prop_assert_eq!(read.1.to_bits(), single.to_bits());
            prop_assert_eq!(read.2, unsigned);
        }
        let stored = Codecs::default().encode(&big).unwrap();
        prop_assert_eq!(Codecs::default().decode::<i128>(&stored).unwrap(), big);
    }

    #[test]
    fn damaged_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for codecs in all() {
            if let Err(error) = codecs.decode::<Order>(&bytes) {
                prop_assert!(!error.to_string().contains("panicked"));
            }
        }
    }
}
