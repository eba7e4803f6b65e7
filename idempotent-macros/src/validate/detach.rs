//! Requires that a detached function owns what it takes: its body outlives its caller.

use proc_macro2::TokenStream;
use syn::FnArg;

use crate::args::Args;
use crate::function::{self, Function, Shape};
use crate::mistake::{Mistakes, mistake};
use crate::source::{source, type_source};

/// Refuses borrows in a detached function, whose body outlives its caller.
pub(super) fn validate(
    args: &Args,
    written: &TokenStream,
    function: &Function,
    mistakes: &mut Mistakes,
) {
    let Some(given) = args.detach.as_ref().filter(|given| given.ok().is_some_and(|flag| flag.0))
    else {
        return;
    };
    if args.transaction.is_some() {
        // Refused already, whatever is borrowed.
        return;
    }
    if let Shape::Boxed(_) = function.shape {
        let what =
            "`detach` does not go with `#[async_trait]`, whose futures borrow from the caller";
        mistakes.push(mistake(&given.name, what, detached(written, function)));
        return;
    }
    for input in &function.sig.inputs {
        if let Some(at) = function::borrow(input) {
            let what = "a detached body outlives its caller and cannot borrow from it";
            mistakes.push(mistake(at, what, by_value(input)));
        }
    }
}

/// Help for a method of an `#[async_trait]`: a free function with its arguments.
fn detached(written: &TokenStream, function: &Function) -> String {
    let name = &function.sig.ident;
    let mut bindings = function.bindings();
    let body = function.written_body();
    // The receiver is left out where the body does without it.
    let reads_self =
        body.as_deref().is_none_or(|body| body.contains("self") || body.contains("Self"));
    bindings.retain(|binding| reads_self || binding.name != "self");
    let names: Vec<_> = bindings.iter().map(|binding| binding.name.to_string()).collect();
    let typed = bindings.iter().map(|binding| {
        let ty = function.binding_type(&binding.name)?;
        (function::borrow_in(&ty).is_none())
            .then(|| format!("{}: {}", binding.name, type_source(&ty)))
    });
    match typed.collect::<Option<Vec<_>>>() {
        Some(typed) => format!(
            "a free function can be detached, and the method calls it, `{name}({}).await`: \
             `#[idempotent({})] async fn {name}({}) -> {}{}`",
            names.join(", "),
            source(written),
            typed.join(", "),
            type_source(&function.returns()),
            body.map_or_else(String::new, |body| format!(" {body}")),
        ),
        None => format!(
            "move the body to a free async function that takes its arguments by value, and put \
             `#[idempotent({})]` there",
            source(written)
        ),
    }
}

/// Help for a parameter that borrows.
fn by_value(input: &FnArg) -> String {
    let by_value = match input {
        FnArg::Receiver(_) => "take `self: std::sync::Arc<Self>`".to_owned(),
        FnArg::Typed(typed) => match function::owned(&typed.ty) {
            Some(ty) => format!("take it by value: `{}: {}`", source(&typed.pat), type_source(&ty)),
            None => "take it by value".to_owned(),
        },
    };
    format!("{by_value}, or remove `detach`")
}
