//! Where the generated code finds the runtime.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Path;

/// The path of the runtime crate.
#[derive(Debug)]
pub(crate) struct Runtime(Option<Path>);

impl Runtime {
    /// The crate that the user named, or `::idempotent_runtime`.
    pub(crate) fn new(path: Option<Path>) -> Self {
        Self(path)
    }

    /// The crate, at `span`.
    pub(crate) fn root(&self, span: Span) -> TokenStream {
        match &self.0 {
            Some(path) => relocated(path.to_token_stream(), span),
            None => quote_spanned!(span=> ::idempotent_runtime),
        }
    }

    /// The hidden module for generated code, at `span`: a whole path at one place keeps the carets of
    /// type errors there.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        let root = self.root(span);
        quote_spanned!(span=> #root::__private)
    }
}

/// The tokens at another place, with the meaning that they have where they were written.
fn relocated(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(token.span().located_at(span));
            token
        })
        .collect()
}
