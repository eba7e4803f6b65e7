//! Types of argument values. Each type has its own error texts.

mod choice;
mod duration;
mod path;
mod text;

use darling::FromMeta;
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprLit, Lit, Meta};

pub(crate) use self::choice::{Abandon, Mode, OnStoreError, OnUnrecorded, variant};
pub(crate) use self::duration::{
    Length, Wait, configured, installed, is_placeholder, shortest_millis,
};
pub(crate) use self::path::{Bare, FunctionPath, Parameter, RuntimePath, final_errors, setting};
pub(crate) use self::text::{Message, OperationName};
use crate::mistake::mistake;

/// An argument that was given, with its value or the error in it.
#[derive(Debug)]
pub(crate) struct Given<T> {
    pub(crate) name: Ident,
    /// The tokens of the value, or the name where there are none.
    pub(crate) at: TokenStream,
    pub(crate) value: syn::Result<T>,
}

impl<T> Given<T> {
    pub(crate) fn ok(&self) -> Option<&T> {
        self.value.as_ref().ok()
    }
}

/// A type that can be parsed from the right side of `name = ..`.
pub(crate) trait Value: Sized {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self>;

    /// The value of `name` without `= ..`. Only flags allow it.
    fn word(name: &Ident) -> syn::Result<Self> {
        Err(syn::Error::new_spanned(name, format!("`{name}` needs a value")))
    }
}

impl<T: Value> FromMeta for Given<T> {
    fn from_meta(item: &Meta) -> darling::Result<Self> {
        let name = item.path().require_ident()?.clone();
        let (at, value) = match item {
            Meta::NameValue(pair) => {
                (pair.value.to_token_stream(), T::read(&name, peel(&pair.value)))
            }
            _ => (name.to_token_stream(), T::word(&name)),
        };
        Ok(Self { name, at, value })
    }
}

/// `detach`, or `detach = true`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub(crate) bool);

impl Value for Flag {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match literal(value) {
            Some(Lit::Bool(bool)) => Ok(Self(bool.value)),
            Some(Lit::Str(text)) if name == "shared_name" => {
                let what = format!("`{name}` is a flag, and `name` has the name");
                Err(mistake(value, what, format!("`name = \"{}\", {name}`", text.value())))
            }
            _ => {
                let what = format!("`{name}` is a flag and takes no value");
                Err(mistake(value, what, format!("`{name}`")))
            }
        }
    }

    fn word(_: &Ident) -> syn::Result<Self> {
        Ok(Self(true))
    }
}

/// The expression without the invisible groups that `macro_rules!` puts around its fragments.
pub(crate) fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => peel(&group.expr),
        _ => expr,
    }
}

/// Returns the literal if the expression is one.
pub(crate) fn literal(expr: &Expr) -> Option<&Lit> {
    match peel(expr) {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}
