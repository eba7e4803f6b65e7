//! The enum, its options, and the list of transitions.

mod list;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Attribute, Data, DataEnum, DeriveInput, Fields, LitStr, Meta, Variant};

use self::list::Entry;
use super::{Machine, StateName};
use crate::mistake::{Mistakes, mistake};
use crate::suggest::nearest;

/// The longest name that every database keeps.
const MOST_BYTES: usize = 255;

/// Reads the enum. There is nothing to generate for an item that cannot have states.
pub(super) fn machine(input: &DeriveInput, mistakes: &mut Mistakes) -> Option<Machine> {
    let data = states_of(input, mistakes)?;
    let states: Vec<_> =
        data.variants.iter().filter_map(|variant| state(variant, mistakes)).collect();
    let entries = entries(input, data, mistakes);
    // A variant with fields cannot be generated as a state, and the rest cannot do without it.
    if states.len() < data.variants.len() {
        return None;
    }
    let (mut library, mut rules) = (None, Vec::new());
    for entry in entries {
        match entry {
            Entry::Rule(rule) => rules.push(rule),
            Entry::Library(name, _) if library.is_some() => {
                mistakes.push(mistake(name, "`crate` is given twice", "remove one `crate`"));
            }
            Entry::Library(_, path) => library = Some(path),
        }
    }
    let (name, visibility) = (input.ident.clone(), input.vis.clone());
    Some(Machine { name, visibility, library, states, rules })
}

fn states_of<'a>(input: &'a DeriveInput, mistakes: &mut Mistakes) -> Option<&'a DataEnum> {
    let name = &input.ident;
    let (keyword, kind) = match &input.data {
        Data::Enum(data) if data.variants.is_empty() => {
            let help = format!("`enum {name} {{ Pending, Paid }}`");
            mistakes.push(mistake(name, format!("`{name}` has no states"), help));
            return None;
        }
        Data::Enum(_) if !input.generics.params.is_empty() => {
            let what = format!("`{name}` has parameters, and a state is only a name");
            mistakes.push(mistake(&input.generics, what, format!("`enum {name}`")));
            return None;
        }
        Data::Enum(data) => return Some(data),
        Data::Struct(data) => (data.struct_token.to_token_stream(), "struct"),
        Data::Union(data) => (data.union_token.to_token_stream(), "union"),
    };
    let what = format!("`{name}` is a {kind}, and states are the variants of an enum");
    mistakes.push(mistake(keyword, what, format!("`enum {name} {{ Pending, Paid }}`")));
    None
}

/// Reads a variant; none if it has fields.
fn state(variant: &Variant, mistakes: &mut Mistakes) -> Option<StateName> {
    let name = &variant.ident;
    let renamed = variant
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("transitions"))
        .fold(None, |_, attr| renamed(name, attr, mistakes));
    if !matches!(variant.fields, Fields::Unit) {
        let what = format!("`{name}` has fields, and a state is only a name");
        let help = format!("`{name}`, with its data in columns of the table");
        mistakes.push(mistake(&variant.fields, what, help));
        return None;
    }
    let stored = renamed.unwrap_or_else(|| snake_case(&name.unraw().to_string()));
    Some(StateName { variant: name.clone(), stored })
}

/// Reads `#[transitions(rename = "..")]` on a variant.
fn renamed(variant: &Ident, attr: &Attribute, mistakes: &mut Mistakes) -> Option<String> {
    let example = format!("`#[transitions(rename = \"{}\")]`", snake_case(&variant.to_string()));
    let mut stored = None;
    let read = attr.parse_nested_meta(|option| {
        if !option.path.is_ident("rename") {
            let name = option.path.to_token_stream().to_string();
            let help = match nearest(&name, ["rename"]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => example.clone(),
            };
            // What follows belongs to the mistake.
            option.input.parse::<TokenStream>()?;
            let what = format!("unknown option `{name}` on a state");
            return Err(mistake(&option.path, what, help));
        }
        if stored.is_some() {
            return Err(mistake(&option.path, "`rename` is given twice", "remove one `rename`"));
        }
        let text = option.value().and_then(|value| value.parse::<LitStr>());
        let text = text.map_err(|_| {
            let _ = option.input.parse::<TokenStream>();
            mistake(&option.path, "`rename` takes a quoted string", &example)
        })?;
        check_stored(&text, &example)?;
        stored = Some(text.value());
        Ok(())
    });
    mistakes.take(read);
    stored
}

/// Names go into statements and into columns of a limited width.
fn check_stored(text: &LitStr, example: &str) -> syn::Result<()> {
    let name = text.value();
    let what = if name.trim().is_empty() {
        "the name of a state is empty".to_owned()
    } else if name.len() > MOST_BYTES {
        format!("the name of a state has more than {MOST_BYTES} bytes")
    } else if name.contains(|it: char| matches!(it, '\'' | '"' | '\\' | '`') || it.is_control()) {
        "the name of a state has a quote, a backslash or a control character in it".to_owned()
    } else {
        return Ok(());
    };
    Err(mistake(text, what, example))
}

/// The entries of all `#[transitions(..)]` on the enum.
fn entries(input: &DeriveInput, data: &DataEnum, mistakes: &mut Mistakes) -> Vec<Entry> {
    let example = example(data);
    let attrs: Vec<_> =
        input.attrs.iter().filter(|attr| attr.path().is_ident("transitions")).collect();
    let Some(first) = attrs.first() else {
        let what = format!("`{}` declares no transitions", input.ident);
        let help = format!("`#[transitions({example})]` on the enum");
        mistakes.push(mistake(&input.ident, what, help));
        return Vec::new();
    };
    let before = mistakes.is_empty();
    let mut entries = Vec::new();
    for attr in &attrs {
        match &attr.meta {
            Meta::List(list) => {
                entries.extend(list::entries(list.tokens.clone(), &example, mistakes));
            }
            Meta::Path(_) => {}
            Meta::NameValue(_) => {
                let what = "transitions are written in parentheses";
                mistakes.push(mistake(attr, what, format!("`#[transitions({example})]`")));
                return entries;
            }
        }
    }
    let none = !entries.iter().any(|entry| matches!(entry, Entry::Rule(_)));
    // A list with mistakes in it is not empty.
    if none && before == mistakes.is_empty() {
        let help = format!("`#[transitions({example})]`");
        mistakes.push(mistake(first, "the list of transitions is empty", help));
    }
    entries
}

/// A transition between the first two states.
fn example(data: &DataEnum) -> String {
    let mut names = data.variants.iter().map(|variant| &variant.ident);
    match (names.next(), names.next()) {
        (Some(from), Some(to)) => format!("event: {from} => {to}"),
        _ => "pay: Pending => Paid".to_owned(),
    }
}

/// `InTransit` as `in_transit`.
fn snake_case(name: &str) -> String {
    let letters: Vec<_> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let next_is_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins_a_word = letter.is_uppercase()
            && before
                .is_some_and(|before| before != '_' && (!before.is_uppercase() || next_is_small));
        if begins_a_word {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::snake_case;

    #[test]
    fn names_of_states_are_words_with_underscores() {
        for (variant, stored) in [
            ("Paid", "paid"),
            ("InTransit", "in_transit"),
            ("HTTPSent", "http_sent"),
            ("V2Ready", "v2_ready"),
            ("On_Hold", "on_hold"),
            ("Größe", "größe"),
        ] {
            assert_eq!(snake_case(variant), stored);
        }
    }
}
