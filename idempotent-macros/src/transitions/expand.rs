//! The generated code: names of states, a function for each event, and the table of transitions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;

use super::mermaid::drawing;
use super::{Edge, Machine};

pub(super) fn implementation(
    machine: &Machine,
    edges: &[Edge<'_>],
    events: &[&Ident],
) -> TokenStream {
    let span = Span::mixed_site();
    let Machine { name, visibility, .. } = machine;
    let library = match &machine.library {
        Some(path) => path.to_token_stream(),
        None => quote_spanned!(span=> ::idempotent_sql),
    };
    let library = quote_spanned!(span=> #library::transitions);
    let variants: Vec<_> = machine.states.iter().map(|state| &state.variant).collect();
    let names: Vec<_> = machine.states.iter().map(|state| &state.stored).collect();
    let mermaid = drawing(machine, edges);
    let table = edges.iter().map(|Edge { event, from, to }| {
        let event = event.unraw().to_string();
        quote_spanned! {span=>
            #library::Edge { event: #event, from: Self::#from, to: Self::#to }
        }
    });
    let functions = events.iter().map(|event| {
        let text = event.unraw().to_string();
        let doc = documentation(&text, edges);
        quote_spanned! {span=>
            #[doc = #doc]
            #visibility const fn #event() -> #library::Transition<Self> {
                #library::Transition::__named(#text)
            }
        }
    });
    quote_spanned! {span=>
        #[automatically_derived]
        #[allow(dead_code, deprecated)]
        impl #name {
            /// All transitions, in the order in which they are declared.
            #visibility const TRANSITIONS: &'static [#library::Edge<Self>] =
                <Self as #library::State>::TRANSITIONS;

            /// A drawing of the states for Mermaid (`stateDiagram-v2`).
            #visibility const MERMAID: &'static ::core::primitive::str = #mermaid;

            /// The name under which the state is stored.
            #visibility const fn as_str(&self) -> &'static ::core::primitive::str {
                match self {
                    #(Self::#variants => #names,)*
                }
            }

            #(#functions)*
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl #library::State for #name {
            const TRANSITIONS: &'static [#library::Edge<Self>] = &[#(#table),*];
            const MERMAID: &'static ::core::primitive::str = Self::MERMAID;
            const NAMES: &'static [&'static ::core::primitive::str] = &[#(#names),*];

            fn as_str(&self) -> &'static ::core::primitive::str {
                Self::as_str(self)
            }

            fn from_name(name: &::core::primitive::str) -> ::core::option::Option<Self> {
                match name {
                    #(#names => ::core::option::Option::Some(Self::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        #[automatically_derived]
        impl ::core::str::FromStr for #name {
            type Err = #library::UnknownState;

            fn from_str(
                name: &::core::primitive::str,
            ) -> ::core::result::Result<Self, Self::Err> {
                <Self as #library::State>::from_name(name)
                    .ok_or_else(#library::UnknownState::new::<Self>)
            }
        }
    }
}

/// One line for each state that the event leads from.
fn documentation(event: &str, edges: &[Edge<'_>]) -> String {
    let lines = edges
        .iter()
        .filter(|edge| edge.event.unraw() == event)
        .map(|edge| format!("`{}` to `{}`", edge.from.unraw(), edge.to.unraw()));
    format!(" The event `{event}`: {}.", lines.collect::<Vec<_>>().join(", "))
}
