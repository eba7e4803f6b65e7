//! The path of the runtime crate in generated code.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Path;

/// The runtime crate, as the `crate` argument names it.
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

    /// The hidden module for generated code, at `span`. The whole path has one span, so that type
    /// errors are reported there.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        let root = self.root(span);
        quote_spanned!(span=> #root::__private)
    }
}

/// Moves the tokens to `span` and keeps how their names resolve.
fn relocated(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(token.span().located_at(span));
            token
        })
        .collect()
}
