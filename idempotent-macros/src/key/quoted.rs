//! Rust code inside a string literal.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::LitStr;
use syn::parse::Parse;

/// Parses the literal's text; every token points at the literal.
pub(crate) fn parse<T: Parse>(literal: &LitStr) -> syn::Result<T> {
    parse_text(&literal.value(), literal.span())
}

/// Parses `text`; every token points at `span` and resolves as the literal would. For names that are
/// as the user's own, the compiler proposes similar ones.
pub(super) fn parse_text<T: Parse>(text: &str, span: Span) -> syn::Result<T> {
    let tokens: TokenStream = text.parse().map_err(|error| syn::Error::new(span, error))?;
    syn::parse2(respan(tokens, span))
}

/// Moves errors to the literal itself.
pub(super) fn point_at(literal: &LitStr, errors: syn::Error) -> syn::Error {
    let mut errors = errors.into_iter().map(|error| syn::Error::new(literal.span(), error));
    let first = errors.next().expect("an error holds at least one message");
    errors.fold(first, |mut all, next| {
        all.combine(next);
        all
    })
}

fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &token {
                token = Group::new(group.delimiter(), respan(group.stream(), span)).into();
            }
            token.set_span(span);
            token
        })
        .collect()
}
