//! The list `event: Source | Source => Target, ..`.
//!
//! An entry with a mistake is kept as far as it can be read: its event exists, and uses of it are
//! not reported.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Token};

use super::super::Rule;
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::suggest::nearest;

/// An entry of `#[transitions(..)]` on an enum.
pub(super) enum Entry {
    Rule(Rule),
    /// `crate = path`, with its first word.
    Library(Ident, Path),
}

pub(super) fn entries(tokens: TokenStream, example: &str, mistakes: &mut Mistakes) -> Vec<Entry> {
    let parser = |input: ParseStream<'_>| {
        let mut entries = Vec::new();
        while !input.is_empty() {
            entries.extend(entry(input, example, mistakes));
            separator(input, mistakes);
        }
        Ok(entries)
    };
    parser.parse2(tokens).unwrap_or_default()
}

fn entry(input: ParseStream<'_>, example: &str, mistakes: &mut Mistakes) -> Option<Entry> {
    if !input.peek(Ident::peek_any) {
        mistakes.push(no_event(input, example));
        skip_to_comma(input);
        return None;
    }
    let event = input.call(Ident::parse_any).ok()?;
    if input.peek(Token![=]) && !input.peek(Token![=>]) {
        return option(&event, input, mistakes);
    }
    if input.parse::<Token![:]>().is_err() {
        let what = format!("expected `:` after the event `{event}`");
        mistakes.push(mistake(&event, what, format!("`{}`", with_event(example, &event))));
        skip_to_comma(input);
        return Some(Entry::Rule(Rule { event, sources: Vec::new(), target: None }));
    }
    let sources = sources(input, mistakes);
    let target = target(input, &event, &sources, mistakes);
    Some(Entry::Rule(Rule { event, sources, target }))
}

/// `crate = path`, quoted or not.
fn option(name: &Ident, input: ParseStream<'_>, mistakes: &mut Mistakes) -> Option<Entry> {
    let example = "`#[transitions(crate = my_crate::sql)]`";
    let path = input.parse::<Token![=]>().and_then(|_| match input.parse::<LitStr>() {
        Ok(text) => text.parse_with(Path::parse_mod_style),
        Err(_) => input.call(Path::parse_mod_style),
    });
    if name != "crate" {
        skip_to_comma(input);
        let what = format!("unknown option `{name}` on the enum");
        let help = match (nearest(&name.to_string(), ["crate"]), *name == "rename") {
            (_, true) => "`#[transitions(rename = \"..\")]` on a variant".to_owned(),
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, _) => format!("`{name}: Source => Target`, or {example}"),
        };
        mistakes.push(mistake(name, what, help));
        return None;
    }
    match path {
        Ok(path) => Some(Entry::Library(name.clone(), path)),
        Err(_) => {
            skip_to_comma(input);
            mistakes.push(mistake(name, "`crate` takes a path", example));
            None
        }
    }
}

