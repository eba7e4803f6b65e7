//! Requires an async function.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::ReturnType;

use super::{attributes, returns};
use crate::function::{self, Function, Shape};
use crate::mistake::mistake;
use crate::source::{source, type_source};

/// Requires an async function.
pub(super) fn validate(function: &Function, written: &TokenStream) -> syn::Result<()> {
    let sig = &function.sig;
    let name = &sig.ident;
    let again = function
        .attrs
        .iter()
        .find(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "idempotent"));
    if let Some(again) = again {
        let what = format!("`{name}` has `#[idempotent]` twice");
        return Err(mistake(again.path(), what, attributes::merged(written, again, function)));
    }
    if let Some(token) = &sig.constness {
        let what = format!("`{name}` is a `const fn`, which cannot ask a store");
        return Err(mistake(token, what, format!("`{}`", async_head(function))));
    }
    if let Some(error) = function::variadic(sig) {
        return Err(error);
    }
    if let Some(abi) = &sig.abi {
        let what = format!("`{name}` is an `extern` function, which other languages cannot await");
        return Err(mistake(abi, what, format!("`{}`", async_head(function))));
    }
    if let Shape::Plain = function.shape {
        if let Some((span, attribute)) = function.blocking_attribute() {
            // Not as what that attribute has written, which the compiler would tell.
            let at = quote_spanned!(name.span().located_at(span)=> _);
            let what = format!("`#[{attribute}]` has made `{name}` a function that is not async");
            let help = format!("put `#[idempotent({})]` above `#[{attribute}]`", source(written));
            return Err(mistake(at, what, help));
        }
        let what = format!("`{name}` is not async");
        let help = match (function.future_output(), &sig.output) {
            (Some(output), _) => {
                let output = type_source(&output);
                match function.rewritten(&output, |last| Some(returns::awaited(last?))) {
                    Some(whole) => format!("`{whole}`"),
                    None => {
                        let head = function.head(Some(&output));
                        format!("`{head}`, with `.await` on the future in the body")
                    }
                }
            }
            (None, ReturnType::Type(..)) => format!("`{}`", async_head(function)),
            (None, ReturnType::Default) => {
                let head = function.head(Some("Result<(), idempotent_runtime::Error>"));
                format!("`{head}`, with `Ok(())` at the end")
            }
        };
        return Err(mistake(sig.fn_token, what, help));
    }
    Ok(())
}

/// `async fn create(id: u64) -> Result<u64, Error>`.
fn async_head(function: &Function) -> String {
    match &function.sig.output {
        ReturnType::Type(_, ty) => function.head(Some(&type_source(ty))),
        ReturnType::Default => function.head(None),
    }
}
