//! Unambiguous text encoding of key parts.
//!
//! Strings are quoted and escaped, numbers and words are bare, groups are bracketed, and adjacent
//! parts are separated. So no part can imitate the end of another.

use super::KeyPart;
use std::fmt::{self, Write as _};

/// Destination of an encoded [`KeyPart`].
#[derive(Debug)]
pub struct KeyWriter {
    text: String,
    /// Set after an atom, so that another one beside it gets a separator.
    ended: bool,
}

impl KeyWriter {
    pub(crate) fn new() -> Self {
        Self { text: spare::take(), ended: false }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Writes a string: quoted, with quotes, backslashes and control characters escaped.
    pub fn text(&mut self, text: &str) {
        self.start();
        self.text.push('"');
        push_escaped(&mut self.text, text);
        self.text.push('"');
    }

    /// Writes what `value` displays as a string.
    ///
    /// For types of other crates whose `Display` tells values apart exactly as their equality does.
    pub fn display(&mut self, value: &(impl fmt::Display + ?Sized)) {
        self.start();
        self.text.push('"');
        // The sink never fails. A `Display` that fails keeps the text that it wrote until then.
        let _ = write!(Escaping(&mut self.text), "{value}");
        self.text.push('"');
    }

    /// Writes an unsigned integer. Equal numbers of different widths are equal key parts.
    pub fn unsigned(&mut self, value: u128) {
        self.start();
        match u64::try_from(value) {
            Ok(small) => self.text.push_str(itoa::Buffer::new().format(small)),
            Err(_) => drop(write!(self.text, "{value}")),
        }
    }

    /// Writes a signed integer. Equal numbers of different widths are equal key parts.
    pub fn signed(&mut self, value: i128) {
        if let Ok(value) = u128::try_from(value) {
            return self.unsigned(value);
        }
        self.start();
        let _ = write!(self.text, "{value}");
    }

    /// Writes a number that is in its only form.
    pub(super) fn number(&mut self, number: &str) {
        self.start();
        self.text.push_str(number);
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.start();
        self.text.push_str(if value { "true" } else { "false" });
    }

    /// Opens a tuple: `(a,b)`. Dropping the group closes it.
    pub fn tuple(&mut self) -> Group<'_> {
        self.start();
        Group::open(self, Shape::Tuple)
    }

    /// Opens a sequence: `[a,b]`. Dropping the group closes it.
    pub fn list(&mut self) -> Group<'_> {
        self.start();
        Group::open(self, Shape::List)
    }

    /// Writes a variant: `Name`, or `Name(a,b)` if parts follow. Dropping the group closes it.
    pub fn variant(&mut self, name: &str) -> Group<'_> {
        self.start();
        push_word(&mut self.text, name);
        Group::open(self, Shape::Variant)
    }

    /// Writes literal text of a template, between its holes. Bars are escaped, because they
    /// separate the parts of a record key.
    pub(super) fn literal(&mut self, text: &str) {
        for (index, piece) in text.split('|').enumerate() {
            if index > 0 {
                self.text.push_str("\\|");
            }
            push_escaped(&mut self.text, piece);
        }
        self.ended = false;
    }

    /// Writes one hole of a template: the part in braces, which occur nowhere else unquoted.
    pub(super) fn hole(&mut self, part: &(impl KeyPart + ?Sized)) {
        self.text.push('{');
        self.ended = false;
        self.one(part);
        self.text.push('}');
        self.ended = false;
    }

    /// Writes a marker for an absent optional part, which no part can write itself.
    pub(crate) fn absent_part(&mut self, in_template: bool) {
        self.text.push_str(if in_template { "{?}" } else { "?" });
    }

    pub(super) fn no_holes(&mut self) {
        self.text.push_str("{}");
    }

    pub(super) fn open_tuple(&mut self) {
        self.text.push('(');
    }

    pub(super) fn separate(&mut self) {
        self.text.push(',');
    }

    pub(super) fn close_tuple(&mut self) {
        self.text.push(')');
        self.ended = true;
    }

    /// Writes `part`, or a marker if it writes nothing, so that it still counts as one part.
    pub(super) fn one(&mut self, part: &(impl KeyPart + ?Sized)) {
        let before = self.text.len();
        self.ended = false;
        part.encode(self);
        if self.text.len() == before {
            self.text.push('_');
        }
        self.ended = true;
    }

    fn start(&mut self) {
        if self.ended {
            self.text.push(';');
        }
        self.ended = true;
    }
}