/// `Source | Source`. A comma between two of them is a mistake that is easily made.
fn sources(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Vec<Ident> {
    let mut sources = Vec::new();
    loop {
        sources.extend(state(input, mistakes));
        if input.peek(Token![|]) {
            let _ = input.parse::<Token![|]>();
            continue;
        }
        let goes_on = input.peek3(Token![=>]) || input.peek3(Token![,]) || input.peek3(Token![|]);
        if input.peek(Token![,]) && input.peek2(syn::Ident) && goes_on {
            if let Ok(comma) = input.parse::<Token![,]>() {
                let what = "several states are separated with `|`";
                mistakes.push(mistake(comma, what, "write `|` instead of the comma"));
            }
            continue;
        }
        return sources;
    }
}

/// `=> Target`
fn target(
    input: ParseStream<'_>,
    event: &Ident,
    sources: &[Ident],
    mistakes: &mut Mistakes,
) -> Option<Ident> {
    let names: Vec<_> = sources.iter().map(ToString::to_string).collect();
    let from = if names.is_empty() { "Source".to_owned() } else { names.join(" | ") };
    if input.peek(Token![->]) {
        let arrow: Token![->] = input.parse().ok()?;
        let to =
            input.fork().call(Ident::parse_any).map_or("Target".to_owned(), |it| it.to_string());
        let help = format!("`{event}: {from} => {to}`");
        mistakes.push(mistake(arrow, "a transition is written with `=>`", help));
    } else if input.parse::<Token![=>]>().is_err() {
        let what = format!("the event `{event}` has no target");
        let at = if ends(input) { event.to_token_stream() } else { next(input) };
        mistakes.push(mistake(at, what, format!("`{event}: {from} => Target`")));
        skip_to_comma(input);
        return None;
    }
    if ends(input) {
        let what = format!("the event `{event}` has no target");
        mistakes.push(mistake(event, what, format!("`{event}: {from} => Target`")));
        return None;
    }
    let target = state(input, mistakes);
    if input.peek(Token![|]) {
        let mut rest = TokenStream::new();
        while !ends(input) {
            rest.extend(next_taken(input));
        }
        let what = format!("the event `{event}` has several targets");
        let to = target.as_ref().map_or("Target".to_owned(), ToString::to_string);
        let help = format!("`{event}: {from} => {to}`, and an event of its own for another target");
        mistakes.push(mistake(rest, what, help));
    }
    target
}

/// A state, by the name of its variant alone.
fn state(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Option<Ident> {
    if input.peek(Token![::]) || (input.peek(Ident::peek_any) && input.peek2(Token![::])) {
        let path = input.call(Path::parse_mod_style).ok()?;
        let state = path.segments.last()?.ident.clone();
        let what = "a state is written without its type";
        mistakes.push(mistake(&path, what, format!("`{state}`")));
        return Some(state);
    }
    if input.peek(Ident::peek_any) {
        return input.call(Ident::parse_any).ok();
    }
    if ends(input) || input.peek(Token![=>]) || input.peek(Token![|]) {
        let at = if input.is_empty() { TokenStream::new() } else { next(input) };
        mistakes.push(match at.is_empty() {
            true => input.error("expected a state\nhelp: `event: Source => Target`"),
            false => mistake(at, "expected a state before this", "`event: Source => Target`"),
        });
        return None;
    }
    let token = next_taken(input);
    let help = match syn::parse2::<LitStr>(token.clone()).ok().map(|text| text.value()) {
        Some(text) if syn::parse_str::<Ident>(&text).is_ok() => format!("`{text}`"),
        _ => "the name of a variant: `event: Source => Target`".to_owned(),
    };
    mistakes.push(mistake(&token, format!("`{}` is not a state", source(&token)), help));
    None
}

fn no_event(input: ParseStream<'_>, example: &str) -> syn::Error {
    let token = next(input);
    let text = syn::parse2::<LitStr>(token.clone()).ok().map(|text| text.value());
    let help = match text.and_then(|text| syn::parse_str::<Ident>(&text).ok()) {
        Some(name) => with_event(example, &name),
        None => example.to_owned(),
    };
    let what = format!("`{}` is not the name of an event", source(&token));
    mistake(&token, what, format!("`{help}`"))
}

/// The example with another event in it.
fn with_event(example: &str, event: &Ident) -> String {
    match example.split_once(':') {
        Some((_, rest)) => format!("{event}:{rest}"),
        None => example.to_owned(),
    }
}

fn separator(input: ParseStream<'_>, mistakes: &mut Mistakes) {
    if input.is_empty() || input.parse::<Token![,]>().is_ok() {
        return;
    }
    let at = next(input);
    let what = format!("expected `,` before `{}`", source(&at));
    mistakes.push(mistake(&at, what, "separate the transitions with commas"));
    if !input.peek(Ident::peek_any) {
        skip_to_comma(input);
        let _ = input.parse::<Token![,]>();
    }
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !ends(input) {
        next_taken(input);
    }
}

/// The next token, which stays where it is.
fn next(input: ParseStream<'_>) -> TokenStream {
    next_taken(&input.fork())
}

fn next_taken(input: ParseStream<'_>) -> TokenStream {
    // An arrow is two tokens, and one to a reader.
    if input.peek(Token![=>])
        && let Ok(arrow) = input.parse::<Token![=>]>()
    {
        return quote!(#arrow);
    }
    input.parse::<TokenTree>().map(TokenTree::into).unwrap_or_default()
}
