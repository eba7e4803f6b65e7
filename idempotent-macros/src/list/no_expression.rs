//! Values that are no expressions of Rust.

use proc_macro2::{Ident, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Token};

use super::{TokenTree, ends};
use crate::args::Argument;
use crate::key::{self, Elements};
use crate::mistake::mistake;
use crate::source::source;

/// The error for the value that starts here.
pub(super) fn no_expression(
    value: ParseStream<'_>,
    name: &Ident,
    argument: &Argument,
) -> syn::Error {
    let first = value.fork();
    let rest: TokenStream = std::iter::from_fn(|| {
        let more = !ends(value);
        more.then(|| value.parse::<TokenTree>().ok()).flatten().map(|tree| tree.0)
    })
    .collect();
    if argument.is_key
        && let Some((what, path)) = key::keyword(&rest.to_string())
    {
        return mistake(rest, what, format!("{}`{name} = {path}`", key::RENAMED));
    }
    let written = rest.to_string().replace(' ', "");
    if let Some(elements) = Elements::of(&written).filter(|_| argument.is_key) {
        let (what, help) = elements.explain(name, |key| format!("{name} = {key}"));
        return mistake(rest, what, help);
    }
    let at: TokenStream = first.parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
    let what = format!("the value of `{name}` is not an expression");
    let help = match in_braces(&at).filter(|_| argument.is_key) {
        Some(parts) => format!("several parts are a tuple: `{name} = ({parts})`"),
        None => format!("`{}`", argument.example),
    };
    mistake(at, what, help)
}

/// `user, id` in `{user, id}`.
fn in_braces(group: &TokenStream) -> Option<String> {
    let group = syn::parse2::<proc_macro2::Group>(group.clone()).ok()?;
    let parser = syn::punctuated::Punctuated::<Expr, Token![,]>::parse_terminated;
    parser.parse2(group.stream()).ok()?;
    Some(source(&group.stream()))
}
