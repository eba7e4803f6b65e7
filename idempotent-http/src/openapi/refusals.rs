//! The problems in a document: all those that are possible with the settings of a layer.

use crate::payload::Payload;
use crate::problem;
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
    for kind in problem::all() {
        // A client that is told too much is better off than one that is told too little.
        if part(kind, settings).unwrap_or(Part::Possible) == Part::Possible {
            by_status.entry(kind.status()).or_default().push(kind);
        }
    }
    by_status
}

/// The role of a problem; `None` if it is not known here, which a test rules out.
///
/// Settings that the configuration of an instance may change while it runs rule nothing out.
pub(super) fn part(kind: ProblemType, settings: &Settings) -> Option<Part> {
    let guards_exchange = settings.usage == Usage::Exchange;
    Some(match kind {
        ProblemType::INVALID_KEY
        | ProblemType::IN_PROGRESS
        | ProblemType::OUTCOME_UNKNOWN
        | ProblemType::SUPERSEDED
        | ProblemType::NOT_RECORDED
        | ProblemType::RESULT_NOT_RETAINED
        | ProblemType::RESULT_UNREADABLE
        | ProblemType::STORE_UNAVAILABLE
        | ProblemType::STORE_FULL
        | ProblemType::NOT_REPLICATED
        | ProblemType::SHUTTING_DOWN
        | ProblemType::MISCONFIGURED => Part::Possible,
        // Functions further in need a key where the layer needs none, and have modes and
        // fingerprints of their own.
        ProblemType::MISSING_KEY => {
            Part::possible_if(!guards_exchange || settings.presence == Presence::Required)
        }
        ProblemType::DUPLICATE | ProblemType::FAILED_BEFORE => Part::possible_if(!guards_exchange),
        ProblemType::PAYLOAD_MISMATCH => {
            Part::possible_if(!guards_exchange || settings.payload != Payload::Ignored)
        }
        // Without an exchange to guard, handlers are started and dropped by the server.
        problem::OVERLOADED | problem::HANDLER_FAILED => Part::possible_if(guards_exchange),
        problem::TOO_MANY_KEYS => Part::possible_if(guards_exchange && settings.quota.is_some()),
        problem::BODY_TOO_LARGE | problem::BODY_INCOMPLETE | problem::BODY_UNDECODABLE => {
            Part::possible_if(guards_exchange || settings.sources.reads_body())
        }
        problem::SCOPE_MISSING => Part::possible_if(settings.scope.is_some()),
        problem::SCOPE_UNAVAILABLE => {
            Part::possible_if(matches!(settings.scope, Some(Scope::Later(_))))
        }
        // Layers with transactions have no documents of their own.
        problem::NOT_COMMITTED
        | problem::UNKNOWN_KEY
        | problem::FORM_TOKEN_MISSING
        | problem::FORM_TOKEN_USED
        | problem::FORM_TOKEN_UNKNOWN
        | problem::FORM_TOKEN_FOREIGN => Part::Elsewhere,
        _ => return None,
    })
}
