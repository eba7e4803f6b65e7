//! The path of the runtime crate in generated code.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// The name of the hidden module of a crate that the user named.
const ALIAS: &str = "__idempotent_private";

/// The runtime crate, as the `crate` argument names it.
#[derive(Debug)]
pub(crate) struct Runtime(Option<Path>);

impl Runtime {
    /// The crate that the user named, or `::idempotent_runtime`.
    pub(crate) fn new(path: Option<Path>) -> Self {
        Self(path)
    }

    /// Imports the hidden module from the crate that the user named. A path that leads nowhere is
    /// one error then, and not one for each use.
    pub(crate) fn import(&self) -> Option<TokenStream> {
        let path = self.0.as_ref()?;
        // All at the user's names, so that an error is at the user's path. Items have no hygiene.
        let last = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        let (private, alias) = (Ident::new("__private", last), Ident::new(ALIAS, last));
        Some(quote!(use #path::#private as #alias;))
    }

    /// The hidden module for generated code, at `span`. The whole path has one span, so that type
    /// errors are reported there.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        match &self.0 {
            Some(_) => {
                let alias = Ident::new(ALIAS, Span::mixed_site().located_at(span));
                quote_spanned!(span=> #alias)
            }
            None => quote_spanned!(span=> ::idempotent_runtime::__private),
        }
    }
}
