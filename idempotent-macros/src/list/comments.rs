//! Doc comments and attributes between the arguments.

use proc_macro2::{Group, TokenStream};
use quote::quote;
use syn::parse::ParseStream;
use syn::{LitStr, Meta, Token};

use crate::mistake::{Mistakes, mistake};
use crate::source::source;

/// Takes the doc comments and attributes that begin here. Of a comment, the first line is reported.
pub(super) fn take(input: ParseStream<'_>, mistakes: &mut Mistakes) {
    let mut in_comment = false;
    while let Some((tokens, inside)) = attribute(input) {
        let comment = comment(&inside);
        if let (None, _) | (Some(_), false) = (&comment, in_comment) {
            mistakes.push(refusal(&tokens, &inside, comment.as_deref()));
        }
        in_comment = comment.is_some();
    }
}

/// `#[..]` or `#![..]`, and what is inside.
fn attribute(input: ParseStream<'_>) -> Option<(TokenStream, TokenStream)> {
    let ahead = input.fork();
    let hash = ahead.parse::<Token![#]>().ok()?;
    let bang = ahead.parse::<Option<Token![!]>>().ok()?;
    let group = ahead.parse::<Group>().ok()?;
    let _ =
        (input.parse::<Token![#]>(), input.parse::<Option<Token![!]>>(), input.parse::<Group>());
    let inside = group.stream();
    Some((quote!(#hash #bang #group), inside))
}

/// The text of a doc comment.
pub(crate) fn comment(inside: &TokenStream) -> Option<String> {
    let meta = syn::parse2::<Meta>(inside.clone()).ok()?;
    let pair = meta.require_name_value().ok().filter(|pair| pair.path.is_ident("doc"))?;
    let value = &pair.value;
    Some(syn::parse2::<LitStr>(quote!(#value)).ok()?.value())
}

fn refusal(tokens: &TokenStream, inside: &TokenStream, comment: Option<&str>) -> syn::Error {
    match comment {
        Some(text) => not_here("between arguments", tokens, text),
        None => {
            let condition = syn::parse2::<syn::MetaList>(inside.clone());
            let help = match condition.ok().filter(|list| list.path.is_ident("cfg")) {
                Some(list) => format!(
                    "put the condition on the whole: `#[cfg_attr({}, idempotent(..))]`",
                    source(&list.tokens)
                ),
                None => format!("put it above the function: `{}`", source(tokens)),
            };
            mistake(tokens, "an argument has no attributes", help)
        }
    }
}

/// The error for a doc comment, which documents nothing at its place.
pub(crate) fn not_here(place: &str, at: &TokenStream, text: &str) -> syn::Error {
    let line = text.trim().lines().next().unwrap_or_default();
    let what = format!("a doc comment cannot stand {place}");
    mistake(at, what, format!("an ordinary comment can: `// {}`", line.trim()))
}
