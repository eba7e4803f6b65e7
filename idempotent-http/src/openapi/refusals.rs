//! The problems in a document: all those that are possible with the settings of a layer.

use crate::payload::Payload;
use crate::scope::Scope;
use crate::settings::{Presence, Settings, Usage};
use idempotent_runtime::problem::ProblemType;
use std::collections::BTreeMap;

/// Role of a problem in the answers of a layer and, under `ambient_only`, of the functions further
/// in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Possible,
    /// Impossible with these settings.
    Impossible,
    /// A problem of another service: forms, or the status of a key.
    Elsewhere,
}

impl Part {
    fn possible_if(condition: bool) -> Self {
        if condition { Self::Possible } else { Self::Impossible }
    }
}

/// The problems that requests are answered with, by status.
pub(super) fn refusals(settings: &Settings) -> BTreeMap<u16, Vec<ProblemType>> {
    let mut by_status = BTreeMap::<u16, Vec<_>>::new();
    for kind in ProblemType::ALL {
        // A problem too many in the document is better than one too few.
        if part(*kind, settings).unwrap_or(Part::Possible) == Part::Possible {
            by_status.entry(kind.status()).or_default().push(*kind);
        }
    }
    by_status
}

/// The role of a problem; `None` if it is not known here, which a test rules out.
///
/// Settings that the configuration of an instance may change while it runs rule nothing out.
pub(super) fn part(kind: ProblemType, settings: &Settings) -> Option<Part> {
    use ProblemType as P;
    let guards_exchange = settings.usage == Usage::Exchange;
    Some(match kind {
        P::InvalidKey
        | P::InProgress
        | P::OutcomeUnknown
        | P::Superseded
        | P::NotRecorded
        | P::ResultNotRetained
        | P::ResultUnreadable
        | P::StoreUnavailable
        | P::StoreFull
        | P::NotReplicated
        | P::ShuttingDown
        | P::Misconfigured => Part::Possible,
        // Functions further in need a key where the layer needs none, and have modes and
        // fingerprints of their own.
        P::MissingKey => {
            Part::possible_if(!guards_exchange || settings.presence == Presence::Required)
        }
        P::Duplicate => Part::possible_if(!guards_exchange),
        P::PayloadMismatch => {
            Part::possible_if(!guards_exchange || settings.payload != Payload::Ignored)
        }
        // Without an exchange to guard, the server starts and drops the handlers.
        P::Overloaded | P::HandlerFailed => Part::possible_if(guards_exchange),
        P::TooManyKeys => Part::possible_if(guards_exchange && settings.quota.is_some()),
        P::BodyTooLarge | P::BodyIncomplete | P::BodyUndecodable => {
            Part::possible_if(guards_exchange || settings.sources.reads_body())
        }
        P::ScopeMissing => Part::possible_if(settings.scope.is_some()),
        P::ScopeUnavailable => Part::possible_if(matches!(settings.scope, Some(Scope::Later(_)))),
        P::UnknownKey
        | P::FormTokenMissing
        | P::FormTokenUsed
        | P::FormTokenUnknown
        | P::FormTokenForeign => Part::Elsewhere,
        _ => return None,
    })
}
