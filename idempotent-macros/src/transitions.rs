//! `#[derive(Transitions)]`: the states of an entity and the events that lead from one to another.
//!
//! `parse` reads the enum and the list of transitions, `validate` checks the two against each other,
//! `mermaid` draws them, and `expand` generates the code. Mistakes do not keep back what can be
//! generated all the same, so that uses of an event are not reported as well.

mod expand;
mod mermaid;
mod parse;
mod validate;

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{DeriveInput, Path, Visibility};

use crate::mistake::Mistakes;
use crate::words::Words;

/// An enum with its transitions.
struct Machine {
    name: Ident,
    visibility: Visibility,
    /// The crate that generated code refers to.
    library: Option<Path>,
    states: Vec<StateName>,
    rules: Vec<Rule>,
}

/// A state and the name under which it is stored.
struct StateName {
    variant: Ident,
    stored: String,
}

/// One entry of the list: `event: Source | Source => Target`.
struct Rule {
    event: Ident,
    sources: Vec<Ident>,
    /// Missing if it was not written, which has been reported.
    target: Option<Ident>,
}

/// One transition that is in order.
struct Edge<'a> {
    event: &'a Ident,
    from: &'a Ident,
    to: &'a Ident,
}

pub(crate) fn transitions(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut mistakes = Mistakes::default();
    let code = parse::machine(&input, &mut mistakes).map(|machine| {
        let edges = validate::edges(&machine, &mut mistakes);
        let events = validate::events(&machine, &mut mistakes);
        expand::implementation(&machine, &edges, &events)
    });
    let errors = mistakes.into_compile_errors(&Words::default());
    quote!(#errors #code)
}
