//! The attribute `#[idempotent(..)]` and `#[derive(KeyPart)]` of `idempotent-runtime`.
//!
//! This crate holds the macros alone. Depend on `idempotent-runtime`, which re-exports both together
//! with everything that the generated code calls.
//!
//! The files follow a call of the attribute: [`list`] splits the arguments, [`args`] and [`value`]
//! read them, [`key`] reads key expressions, [`function`] looks at the function, [`validate`] compares
//! the two, and [`expand`] writes the result. Every mistake that does not depend on another one is
//! reported in the same run, and the user's function is emitted beside the errors.

mod args;
mod derive;
mod expand;
mod function;
mod key;
mod list;
mod mistake;
mod runtime;
mod suggest;
mod validate;
mod value;

#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;

/// Makes an async function run once per key; whoever asks again gets the answer.
///
/// ```text
/// #[idempotent(key = "req.order_id", expire = 300, mode = "strong")]
/// async fn create_order(req: CreateOrder) -> Result<Order, OrderError> { .. }
/// ```
///
/// | argument | takes | without it |
/// | --- | --- | --- |
/// | `key` | a field path, a tuple of them, a template, or `const ..` | the ambient token |
/// | `expire` | a duration: how long an answer is kept | the configuration |
/// | `mode` | `"reject"`, `"strong"` or `"window"` | the configuration |
/// | `message` | what a rejected caller reads | the configuration |
/// | `wait` | a duration: how long a duplicate waits for the answer | the configuration |
/// | `lease` | a duration without a sign of life after which others take over | the configuration |
/// | `max_run` | a duration after which the lease is no longer renewed | the configuration |
/// | `name` | the operation's name | module path and function name |
/// | `scope` | like `key`: tenant or principal | none |
/// | `fingerprint` | like `key`: what must not change under one key | none |
/// | `final_errors` | a path to `fn(&E) -> bool`: errors that are kept and replayed | every error frees the key |
/// | `abandon` | `"retry"` or `"block"` | `"retry"` |
/// | `on_store_error` | `"refuse"` or `"run"` | `"refuse"` |
/// | `on_replay` | a path to `fn(&T)` | none |
/// | `expire_with` | a path to `fn(&T) -> Duration` | `expire` |
/// | `detach` | nothing: the body finishes even when the caller goes away | off |
/// | `with` | an expression that borrows as `Idempotency` | the installed one |
/// | `crate` | the path of the runtime crate | `::idempotent_runtime` |
///
/// Each argument has a running example in the documentation of `idempotent_runtime::idempotent`.
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(arguments.into(), item.into()).into()
}

/// Lets a struct or an enum be a part of a key.
///
/// A struct with one unnamed field encodes as that field, any other struct as the tuple of its
/// fields, and an enum as the name of its variant with the variant's fields. `#[key_part(skip)]` leaves a
/// field out; `#[key_part(crate = path)]` on the type names the runtime crate.
///
/// The documentation of `idempotent_runtime::KeyPart` has running examples.
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn key_part(item: TokenStream) -> TokenStream {
    derive::key_part(item.into()).into()
}
