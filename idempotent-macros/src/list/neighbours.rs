//! The arguments beside an unknown one. Help that named one of them again would lead to the next mistake.

use proc_macro2::{TokenStream, TokenTree};

use crate::args;
use crate::source::source;
use crate::suggest::quoted_list;
use crate::value::Mode;

/// The known arguments of a list, with their values as they were written.
#[derive(Debug, Default)]
pub(super) struct Neighbours(Vec<(String, String)>);

impl Neighbours {
    pub(super) fn of(list: TokenStream) -> Self {
        let tokens: Vec<_> = list.into_iter().collect();
        let entries = tokens.split(|token| token.to_string() == ",");
        Self(entries.filter_map(entry).collect())
    }

    /// The value of an argument.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An argument as it was written.
    pub(super) fn written(&self, name: &str) -> Option<String> {
        Some(format!("{name} = {}", self.value(name)?))
    }

    /// Returns `true` for an argument that has nothing to do in the mode of the list.
    pub(super) fn leave_idle(&self, name: &str) -> bool {
        let mode = self.value("mode").and_then(|mode| Mode::of(mode.trim_matches('"')));
        mode.is_some_and(|mode| mode.idle().contains(&name))
    }

    /// The help without what the list has already, or with the user's own arguments in its examples.
    pub(super) fn put_into(&self, help: &str) -> String {
        match help.starts_with("remove it") {
            true => {
                let clauses = help.split("; ").filter_map(|clause| self.own_example(clause));
                clauses.collect::<Vec<_>>().join("; ")
            }
            false => self.in_place_of(help),
        }
    }

    /// A clause of help that proposes nothing: its examples are the user's arguments.
    fn own_example(&self, clause: &str) -> Option<String> {
        let (mut text, mut names) = (clause.to_owned(), Vec::new());
        for code in clause.split('`').skip(1).step_by(2) {
            let example = Self::of(code.parse().unwrap_or_default());
            names.extend(example.0.iter().map(|(name, _)| name.clone()));
            let new: Vec<_> =
                example.0.iter().filter(|(name, _)| self.value(name).is_none()).collect();
            if new.len() == example.0.len() {
                continue;
            }
            let own = match new.is_empty() {
                true => listed(self.0.iter().filter(|(name, _)| example.value(name).is_some())),
                false => listed(new),
            };
            // An example of what the user has written needs none.
            text = text.replace(&format!(", as in `{code}`"), "");
            text = text.replace(&format!("`{code}`"), &format!("`{own}`"));
        }
        (!names.iter().any(|name| self.leave_idle(name))).then_some(text)
    }

    /// Help with proposals: those that the user has already are left out, and the others take their place.
    fn in_place_of(&self, help: &str) -> String {
        let mut text = help.to_owned();
        for code in help.split('`').skip(1).step_by(2) {
            let proposed = Self::of(code.parse().unwrap_or_default()).0;
            let has = |(name, value): &&(String, String)| self.value(name) == Some(value.as_str());
            let new: Vec<_> = proposed.iter().filter(|it| !has(it)).collect();
            let replaced: Vec<_> = new.iter().filter_map(|(name, _)| self.written(name)).collect();
            if new.len() == proposed.len() && replaced.is_empty() {
                continue;
            }
            if new.is_empty() {
                return format!("remove it: {help}");
            }
            let in_place = match replaced.is_empty() {
                true => String::new(),
                false => format!(" in place of {}", quoted_list(replaced)),
            };
            let own = format!("`{}`{in_place}", listed(new));
            text = text.replace(&format!("`{code}`"), &own);
        }
        text
    }
}

/// `name = value, name = value`
fn listed<'a>(arguments: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let arguments = arguments.into_iter().map(|(name, value)| format!("{name} = {value}"));
    arguments.collect::<Vec<_>>().join(", ")
}

/// `name = value`
fn entry(tokens: &[TokenTree]) -> Option<(String, String)> {
    let [TokenTree::Ident(name), TokenTree::Punct(equals), value @ ..] = tokens else {
        return None;
    };
    let name = name.to_string();
    args::find(&name).filter(|_| equals.as_char() == '=' && !value.is_empty())?;
    Some((name, source(&value.iter().cloned().collect::<TokenStream>())))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn what_is_there_is_not_proposed_again() {
        let list =
            Neighbours::of(quote!(key = "id", mode = "reject", expire = f(1, 2), detach, wait = ));
        assert_eq!(list.written("mode").as_deref(), Some("mode = \"reject\""));
        assert_eq!(list.value("expire"), Some("f(1, 2)"));
        assert_eq!(list.value("wait"), None);
        assert!(list.leave_idle("wait") && !list.leave_idle("lease"));
        for (help, expected) in [
            ("use `lease = 3`", "use `lease = 3`"),
            ("use `mode = \"reject\"`", "remove it: use `mode = \"reject\"`"),
            ("use `mode = \"reject\", lease = 3`", "use `lease = 3`"),
            ("use `mode = \"strong\"`", "use `mode = \"strong\"` in place of `mode = \"reject\"`"),
            ("remove it: kept for `expire = 3`", "remove it: kept for `expire = f(1, 2)`"),
            ("remove it: a key, as in `key = x`", "remove it: a key"),
            ("remove it: a; waits `wait = 3`", "remove it: a"),
        ] {
            assert_eq!(list.put_into(help), expected);
        }
    }
}
