//! What a caller does between its call and its answer, as the engine does it.
//!
//! A caller may do nothing for as long as it likes, or for ever: that is a pause, or a crash. An
//! answer that takes long is a caller that does not go on once it has it. So replies are either
//! lost or there at once.

use crate::record::{Answer, Attempt, Request, Ticks, Verb};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// How many tokens it has made.
    pub(crate) tokens: u8,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// No call is under way. The end of an earlier one may still be being recorded.
    Idle,
    /// `begin` was sent, maybe several times. The lease is counted from before the first.
    Asking {
        request: Attempt,
        left: Ticks,
    },
    /// Fresh has arrived. A renewal may be under way, sent so long ago; if the key is to block and
    /// is not armed yet, it is an arming.
    Granted {
        attempt: Attempt,
        left: Ticks,
        renewing: Option<Ticks>,
    },
    /// Enough of the lease was left, and then the process was paused.
    Paused {
        attempt: Attempt,
    },
    Running {
        attempt: Attempt,
    },
}

/// What a caller makes of a renewal that was answered after its lease had ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LateRenewals {
    Refused,
    Believed,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Value,
    /// A value that is sent after the lease was lost.
    LateValue,
    Error,
    FinalError,
    /// It is dropped, or panics.
    Drop,
}

impl Caller {
    pub(crate) const FIRST: Self = Self { tokens: 0, phase: Phase::Idle };

    /// Whether the answer to `request` makes a difference to it.
    pub(crate) fn awaits(&self, request: Request) -> bool {
        match self.phase {
            Phase::Asking { request: asked, .. } => {
                request.verb == Verb::Begin && request.attempt.token == asked.token
            }
            Phase::Granted { attempt, renewing: Some(_), .. } => {
                matches!(request.verb, Verb::Renew | Verb::Arm)
                    && request.attempt.token == attempt.token
            }
            _ => false,
        }
    }

    /// A tick of its own clock, which also goes on while it is paused.
    pub(crate) fn tick(&mut self, lease: Ticks) {
        match &mut self.phase {
            Phase::Asking { left, .. } => *left = left.saturating_sub(1),
            Phase::Granted { left, renewing, .. } => {
                *left = left.saturating_sub(1);
                // One that was sent a lease ago can no longer lengthen anything.
                *renewing = renewing.map(|since| since + 1).filter(|since| *since < lease);
            }
            _ => {}
        }
    }

    /// It hears the answer to a request that it [awaits](Self::awaits). Returns the attempt that it
    /// does not make use of.
    pub(crate) fn hears(
        &mut self,
        verb: Verb,
        answer: Answer,
        lease: Ticks,
        belief: LateRenewals,
    ) -> Option<Attempt> {
        match (self.phase, answer) {
            (Phase::Asking { left, .. }, Answer::Fresh(attempt)) => {
                self.phase = Phase::Granted { attempt, left, renewing: None };
                None
            }
            // After the end of its lease it no longer knows who held the key meanwhile.
            (Phase::Granted { left: 0, .. }, _) if belief == LateRenewals::Refused => {
                self.gives_up()
            }
            (Phase::Granted { attempt, left, renewing: Some(since) }, Answer::Extended) => {
                let left = left.max(lease - since);
                let attempt = Attempt { armed: attempt.armed || verb == Verb::Arm, ..attempt };
                self.phase = Phase::Granted { attempt, left, renewing: None };
                None
            }
            _ => self.gives_up(),
        }
    }

    /// It no longer waits, and never starts its body. Returns the attempt that is to be released:
    /// a `begin` that was sent may arrive yet.
    pub(crate) fn gives_up(&mut self) -> Option<Attempt> {
        let (Phase::Asking { request: attempt, .. } | Phase::Granted { attempt, .. }) = self.phase
        else {
            return None;
        };
        self.phase = Phase::Idle;
        Some(attempt)
    }
}
