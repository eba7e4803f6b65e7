//! Encoded keys, scopes and fingerprints of a call.

use super::{KeyPart, KeyWriter};

/// An encoded key, scope or fingerprint.
///
/// [`Encoded::of`] writes a part exactly as `key = ".."` does, so that an operator can name the
/// record of a call; [`Parts`] does the same for templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Origin of an encoded key, which also says whether it can be used as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Encoded from the call's own arguments.
    Given,
    /// Encoded from the call's own arguments, which were empty as a whole.
    Empty,
    /// An optional part was `None`.
    Absent,
    /// Taken from the ambient token when the call is made.
    Ambient,
}

impl Encoded {
    /// Encodes one part, as `key = "req.order_id"` does.
    pub fn of<K: KeyPart + ?Sized>(part: &K) -> Self {
        let mut key = KeyWriter::new();
        key.one(part);
        Self::given(key)
    }

    /// Encodes an optional part, as `key = "req.token?"` does: `None` is a missing key.
    pub fn of_optional<K: KeyPart>(part: &Option<K>) -> Self {
        match part {
            Some(part) => Self::of(part),
            None => Self { text: "?".to_owned(), origin: Origin::Absent },
        }
    }

    /// Stands for the ambient token at the time of the call.
    pub fn ambient() -> Self {
        Self { text: String::new(), origin: Origin::Ambient }
    }

    /// The encoded text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn given(key: KeyWriter) -> Self {
        let text = key.into_text();
        let origin = match text.as_str() {
            "\"\"" | "()" | "[]" | "_" => Origin::Empty,
            _ => Origin::Given,
        };
        Self { text, origin }
    }
}

impl<K: KeyPart + ?Sized> From<&K> for Encoded {
    fn from(part: &K) -> Self {
        Self::of(part)
    }
}

/// Builds a tuple or a template part by part, as `key = "(a, b?)"` and `key = "user:{a}"` do.
#[derive(Debug)]
pub struct Parts {
    key: KeyWriter,
    template: bool,
    parts: usize,
    absent: bool,
}

impl Parts {
    /// Starts a tuple.
    pub fn tuple() -> Self {
        let mut parts = Self { key: KeyWriter::new(), template: false, parts: 0, absent: false };
        parts.key.open_tuple();
        parts
    }

    /// Starts a template.
    pub fn template() -> Self {
        Self { key: KeyWriter::new(), template: true, parts: 0, absent: false }
    }

    /// Adds one part: the next member of the tuple, or the next hole of the template.
    pub fn part<K: KeyPart + ?Sized>(mut self, part: &K) -> Self {
        self.next();
        if self.template {
            self.key.hole(part);
        } else {
            self.key.one(part);
        }
        self
    }

    /// Adds an optional part. `None` makes the whole key missing.
    pub fn optional<K: KeyPart>(mut self, part: &Option<K>) -> Self {
        match part {
            Some(part) => self.part(part),
            None => {
                self.next();
                self.absent = true;
                self.key.absent_part(self.template);
                self
            }
        }
    }

    /// Adds literal text to a template. A tuple has no literal text: there it does nothing.
    pub fn text(mut self, text: &str) -> Self {
        if self.template {
            self.key.literal(text);
        }
        self
    }

    /// Returns the encoded key.
    pub fn finish(mut self) -> Encoded {
        match (self.template, self.parts) {
            (false, _) => self.key.close_tuple(),
            // Braces mark a template, even one without holes.
            (true, 0) => self.key.no_holes(),
            (true, _) => {}
        }
        let encoded = Encoded::given(self.key);
        if self.absent { Encoded { origin: Origin::Absent, ..encoded } } else { encoded }
    }

    fn next(&mut self) {
        if self.parts > 0 && !self.template {
            self.key.separate();
        }
        self.parts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_tuple_equals_the_tuple_itself() {
        let built = Parts::tuple().part("acme").part(&42).finish();
        assert_eq!(built, Encoded::of(&("acme", 42)));
    }

    #[test]
    fn a_template_shows_its_holes() {
        let key = Parts::template().text("user:").part(&7).text(":order:").part("x").finish();
        assert_eq!(key.as_str(), r#"user:{7}:order:{"x"}"#);
    }

    #[test]
    fn template_text_cannot_imitate_a_hole() {
        let honest = Parts::template().text("a:").part(&1).finish();
        let hostile = Parts::template().text("a:{1}").part("").finish();
        assert_ne!(honest.as_str(), hostile.as_str());
        assert_eq!(hostile.as_str(), r#"a:\{1\}{""}"#);
    }

    #[test]
    fn a_template_without_holes_is_no_number() {
        assert_ne!(Parts::template().text("42").finish(), Encoded::of(&42));
    }

    #[test]
    fn none_is_absent_and_some_is_the_part_itself() {
        assert_eq!(Encoded::of_optional(&Some(5)), Encoded::of(&5));
        assert_eq!(Encoded::of_optional::<u8>(&None).origin, Origin::Absent);
        let tuple = Parts::tuple().part(&1).optional::<u8>(&None).finish();
        assert_eq!((tuple.as_str(), tuple.origin), ("(1,?)", Origin::Absent));
    }

    #[test]
    fn an_empty_string_is_an_empty_key() {
        assert_eq!(Encoded::of("").origin, Origin::Empty);
        assert_eq!(Encoded::of(" ").origin, Origin::Given);
    }
}
