//! Attributes of the function and of its parameters.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, FnArg, Meta};

use super::{Function, pattern, printed};

impl Function {
    /// Returns `true` if an attribute below this one may be a macro, to which the attributes of the
    /// parameters may belong.
    pub(crate) fn has_macros(&self) -> bool {
        self.attrs.iter().any(is_macro)
    }

    /// The attribute above this one that has put the async body into a runtime and left a function that blocks on
    /// it, as `#[tokio::main]` does: its place, and its text without the brackets.
    pub(crate) fn blocking_attribute(&self) -> Option<(Span, String)> {
        attribute_of_async(self.body.clone())
    }

    /// The condition under which there is a parameter of this name: `windows` for `#[cfg(windows)]`, and
    /// `any(windows, unix)` for one of each.
    pub(crate) fn condition(&self, name: &Ident) -> Option<TokenStream> {
        let inputs = self.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) if pattern::names(&typed.pat).contains(name) => Some(&typed.attrs),
            _ => None,
        });
        let conditions = inputs.map(|attrs| {
            let conditions: Vec<_> = attrs.iter().filter_map(cfg).collect();
            match conditions.as_slice() {
                [] => None,
                [only] => Some(only.clone()),
                all => Some(quote!(all(#(#all),*))),
            }
        });
        let conditions = conditions.collect::<Option<Vec<_>>>()?;
        match conditions.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            any => Some(quote!(any(#(#any),*))),
        }
    }

    /// The function as it was, without doc comments and marks on its parameters: the compiler would
    /// report them again.
    pub(crate) fn without_marks(&self, item: &TokenStream) -> TokenStream {
        let Self { attrs, sig, vis, brace, body, .. } = self;
        let mut sig = sig.clone();
        let mut found = false;
        for input in &mut sig.inputs {
            let attrs = match input {
                FnArg::Typed(typed) => &mut typed.attrs,
                FnArg::Receiver(receiver) => &mut receiver.attrs,
            };
            let before = attrs.len();
            attrs.retain(|attr| mark(attr).is_none() && !attr.path().is_ident("doc"));
            found |= attrs.len() < before;
        }
        match found && !self.has_macros() {
            true => printed(attrs, &quote!(#vis #sig), brace, body),
            false => item.clone(),
        }
    }
}

/// The attribute that has written an `async` in the tokens: what a macro writes is at the place of its attribute.
fn attribute_of_async(tokens: TokenStream) -> Option<(Span, String)> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(word) if word == "async" => {
            let written = word.span().source_text()?;
            let written = written.split_whitespace().collect::<Vec<_>>().join(" ");
            let inside = written.strip_prefix("#[").and_then(|rest| rest.strip_suffix(']'));
            // Under a condition, it has no brackets of its own.
            let is_path = |meta: Meta| meta.path().segments.len() > 1;
            let in_condition = || syn::parse_str(&written).is_ok_and(is_path).then_some(&*written);
            let attribute = inside.or_else(in_condition)?.to_owned();
            Some((word.span(), attribute))
        }
        TokenTree::Group(group) => attribute_of_async(group.stream()),
        _ => None,
    })
}

/// `windows` of `#[cfg(windows)]`.
fn cfg(attr: &Attribute) -> Option<TokenStream> {
    let list = attr.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"))?;
    Some(list.tokens.clone())
}

/// The argument that an attribute of a parameter stands for: `key` for `#[key]`.
pub(crate) fn mark(attr: &Attribute) -> Option<&'static str> {
    match attr.path().get_ident()?.to_string().as_str() {
        "key" | "idempotency_key" | "idempotent_key" | "idempotent" => Some("key"),
        "scope" => Some("scope"),
        "fingerprint" => Some("fingerprint"),
        _ => None,
    }
}

/// Returns `true` for an attribute that the language does not have.
fn is_macro(attr: &Attribute) -> bool {
    const BUILT_IN: [&str; 13] = [
        "allow",
        "cfg",
        "cfg_attr",
        "cold",
        "deny",
        "deprecated",
        "doc",
        "expect",
        "forbid",
        "inline",
        "must_use",
        "track_caller",
        "warn",
    ];
    const TOOLS: [&str; 3] = ["clippy", "diagnostic", "rustfmt"];
    let path = attr.path();
    let is_tool =
        path.segments.first().is_some_and(|first| TOOLS.iter().any(|tool| first.ident == tool));
    !is_tool && !BUILT_IN.iter().any(|known| path.is_ident(known))
}
