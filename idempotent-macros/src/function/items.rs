//! Items that are not functions, and where the attribute goes in their place.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{FnArg, ImplItem, Item, Signature};

use crate::mistake::mistake;

pub(super) fn not_a_function(item: &TokenStream) -> syn::Error {
    let what = |kind| format!("`#[idempotent]` goes on an async function, not on {kind}");
    let help = "`#[idempotent(..)] async fn create_order(..) -> Result<..> { .. }`";
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => mistake(&item.ident, what("a struct"), help),
        Ok(Item::Enum(item)) => mistake(&item.ident, what("an enum"), help),
        Ok(Item::Union(item)) => mistake(&item.ident, what("a union"), help),
        Ok(Item::Trait(item)) => {
            let methods = "put it on the methods of the `impl` blocks that run once per key: \
                           `#[idempotent(..)] async fn create(&self, ..)`";
            mistake(&item.ident, what("a trait"), methods)
        }
        Ok(Item::Mod(item)) => {
            let items = item.content.as_ref().map_or(&[][..], |(_, items)| items);
            let first = items.iter().find_map(|item| match item {
                Item::Fn(function) => example(&function.sig),
                _ => None,
            });
            mistake(&item.ident, what("a module"), on_each(first))
        }
        Ok(Item::Impl(item)) => {
            let first = item.items.iter().find_map(|item| match item {
                ImplItem::Fn(function) => example(&function.sig),
                _ => None,
            });
            mistake(item.impl_token, what("an `impl` block"), on_each(first))
        }
        _ => {
            let first: TokenStream = item.clone().into_iter().take(1).collect();
            let at = if first.is_empty() { quote_spanned!(Span::call_site()=> _) } else { first };
            if syn::parse2::<syn::ExprClosure>(item.clone()).is_ok() {
                let help = "move it to a function: `#[idempotent(..)] async fn send(..) -> Result<..> { \
                            .. }`; a closure runs in `Idempotency::operation`";
                return mistake(at, what("a closure"), help);
            }
            if at.to_string() == "let" {
                let help = format!("put it on the function that is called: {help}");
                return mistake(at, what("a statement"), help);
            }
            mistake(at, "`#[idempotent]` goes on an async function", help)
        }
    }
}

/// `async fn create(&self, ..)`, if the function is async.
fn example(sig: &Signature) -> Option<String> {
    sig.asyncness?;
    let parameters = match (sig.inputs.first(), sig.inputs.len()) {
        (None, _) => "",
        (Some(FnArg::Receiver(_)), 1) => "&self",
        (Some(FnArg::Receiver(_)), _) => "&self, ..",
        (Some(FnArg::Typed(_)), _) => "..",
    };
    Some(format!("async fn {}({parameters})", sig.ident))
}

fn on_each(first: Option<String>) -> String {
    let first = first.as_deref().unwrap_or("async fn create(..)");
    format!("put it on each function that runs once per key: `#[idempotent(..)] {first}`")
}
