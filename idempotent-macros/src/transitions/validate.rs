//! Checks the list of transitions against the states.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use syn::ext::IdentExt;

use super::{Edge, Machine, Rule};
use crate::mistake::{Mistakes, mistake};
use crate::suggest::{nearest, quoted_list};

/// Functions that the derive generates for every enum.
const GENERATED: [&str; 2] = ["as_str", "from_str"];

/// The longest name that every database keeps.
const MOST_BYTES: usize = 255;

/// The transitions that are in order: known states, and one target for each event and source.
pub(super) fn edges<'a>(machine: &'a Machine, mistakes: &mut Mistakes) -> Vec<Edge<'a>> {
    same_stored_names(machine, mistakes);
    let mut edges = Vec::new();
    let mut targets: BTreeMap<(String, String), String> = BTreeMap::new();
    for rule in &machine.rules {
        let to = rule.target.as_ref().and_then(|to| known(machine, to, mistakes));
        for from in &rule.sources {
            let Some(from) = known(machine, from, mistakes) else { continue };
            let Some(to) = to else { continue };
            let key = (rule.event.unraw().to_string(), from.to_string());
            match targets.get(&key) {
                Some(before) => mistakes.push(declared_before(rule, from, to, before)),
                None => {
                    targets.insert(key, to.to_string());
                    edges.push(Edge { event: &rule.event, from, to });
                }
            }
        }
    }
    edges
}

/// The events that can be functions, in the order in which they are first declared.
pub(super) fn events<'a>(machine: &'a Machine, mistakes: &mut Mistakes) -> Vec<&'a Ident> {
    let mut seen: Vec<String> = Vec::new();
    let mut events = Vec::new();
    for rule in &machine.rules {
        let event = &rule.event;
        let name = event.unraw().to_string();
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        match check_event(machine, event) {
            Ok(()) => events.push(event),
            Err(error) => mistakes.push(error),
        }
    }
    events
}

fn check_event(machine: &Machine, event: &Ident) -> syn::Result<()> {
    let name = event.to_string();
    let plain = event.unraw().to_string();
    if syn::parse_str::<Ident>(&name).is_err() {
        let raw = format!("r#{name}");
        let help = match syn::parse_str::<Ident>(&raw) {
            Ok(_) => format!("`{raw}`, or another name"),
            Err(_) => "use another name, such as `pay`".to_owned(),
        };
        let what = format!("`{name}` is a keyword, and an event is a function");
        return Err(mistake(event, what, help));
    }
    if GENERATED.contains(&plain.as_str()) {
        let what = format!("`{plain}` is a function that every enum with transitions has");
        return Err(mistake(event, what, format!("use another name, such as `on_{plain}`")));
    }
    if machine.states.iter().any(|state| state.variant.unraw() == plain) {
        let what = format!("`{plain}` is a state, and an event needs a name of its own");
        return Err(mistake(
            event,
            what,
            format!("use another name, such as `to_{}`", plain.to_lowercase()),
        ));
    }
    if plain.len() > MOST_BYTES {
        let what = format!("the name of an event has more than {MOST_BYTES} bytes");
        return Err(mistake(event, what, "use a shorter name"));
    }
    Ok(())
}

fn known<'a>(machine: &'a Machine, state: &Ident, mistakes: &mut Mistakes) -> Option<&'a Ident> {
    let plain = state.unraw();
    let mut variants = machine.states.iter().map(|state| &state.variant);
    if let Some(variant) = variants.find(|variant| variant.unraw() == plain) {
        return Some(variant);
    }
    let names: Vec<_> = machine.states.iter().map(|state| state.variant.to_string()).collect();
    let help = match nearest(&state.to_string(), names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the states are {}", quoted_list(&names)),
    };
    let what = format!("`{state}` is not a state of `{}`", machine.name);
    mistakes.push(mistake(state, what, help));
    None
}

/// The same event from the same state for the second time.
fn declared_before(rule: &Rule, from: &Ident, to: &Ident, before: &str) -> syn::Error {
    let event = &rule.event;
    let source = rule.sources.iter().rev().find(|it| it.unraw() == from.unraw());
    if to == before {
        let what = format!("`{event}: {from} => {to}` is declared twice");
        return mistake(source.unwrap_or(event), what, "remove one of the two");
    }
    let what = format!("`{event}` leads from `{from}` to both `{before}` and `{to}`");
    let help = format!(
        "one of the two needs an event of its own: `other_{}: {from} => {to}`",
        event.unraw()
    );
    mistake(rule.target.as_ref().unwrap_or(event), what, help)
}

fn same_stored_names(machine: &Machine, mistakes: &mut Mistakes) {
    for (at, state) in machine.states.iter().enumerate() {
        let before = machine.states[..at].iter().find(|other| other.stored == state.stored);
        if let Some(before) = before {
            let (this, that) = (&state.variant, &before.variant);
            let what = format!("`{that}` and `{this}` are both stored as `{}`", state.stored);
            let help = format!("`#[transitions(rename = \"{}_2\")]` on `{this}`", state.stored);
            mistakes.push(mistake(this, what, help));
        }
    }
}
