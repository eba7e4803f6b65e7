//! Attributes and doc comments on parameters, and a second `#[idempotent]`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Attribute, FnArg, ReturnType};

use crate::args::{self, Args};
use crate::function::{Function, mark};
use crate::list;
use crate::mistake::{Mistakes, mistake};
use crate::source::{source, type_source};

/// Refuses doc comments on parameters, and `#[key]`, as other languages mark the key.
///
/// Both may be for an attribute below, which comes after this one.
pub(super) fn validate(
    args: &Args,
    written: &TokenStream,
    function: &Function,
    mistakes: &mut Mistakes,
) {
    if function.has_macros() {
        return;
    }
    let mut marked: Vec<(&str, &Attribute, String)> = Vec::new();
    for input in &function.sig.inputs {
        let (attrs, parameter) = match input {
            FnArg::Typed(typed) => (&typed.attrs, source(&typed.pat)),
            FnArg::Receiver(receiver) => (&receiver.attrs, "self".to_owned()),
        };
        let comment = attrs.iter().find_map(|attr| {
            let text = list::comment(&attr.meta.to_token_stream())?;
            Some(list::not_here("on a parameter", &attr.to_token_stream(), &text))
        });
        mistakes.extend(comment);
        let mark = attrs.iter().find_map(|attr| Some((mark(attr)?, attr)));
        let mark = mark.filter(|(argument, _)| !is_given(argument, args));
        marked.extend(mark.map(|(argument, attr)| (argument, attr, parameter)));
    }
    for name in ["key", "scope", "fingerprint"] {
        let same: Vec<_> = marked.iter().filter(|(argument, ..)| *argument == name).collect();
        let parts: Vec<_> = same.iter().map(|(.., parameter)| parameter.as_str()).collect();
        let value = match parts.as_slice() {
            [] => continue,
            [only] => (*only).to_owned(),
            parts => format!("({})", parts.join(", ")),
        };
        let what = format!("`{name}` is an argument of `#[idempotent(..)]`, and no attribute");
        let help = joined(&format!("{name} = \"{value}\""), &source(written));
        let help = format!("`{help}`");
        mistakes.push(mistake(same[0].1.path(), what, help));
    }
}

/// The attribute with the arguments of both lists.
pub(super) fn joined(first: &str, second: &str) -> String {
    let lists = [first, second].map(|list| list.trim_end_matches([',', ' ']));
    let lists: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    format!("#[idempotent({})]", lists.join(", "))
}

/// The place of an argument that is missing: the arguments that are `written`, or else the attribute.
pub(super) fn given(written: &TokenStream, function: &Function) -> TokenStream {
    // With the context of the user's own code, so that the compiler does not tell of the macro.
    let attribute = function.sig.ident.span().located_at(Span::call_site());
    match written.is_empty() {
        true => quote_spanned!(attribute=> _),
        false => written.clone(),
    }
}

/// Returns `true` if the argument is given.
fn is_given(name: &str, args: &Args) -> bool {
    match name {
        "key" => args.key.is_some(),
        "scope" => args.scope.is_some(),
        _ => args.fingerprint.is_some(),
    }
}

/// Help for a second attribute: both in one, or a second function for a second limit.
pub(super) fn merged(first: &TokenStream, second: &Attribute, function: &Function) -> String {
    let second = match second.meta.require_list() {
        Ok(list) => list.tokens.clone(),
        Err(_) => TokenStream::new(),
    };
    let mut all = arguments(first.clone());
    let (mut keys_differ, mut others_differ, mut has_two_keys) = (false, false, false);
    for (name, value) in arguments(second.clone()) {
        let is_key = args::find(&name).is_some_and(|argument| argument.is_key);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if is_key && *known != value => {
                keys_differ = true;
                has_two_keys |= name == "key";
                let (Some(one), Some(two)) = (parts(known), parts(&value)) else { continue };
                *known = format!(" = \"({one}, {two})\"");
            }
            Some((_, known)) => others_differ |= *known != value,
            None => all.push((name, value)),
        }
    }
    if keys_differ && others_differ {
        return format!("for a second limit, {}", second_function(&second, function));
    }
    let all: Vec<_> = all.into_iter().map(|(name, value)| name + &value).collect();
    let all = format!("`#[idempotent({})]`", all.join(", "));
    match has_two_keys {
        true => format!(
            "for a repeat by either key, {}; for one that has both, put all arguments into one: {all}",
            second_function(&second, function)
        ),
        false => format!("put all arguments into one: {all}"),
    }
}

/// A function with a limit of its own, which calls this one.
fn second_function(arguments: &TokenStream, function: &Function) -> String {
    let (name, arguments) = (&function.sig.ident, source(arguments));
    let (mut receiver, mut values) = ("", Vec::new());
    for input in &function.sig.inputs {
        match input {
            FnArg::Receiver(_) => receiver = "self.",
            FnArg::Typed(typed) => values.push(source(&typed.pat)),
        }
    }
    let is_word = |value: &String| value.chars().all(|c| c.is_alphanumeric() || c == '_');
    match (&function.sig.output, values.iter().all(is_word)) {
        (ReturnType::Type(_, returns), true) => {
            let head = function.head(Some(&type_source(returns)));
            let head = head.replacen(&format!("fn {name}"), &format!("fn limited_{name}"), 1);
            format!(
                "a function that calls this one: `#[idempotent({arguments})] {head} {{ {receiver}{name}({}).await }}`",
                values.join(", ")
            )
        }
        _ => format!("put `#[idempotent({arguments})]` on a function that calls this one"),
    }
}

/// The names of the arguments, and what follows each.
fn arguments(list: TokenStream) -> Vec<(String, String)> {
    let tokens: Vec<TokenTree> = list.into_iter().collect();
    let pieces = tokens.split(|token| token.to_string() == ",");
    let pieces = pieces.filter_map(|piece| {
        let (name, value) = piece.split_first()?;
        let value: TokenStream = value.iter().cloned().collect();
        let value = source(&value);
        let space = if value.is_empty() { "" } else { " " };
        Some((name.to_string(), format!("{space}{value}")))
    });
    pieces.collect()
}

/// `user, id` for `= "(user, id)"`, unless the value is text.
fn parts(value: &str) -> Option<String> {
    let value = value.trim_start_matches([' ', '=']);
    let is_text = value.contains('{') || value.starts_with("const");
    let inner = value.trim_matches('"');
    let inner = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
    (!is_text).then(|| inner.to_owned())
}
