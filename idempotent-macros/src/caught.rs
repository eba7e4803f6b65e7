//! Panics of this crate as compile errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proc_macro2::{Span, TokenStream};
use quote::quote;

/// Returns the expansion. If it panics, returns `item`, which is the user's own code, and an error
/// that says so: a function that is missing would cause an error at each of its uses.
pub(crate) fn or_item(
    name: &str,
    item: TokenStream,
    expand: impl FnOnce() -> TokenStream,
) -> TokenStream {
    // Nothing that the closure changes is used after a panic.
    catch_unwind(AssertUnwindSafe(expand)).unwrap_or_else(|panic| {
        let text = format!(
            "`{name}` failed, which is a mistake in it and not in your code: {}\n\
             help: please report it with the arguments and the signature",
            reason(&*panic)
        );
        let error = syn::Error::new(Span::call_site(), text).to_compile_error();
        quote!(#item #error)
    })
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_item_and_becomes_an_error() {
        let item = quote!(
            async fn create() {}
        );
        let caught = or_item("#[idempotent]", item.clone(), || panic!("no {}", "way")).to_string();
        assert!(caught.starts_with(&item.to_string()), "{caught}");
        assert!(caught.contains("compile_error"), "{caught}");
        assert!(caught.contains("not in your code: no way"), "{caught}");
        assert_eq!(or_item("", item.clone(), || quote!(x)).to_string(), "x");
    }
}
