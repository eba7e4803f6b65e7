//! What happened on some schedule. It shows that a model is not empty.
//!
//! Noted beside the states and not in them: how a call ended makes no difference to what follows.

use crate::record::{Answer, Verb};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Stored,
    Replayed,
    ReplayedError,
    InFlight,
    /// A `begin` came with another payload than the key is bound to, while an attempt held it.
    MismatchWhileHeld,
    /// The same, when the key was free.
    MismatchWhileFree,
    Indeterminate,
    /// A record that had vanished was written again.
    Rewritten,
    /// A record that had vanished was left alone by an attempt that had lost its lease.
    LeftGone,
    Armed,
    /// An arming came when the key was no longer its attempt's.
    ArmedTooLate,
    /// An answer came after another attempt had taken over.
    Superseded,
    /// A `begin` came after its own attempt had ended.
    EndedBefore,
    Renewed,
    /// A grant could no longer be used.
    TooLate,
    Released,
    /// A lease that had run out was taken over.
    TakenOver,
    /// A second body started under a record.
    StartedAgain,
    Resolved,
    SwapOfLivingLeaseRefused,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<AtomicU32>);

impl Seen {
    pub(crate) fn note(&self, event: Event) {
        self.0.fetch_or(1 << event as u32, Relaxed);
    }

    pub(crate) fn has(&self, event: Event) -> bool {
        self.0.load(Relaxed) & (1 << event as u32) != 0
    }

    pub(crate) fn answered(&self, verb: Verb, answer: Answer) {
        self.note(match (verb, answer) {
            (Verb::Complete | Verb::CompleteLate, Answer::Done) => Event::Stored,
            (Verb::Complete, Answer::Vanished) => Event::Rewritten,
            (Verb::CompleteLate, Answer::Gone) => Event::LeftGone,
            (Verb::Complete | Verb::CompleteLate, Answer::Superseded) => Event::Superseded,
            (Verb::Arm, Answer::Extended) => Event::Armed,
            (Verb::Arm, Answer::Lost) => Event::ArmedTooLate,
            (Verb::Begin, Answer::Superseded) => Event::EndedBefore,
            (Verb::Release, Answer::Done) => Event::Released,
            (Verb::ResolveRetry | Verb::ResolveSucceeded, Answer::Done) => Event::Resolved,
            (_, Answer::Succeeded(_)) => Event::Replayed,
            (_, Answer::FailedFinal(_)) => Event::ReplayedError,
            (_, Answer::InFlight) => Event::InFlight,
            (_, Answer::Indeterminate) => Event::Indeterminate,
            (_, Answer::Extended) => Event::Renewed,
            _ => return,
        });
    }
}
