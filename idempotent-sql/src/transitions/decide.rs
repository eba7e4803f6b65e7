//! The answer that a look at the entity and its log gives, as a pure function.

use super::{State, Transition, TransitionOutcome, UnknownState};
use crate::client::{Row, SqlError};
use crate::entity::{EntityError, EntityErrorKind};

/// The entity and its log at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// Number of log rows of this entity, event and id.
    pub(super) repeats: i64,
    /// Number of rows with the entity's key.
    pub(super) entities: i64,
    /// The name of its state.
    pub(super) state: Option<String>,
    /// The id under which the event happened last.
    pub(super) latest: Option<String>,
}

impl Look {
    /// The columns of a look, in order.
    pub(super) fn read(row: &mut Row) -> Result<Self, SqlError> {
        Ok(Self {
            repeats: row.integer()?.unwrap_or_default(),
            entities: row.integer()?.unwrap_or_default(),
            state: row.text()?,
            latest: row.text()?,
        })
    }
}

/// The conclusion of a look.
#[derive(Debug, PartialEq)]
pub(super) enum Decision<S> {
    /// The answer of the call.
    Answer(TransitionOutcome<S>),
    /// The state allows the event.
    Allowed,
    /// Several rows have the key.
    NotUnique,
}

/// A repeat is recognised before anything else: it stays a success in every later state.
pub(super) fn decide<S: State>(
    look: Look,
    transition: Transition<S>,
) -> Result<Decision<S>, EntityError> {
    let answer = match look {
        Look { repeats: 1.., .. } => TransitionOutcome::Again,
        Look { entities: 0, .. } => TransitionOutcome::NotFound,
        Look { entities: 2.., .. } => return Ok(Decision::NotUnique),
        Look { state, latest, .. } => {
            let from = state_named::<S>(state.as_deref())?;
            if transition.edges().any(|edge| edge.from.as_str() == from.as_str()) {
                return Ok(Decision::Allowed);
            }
            match latest {
                Some(by) => TransitionOutcome::Conflict { by },
                None => TransitionOutcome::NotAllowed { from },
            }
        }
    };
    Ok(Decision::Answer(answer))
}

/// The state that is stored under this name.
pub(super) fn state_named<S: State>(name: Option<&str>) -> Result<S, EntityError> {
    let unknown = |text| EntityError::new(EntityErrorKind::UnknownState, text);
    let name = name.ok_or_else(|| unknown("the entity has no state: the column is NULL".into()))?;
    S::from_name(name)
        .ok_or_else(|| unknown(format!("the entity is `{name}`: {}", UnknownState::new::<S>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Machine {
        Running,
        Paused,
        Ended,
    }

    /// By hand: the derive is for users of this crate.
    impl State for Machine {
        const TRANSITIONS: &'static [Edge<Self>] = &[
            Edge { event: "pause", from: Self::Running, to: Self::Paused },
            Edge { event: "resume", from: Self::Paused, to: Self::Running },
            Edge { event: "end", from: Self::Running, to: Self::Ended },
            Edge { event: "end", from: Self::Paused, to: Self::Ended },
        ];
        const MERMAID: &'static str = "";
        const NAMES: &'static [&'static str] = &["running", "paused", "ended"];

        fn as_str(&self) -> &'static str {
            match self {
                Self::Running => "running",
                Self::Paused => "paused",
                Self::Ended => "ended",
            }
        }

        fn from_name(name: &str) -> Option<Self> {
            match name {
                "running" => Some(Self::Running),
                "paused" => Some(Self::Paused),
                "ended" => Some(Self::Ended),
                _ => None,
            }
        }
    }

    use crate::transitions::Edge;

    fn decided(event: &'static str, state: &str, latest: Option<&str>) -> Decision<Machine> {
        let (state, latest) = (Some(state.to_owned()), latest.map(str::to_owned));
        let look = Look { repeats: 0, entities: 1, state, latest };
        decide(look, Transition::__named(event)).unwrap()
    }

    #[test]
    fn a_repeat_is_a_success_in_every_state() {
        for (entities, state) in [(1, Some("running")), (1, Some("ended")), (0, None), (1, None)] {
            let state = state.map(str::to_owned);
            let look = Look { repeats: 1, entities, state, latest: None };
            let again = Decision::Answer(TransitionOutcome::Again);
            assert_eq!(decide::<Machine>(look, Transition::__named("pause")).unwrap(), again);
        }
    }

    #[test]
    fn an_event_may_happen_again_where_the_state_allows_it() {
        assert_eq!(decided("pause", "running", Some("a")), Decision::Allowed);
        assert_eq!(decided("end", "paused", None), Decision::Allowed);
    }

    #[test]
    fn an_event_that_has_happened_is_a_conflict_and_another_is_not_allowed() {
        let by = "a".to_owned();
        let conflict = Decision::Answer(TransitionOutcome::Conflict { by });
        assert_eq!(decided("pause", "paused", Some("a")), conflict);
        let from = Machine::Ended;
        let refused = Decision::Answer(TransitionOutcome::NotAllowed { from });
        assert_eq!(decided("pause", "ended", None), refused);
    }

    #[test]
    fn a_state_that_the_type_does_not_have_is_an_error() {
        for state in [Some("asleep".to_owned()), None] {
            let look = Look { repeats: 0, entities: 1, state, latest: None };
            let error = decide::<Machine>(look, Transition::__named("pause")).unwrap_err();
            assert_eq!(error.kind(), EntityErrorKind::UnknownState);
        }
    }

    #[test]
    fn a_missing_row_is_not_found_and_two_are_refused() {
        let look = |entities| Look { entities, ..Look::default() };
        let decided = |entities| decide::<Machine>(look(entities), Transition::__named("end"));
        assert_eq!(decided(0).unwrap(), Decision::Answer(TransitionOutcome::NotFound));
        assert_eq!(decided(2).unwrap(), Decision::NotUnique);
    }
}
