//! Paths over all elements of a sequence, as other languages have them: `req.items[*].id`.

use proc_macro2::Ident;

use super::path::{KEY_PART, root_of};
use crate::methods::method_of;

/// The marks of all elements.
const MARKS: [&str; 5] = ["[*]", "[]", "[..]", "[:]", ".*"];

/// A path over all elements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elements<'a> {
    /// The text before the path, and after it.
    around: (&'a str, &'a str),
    sequence: &'a str,
    /// The path from an element, which may be empty.
    rest: &'a str,
}

impl<'a> Elements<'a> {
    /// Finds the path in the text of a key.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let (at, mark) = MARKS.iter().find_map(|mark| Some((text.find(mark)?, mark)))?;
        let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
        let (before, after) = (&text[..at], &text[at + mark.len()..]);
        let start = before.rfind(|c| !is_path(c)).map_or(0, |at| at + 1);
        let end = after.find(|c| !is_path(c)).unwrap_or(after.len());
        let end = end + if after[end..].starts_with("()") { 2 } else { 0 };
        let (sequence, rest) = (&before[start..], &after[..end]);
        let is_whole =
            (rest.is_empty() || rest.starts_with('.')) && !after[end..].starts_with(['[', '?']);
        let is_sequence =
            sequence.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'));
        (is_whole && is_sequence).then_some(Self {
            around: (&before[..start], &after[end..]),
            sequence,
            rest,
        })
    }

    /// The problem, and what to write for the argument `name`. `written` is another text in its place.
    pub(crate) fn explain(
        &self,
        name: &Ident,
        written: impl Fn(&str) -> String,
    ) -> (String, String) {
        let Self { around: (before, after), sequence, rest } = *self;
        let sequence = &sequence.replace("$.", "req.");
        let key = |path: &str| format!("`{}`", written(&format!("{before}{path}{after}")));
        let what = format!("a path in `{name}` cannot go over all elements of `{sequence}`");
        let Some(field) = rest.rsplit('.').next().filter(|field| !field.is_empty()) else {
            return (what, format!("the sequence is a part of a key itself: {}", key(sequence)));
        };
        let parts = format!("{}s", field.trim_end_matches("()"));
        let root = root_of(sequence);
        let in_caller = format!(
            "collect them in the caller, and pass them as a parameter `{parts}: impl idempotent_runtime::KeyPart`: {}",
            key(&parts)
        );
        let Some(way) = sequence.strip_prefix(root).filter(|way| !way.is_empty()) else {
            return (what, in_caller);
        };
        let borrow = if field.ends_with("()") { "" } else { "&" };
        let method = format!(
            "fn {parts}(&self) -> {KEY_PART} {{ self{way}.iter().map(|it| {borrow}it{rest}).collect::<Vec<_>>() }}"
        );
        let call = format!("{}, with ", key(&format!("{root}.{parts}()")));
        (what, method_of(root, &call, &method, &in_caller))
    }
}

#[cfg(test)]
mod tests {
    use quote::format_ident;

    use super::*;

    #[test]
    fn all_elements_are_a_method_of_their_owner() {
        let key = |text| {
            Elements::of(text)
                .unwrap()
                .explain(&format_ident!("key"), |path| format!("key = \"{path}\""))
        };
        let (what, help) = key("(id, req.items[*].sku.id)");
        assert_eq!(what, "a path in `key` cannot go over all elements of `req.items`");
        assert!(help.contains("`key = \"(id, req.ids())\"`, with "), "{help}");
        assert!(help.contains("{ self.items.iter().map(|it| &it.sku.id).collect::<Vec<_>>() }"));
        assert!(key("req.items[].id()").1.contains(".map(|it| it.id())"));
        assert!(key("orders[*].id").1.starts_with("collect them in the caller"));
        assert!(key("$.items[..]").1.ends_with("itself: `key = \"req.items\"`"));
        for text in ["a[*][*]", "[*].id", "a.b", "x *.y", "a[*]b"] {
            assert_eq!(Elements::of(text), None, "{text}");
        }
    }
}
