//! Other separators than `=` between a name and its value, as other languages have them.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{LitStr, Token};

use super::{TokenTree, ends, written_value};
use crate::args::{self, Argument};
use crate::mistake::mistake;
use crate::source::source;

/// One error for a list with several values after something else than `=`, and the list as it should be.
pub(super) fn with_other_separators(input: ParseStream<'_>) -> Option<(syn::Error, TokenStream)> {
    let entries = Entry::all(&input.fork())?;
    if !entries.iter().all(|entry| args::find(&entry.name.to_string()).is_some()) {
        return None;
    }
    let mut wrong = entries.iter().filter_map(|entry| Some((entry, entry.separator.as_ref()?)));
    let (first, separator) = wrong.next()?;
    wrong.next()?;
    let what = format!("`{}` takes its value after `=`, and so do the others", first.name);
    let corrected = entries.iter().map(|Entry { name, value, .. }| match value.is_empty() {
        true => quote!(#name,),
        false => quote!(#name = #value,),
    });
    Some((mistake(separator, what, format!("`{}`", written(&entries))), corrected.collect()))
}

/// The arguments of a list as they should be written, with `=` before their values.
pub(super) fn listed(input: ParseStream<'_>) -> syn::Result<String> {
    let entries = Entry::all(&input.fork()).ok_or_else(|| input.error(""))?;
    input.parse::<TokenStream>()?;
    Ok(written(&entries))
}

fn written(entries: &[Entry]) -> String {
    let entries = entries.iter().map(|Entry { name, value, .. }| match value.is_empty() {
        true => name.to_string(),
        false => format!("{name} = {}", source(value)),
    });
    entries.collect::<Vec<_>>().join(", ")
}

/// An argument of a list in which another separator may stand in the place of `=`.
struct Entry {
    name: Ident,
    /// The other separator.
    separator: Option<TokenStream>,
    /// Empty for a name alone.
    value: TokenStream,
}

impl Entry {
    /// The entries of a list that has a name before each value, with or without quotes.
    fn all(input: ParseStream<'_>) -> Option<Vec<Self>> {
        let mut entries = Vec::new();
        while !input.is_empty() {
            let name = match input.parse::<LitStr>() {
                Ok(name) => name.parse().ok()?,
                Err(_) => input.call(Ident::parse_any).ok()?,
            };
            let separator = separator(input);
            if separator.is_none() && !ends(input) {
                input.parse::<Token![=]>().ok()?;
            }
            let mut value = TokenStream::new();
            while !ends(input) {
                value.extend(input.parse::<TokenTree>().ok()?.0);
            }
            let _ = input.parse::<Token![,]>();
            entries.push(Self { name, separator, value });
        }
        Some(entries)
    }
}

/// Takes `:`, `=>`, `->` or `==`.
pub(super) fn separator(input: ParseStream<'_>) -> Option<TokenStream> {
    if input.peek(Token![:]) && !input.peek(Token![::]) {
        let colon = input.parse::<Token![:]>().ok()?;
        let _ = input.parse::<Token![=]>();
        Some(colon.to_token_stream())
    } else if input.peek(Token![->]) {
        Some(input.parse::<Token![->]>().ok()?.to_token_stream())
    } else if input.peek(Token![=>]) {
        Some(input.parse::<Token![=>]>().ok()?.to_token_stream())
    } else if input.peek(Token![==]) {
        Some(input.parse::<Token![==]>().ok()?.to_token_stream())
    } else {
        None
    }
}

/// `key: ..`, `key => ..`, `key -> ..`, `key == ..`
pub(super) fn other_separator(
    input: ParseStream<'_>,
    name: &Ident,
    argument: &Argument,
) -> Option<syn::Error> {
    let ahead = input.fork();
    let separator = separator(&ahead)?;
    let what = format!("`{name}` takes its value after `=`");
    let help = match written_value(&ahead) {
        Some(value) => format!("`{name} = {value}`"),
        None => format!("`{}`", argument.example),
    };
    Some(mistake(separator, what, help))
}
