//! States and the transitions between them.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;

/// The states of an entity. Implemented by `#[derive(Transitions)]`.
///
/// # Implementing
///
/// An implementation by hand MUST give every state a name of its own, MUST read back what it
/// writes (`S::from_name(state.as_str())`), and MUST have at most one target for an event and a
/// state. Names go into statements: they MUST have no quotes, backslashes or control characters,
/// and calls with others are refused.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no transitions",
    label = "not a state",
    note = "write `#[derive(Transitions)]` and `#[transitions(event: From => To)]` on the enum of the states"
)]
pub trait State: Sized + Send + Sync + 'static {
    /// All transitions, in the order in which they are declared.
    const TRANSITIONS: &'static [Edge<Self>];

    /// A drawing of the states for Mermaid (`stateDiagram-v2`).
    const MERMAID: &'static str;

    /// The names of all states, in the order in which they are declared.
    const NAMES: &'static [&'static str];

    /// The name under which the state is stored.
    fn as_str(&self) -> &'static str;

    /// The state that is stored under this name.
    fn from_name(name: &str) -> Option<Self>;
}

/// One transition of a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge<S> {
    /// The name of the event.
    pub event: &'static str,
    /// The state before.
    pub from: S,
    /// The state after.
    pub to: S,
}

/// An event that changes states, as [`StateMachine::apply`](super::StateMachine::apply) takes it.
///
/// `#[derive(Transitions)]` generates a function for each event, which returns it.
pub struct Transition<S> {
    event: &'static str,
    states: PhantomData<fn() -> S>,
}

impl<S: State> Transition<S> {
    /// The transition of this name. For generated code.
    #[doc(hidden)]
    pub const fn __named(event: &'static str) -> Self {
        Self { event, states: PhantomData }
    }

    /// The name of the event.
    pub const fn event(&self) -> &'static str {
        self.event
    }

    /// The transitions of this event: one for each state that allows it.
    pub fn edges(&self) -> impl Iterator<Item = &'static Edge<S>> + use<S> {
        let event = self.event;
        S::TRANSITIONS.iter().filter(move |edge| edge.event == event)
    }
}

impl<S> Clone for Transition<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Transition<S> {}

impl<S> fmt::Debug for Transition<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Transition({})", self.event)
    }
}

/// A text that is not the name of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownState {
    names: &'static [&'static str],
}

impl UnknownState {
    /// The error for a text that is not among the names of `S`.
    pub fn new<S: State>() -> Self {
        Self { names: S::NAMES }
    }
}

impl fmt::Display for UnknownState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
        write!(formatter, "not the name of a state; the states are {}", names.join(", "))
    }
}

impl StdError for UnknownState {}
