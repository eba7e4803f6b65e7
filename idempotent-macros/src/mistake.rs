//! Errors about the user's code: a statement of the problem, then a `help:` that can be typed.

use std::fmt::Display;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::LitStr;

use crate::words::Words;

/// The text of an error that rustc reports itself.
const REPORTED: &str = "";

/// Creates an error at the user's tokens `at`.
pub(crate) fn mistake(at: impl ToTokens, what: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new_spanned(at, format!("{what}\nhelp: {help}"))
}

/// An error that rustc reports at the same tokens, so that nothing is added to it.
pub(crate) fn reported() -> syn::Error {
    syn::Error::new(Span::call_site(), REPORTED)
}

/// The errors found so far, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Option<syn::Error>);

impl Mistakes {
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = syn::Error>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Returns the value, or records the error and returns `None`.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// One `compile_error!` per error, with the names of the user's function in its help. None at
    /// all if rustc has reported one of them: the others may be its consequences.
    pub(crate) fn into_compile_errors(self, words: &Words) -> TokenStream {
        let errors: Vec<_> = self.0.into_iter().flatten().collect();
        if errors.iter().any(|error| error.to_string() == REPORTED) {
            return TokenStream::new();
        }
        errors.iter().map(|error| reworded(error.to_compile_error(), words)).collect()
    }

    /// Returns `value`, or all errors combined into one.
    pub(crate) fn or<T>(self, value: T) -> syn::Result<T> {
        match self.0 {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }
}

/// Changes the text of a `compile_error!` and keeps its span, which may have two ends.
fn reworded(tokens: TokenStream, words: &Words) -> TokenStream {
    let reword = |token: TokenTree| match token {
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), reworded(group.stream(), words));
            inner.set_span(group.span());
            TokenTree::Group(inner)
        }
        TokenTree::Literal(literal) => match syn::parse2::<LitStr>(literal.to_token_stream()) {
            Ok(text) => {
                let mut changed =
                    LitStr::new(&words.put_into(&text.value()), literal.span()).token();
                changed.set_span(literal.span());
                TokenTree::Literal(changed)
            }
            Err(_) => TokenTree::Literal(literal),
        },
        token => token,
    };
    tokens.into_iter().map(reword).collect()
}