/// A reusable buffer per thread, since every call encodes a key.
pub(crate) mod spare {
    use std::cell::Cell;

    thread_local! {
        static SPARE: Cell<String> = const { Cell::new(String::new()) };
    }

    pub(super) fn take() -> String {
        let mut text = SPARE.take();
        text.clear();
        text.reserve(48);
        text
    }

    /// Gives back a buffer that is no longer needed.
    pub(crate) fn give_back(text: String) {
        if text.capacity() <= 1024 {
            SPARE.set(text);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Tuple,
    List,
    Variant,
}

/// A tuple, list or variant that is being written. Dropping it writes the closing bracket.
#[derive(Debug)]
pub struct Group<'a> {
    key: &'a mut KeyWriter,
    shape: Shape,
    parts: usize,
}

impl<'a> Group<'a> {
    fn open(key: &'a mut KeyWriter, shape: Shape) -> Self {
        match shape {
            Shape::Tuple => key.text.push('('),
            Shape::List => key.text.push('['),
            Shape::Variant => {}
        }
        Self { key, shape, parts: 0 }
    }

    /// Adds one part.
    pub fn part<K: KeyPart + ?Sized>(&mut self, part: &K) -> &mut Self {
        self.separate();
        self.key.one(part);
        self
    }

    /// Adds one part that may be missing. `Some` writes its value as [`part`](Self::part) does, and
    /// `None` writes `?`, which no part can write itself.
    ///
    /// ```
    /// use idempotent_runtime::key::{Encoded, KeyPart, KeyWriter};
    ///
    /// struct Seat { row: u32, berth: Option<String> }
    ///
    /// impl KeyPart for Seat {
    ///     fn encode(&self, key: &mut KeyWriter) {
    ///         key.tuple().part(&self.row).optional(&self.berth);
    ///     }
    /// }
    ///
    /// let upper = Seat { row: 7, berth: Some("upper".into()) };
    /// assert_eq!(Encoded::of(&upper).as_str(), r#"(7,"upper")"#);
    /// assert_eq!(Encoded::of(&Seat { row: 7, berth: None }).as_str(), "(7,?)");
    /// ```
    pub fn optional<K: KeyPart>(&mut self, part: &Option<K>) -> &mut Self {
        match part {
            Some(part) => self.part(part),
            None => {
                self.separate();
                self.key.absent_part(false);
                self.key.ended = true;
                self
            }
        }
    }

