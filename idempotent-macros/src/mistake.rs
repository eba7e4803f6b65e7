//! Errors about the user's code: a statement of the problem, then a `help:` that can be typed.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The error type of the function, in examples that are written before it is known.
pub(crate) const ERROR_TYPE: &str = "OrderError";

/// Creates an error at the user's tokens `at`.
pub(crate) fn mistake(at: impl ToTokens, what: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new_spanned(at, format!("{what}\nhelp: {help}"))
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

    /// Puts the error type of the function into examples with [`ERROR_TYPE`].
    pub(crate) fn with_error_type(self, name: &str) -> Self {
        if name == ERROR_TYPE {
            return self;
        }
        let mut named = Self::default();
        for error in self.0.into_iter().flatten() {
            let text = error.to_string();
            named.push(match text.contains(&format!("{ERROR_TYPE}::is_final")) {
                true => syn::Error::new(error.span(), text.replace(ERROR_TYPE, name)),
                false => error,
            });
        }
        named
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// One `compile_error!` per error.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.0.map(|error| error.to_compile_error()).unwrap_or_default()
    }

    /// Returns `value`, or all errors combined into one.
    pub(crate) fn or<T>(self, value: T) -> syn::Result<T> {
        match self.0 {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }
}
