//! Attributes of the function and of its parameters.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, FnArg};

use super::{Function, pattern, printed};

impl Function {
    /// Returns `true` if an attribute below this one may be a macro, to which the attributes of the
    /// parameters may belong.
    pub(crate) fn has_macros(&self) -> bool {
        self.attrs.iter().any(is_macro)
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
