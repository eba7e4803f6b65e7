//! The attribute `#[idempotent(..)]` and `#[derive(KeyPart)]` of `idempotent-runtime`, and
//! `#[derive(Transitions)]` of `idempotent-sql`.
//!
//! This crate contains only the macros. Depend on `idempotent-runtime` or `idempotent-sql`, which
//! re-export them together with everything that the generated code calls.
//!
//! The modules follow an expansion: `list` splits the arguments, `args` and `value` parse them,
//! `key` parses key expressions, `function` inspects the function, `validate` checks the two
//! against each other, and `expand` generates the code. `mistake` writes errors, and `words` puts the
//! names of the user's function into their help; `condition` lets the compiler decide where only the name
//! of a type says that it is wrong. All independent errors are reported in the
//! same run, and the user's function is emitted beside them.

mod args;
#[cfg(any(test, proc_macro))]
mod caught;
mod condition;
mod derive;
mod expand;
mod foreign;
mod form;
mod function;
mod key;
mod key_types;
mod list;
mod methods;
mod mistake;
mod runtime;
mod source;
mod suggest;
mod synonyms;
mod transitions;
mod validate;
mod value;
mod words;

#[cfg(test)]
mod snapshots;

#[cfg(any(test, proc_macro))]
use proc_macro::TokenStream;

/// Makes an async function run once per key. A repeat call gets the first answer, or a refusal.
///
/// `idempotent_runtime::idempotent` documents every argument with a running example.
#[cfg(any(test, proc_macro))]
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item: proc_macro2::TokenStream = item.into();
    caught::or_item("#[idempotent]", item.clone(), || expand::idempotent(arguments.into(), item))
        .into()
}

/// Lets a struct or an enum be a part of a key.
///
/// `idempotent_runtime::KeyPart` documents the encoding and the options with running examples.
#[cfg(any(test, proc_macro))]
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn key_part(item: TokenStream) -> TokenStream {
    caught::or_item("#[derive(KeyPart)]", Default::default(), || derive::key_part(item.into()))
        .into()
}

/// Declares the transitions between the states of an enum.
///
/// `idempotent_sql::transitions` documents it with a running example.
#[cfg(any(test, proc_macro))]
#[proc_macro_derive(Transitions, attributes(transitions))]
pub fn transitions(item: TokenStream) -> TokenStream {
    let expansion = || transitions::transitions(item.into());
    caught::or_item("#[derive(Transitions)]", Default::default(), expansion).into()
}

/// Returns `true` if `text` is a key, and asserts the invariants of parsing it. For `fuzz/`, which
/// builds this crate as a library.
#[cfg(not(any(test, proc_macro)))]
pub fn key_is_sound(text: &str) -> bool {
    key::printed::is_sound(text)
}
