//! A drawing of the states for Mermaid.

use std::fmt::Write as _;

use proc_macro2::Ident;
use syn::ext::IdentExt;

use super::{Edge, Machine};

/// A `stateDiagram-v2`. States that no transition leads to begin, those that none leaves end.
pub(super) fn drawing(machine: &Machine, edges: &[Edge<'_>]) -> String {
    let variants = || machine.states.iter().map(|state| &state.variant);
    let is_reached =
        |state: &Ident| edges.iter().any(|edge| edge.to == state && edge.from != state);
    let is_left = |state: &Ident| edges.iter().any(|edge| edge.from == state && edge.to != state);
    let mut text = "stateDiagram-v2\n".to_owned();
    for state in variants().filter(|state| !is_reached(state)) {
        let _ = writeln!(text, "    [*] --> {}", state.unraw());
    }
    for edge in edges {
        let (event, from, to) = (edge.event.unraw(), edge.from.unraw(), edge.to.unraw());
        let _ = writeln!(text, "    {from} --> {to}: {event}");
    }
    for state in variants().filter(|state| !is_left(state)) {
        let _ = writeln!(text, "    {} --> [*]", state.unraw());
    }
    text
}