    fn separate(&mut self) {
        match (self.parts, self.shape) {
            (0, Shape::Variant) => self.key.text.push('('),
            (0, _) => {}
            _ => self.key.text.push(','),
        }
        self.parts += 1;
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        match self.shape {
            Shape::Tuple => self.key.text.push(')'),
            Shape::List => self.key.text.push(']'),
            Shape::Variant if self.parts > 0 => self.key.text.push(')'),
            Shape::Variant => {}
        }
        self.key.ended = true;
    }
}

struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

/// Appends `text`. Escapes everything that could end a quoted string, open a hole or be invisible
/// to a reader.
fn push_escaped(out: &mut String, text: &str) {
    // Without an early exit, so that it is vectorized.
    let special =
        |found, byte| found | matches!(byte, b'"' | b'\\' | b'{' | b'}' | 0..=0x1f | 0x7f);
    if !text.bytes().fold(false, special) {
        return out.push_str(text);
    }
    for character in text.chars() {
        match character {
            '"' | '\\' | '{' | '}' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => drop(write!(out, "\\x{:02x}", u32::from(character))),
            _ => out.push(character),
        }
    }
}

/// Appends a bare word. Characters other than letters, digits and underscores are escaped.
fn push_word(out: &mut String, word: &str) {
    // A word starts with a letter, so that it cannot be taken for a number or the empty part. It is
    // never `true` or `false`, which are values.
    if !word.starts_with(char::is_alphabetic) || matches!(word, "true" | "false") {
        out.push('\'');
    }
    for character in word.chars() {
        if character.is_alphanumeric() || character == '_' {
            out.push(character);
        } else {
            let _ = write!(out, "\\u{:x}.", u32::from(character));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use std::collections::{BTreeMap, BTreeSet};

    fn encode(part: &(impl KeyPart + ?Sized)) -> String {
        let mut key = KeyWriter::new();
        part.encode(&mut key);
        key.into_text()
    }

    #[test]
    fn atoms_read_like_rust() {
        assert_eq!(encode("acme"), r#""acme""#);
        assert_eq!(encode(&42_u8), "42");
        assert_eq!(encode(&-7_i64), "-7");
        assert_eq!(encode(&u128::MAX), u128::MAX.to_string());
        assert_eq!(encode(&true), "true");
        assert_eq!(encode(&("acme", 42)), r#"("acme",42)"#);
        assert_eq!(encode(&vec![1, 2]), "[1,2]");
    }

    #[test]
    fn every_type_has_its_own_look() {
        assert_eq!(encode(&String::from("acme")), r#""acme""#);
        assert_eq!(encode(&'x'), r#""x""#);
        assert_eq!(encode(&Cow::Borrowed("acme")), r#""acme""#);
        assert_eq!(encode(&[1, 2]), "[1,2]");
        assert_eq!(encode(&BTreeSet::from([2, 1])), "[1,2]");
        assert_eq!(encode(&BTreeMap::from([("a", 1), ("b", 2)])), r#"[("a",1),("b",2)]"#);
        assert_eq!(encode(&()), "()");
        assert_eq!(encode(&std::net::Ipv4Addr::LOCALHOST), r#""127.0.0.1""#);
    }

    #[test]
    fn what_displays_hostile_characters_stays_inside_its_quotes() {
        struct Hostile;
        impl fmt::Display for Hostile {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a\"b")
            }
        }
        let mut key = KeyWriter::new();
        key.display(&Hostile);
        assert_eq!(key.into_text(), r#""a\"b""#);
    }

    #[test]
    fn white_space_is_shown() {
        assert_eq!(encode("a\r\n\tb"), r#""a\r\n\tb""#);
    }

    #[test]
    fn bars_in_templates_are_escaped() {
        let mut key = KeyWriter::new();
        key.literal("a|b||c");
        assert_eq!(key.into_text(), r"a\|b\|\|c");
    }

    #[test]
    fn words_are_neither_numbers_nor_values() {
        let variant = |name| {
            let mut key = KeyWriter::new();
            key.variant(name);
            key.into_text()
        };
        assert_eq!(variant("Gold_1"), "Gold_1");
        assert_eq!(variant("true"), "'true");
        assert_eq!(variant("1st"), "'1st");
        assert_eq!(variant("a-b"), r"a\u2d.b");
    }

    #[test]
    fn integers_of_all_widths_agree() {
        assert_eq!(encode(&7_i8), encode(&7_u128));
        assert_eq!(encode(&7_usize), encode(&7_u64));
    }

    #[test]
    fn hostile_characters_stay_inside_their_quotes() {
        assert_eq!(encode("a\"),(\"b"), r#""a\"),(\"b""#);
        assert_eq!(encode("\0\n\x1b{}\\"), r#""\x00\n\x1b\{\}\\""#);
        assert_ne!(encode(&("a", "b")), encode(&(r#"a","b"#,)));
    }

    #[test]
    fn two_atoms_side_by_side_are_separated() {
        struct Careless(u8, u8);
        impl KeyPart for Careless {
            fn encode(&self, key: &mut KeyWriter) {
                key.unsigned(self.0.into());
                key.unsigned(self.1.into());
            }
        }
        assert_ne!(encode(&Careless(1, 23)), encode(&Careless(12, 3)));
    }

    #[test]
    fn a_part_that_writes_nothing_still_counts() {
        struct Silent;
        impl KeyPart for Silent {
            fn encode(&self, _: &mut KeyWriter) {}
        }
        assert_eq!(encode(&(Silent, Silent)), "(_,_)");
    }

    #[test]
    fn a_variant_without_fields_is_its_name() {
        let mut key = KeyWriter::new();
        key.variant("Gold");
        assert_eq!(key.into_text(), "Gold");
        let mut key = KeyWriter::new();
        key.variant("Gold").part(&1).part("x");
        assert_eq!(key.into_text(), r#"Gold(1,"x")"#);
    }
}
