//! The kinds of calls in a mixed run. The name of a key contains its kind.

use idempotent_runtime::{Abandon, Mode, Operation};
use std::fmt::Display;

/// A way to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Strong mode, in which a lost attempt may be run again.
    Retry,
    /// Strong mode, in which a lost attempt blocks its key.
    Block,
    /// Values are not kept.
    Reject,
    /// One run in a window, whatever becomes of it.
    Window,
    /// Some keys with one body.
    Batch,
    /// Bodies that outlive their caller.
    Detach,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Retry, Self::Block, Self::Reject, Self::Window, Self::Batch, Self::Detach];

    /// `None` if the key is not of a mixed run.
    pub fn of(key: &str) -> Option<Self> {
        let (name, _) = key.split_once(':')?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A key for calls of this kind.
    pub fn key(self, rest: impl Display) -> String {
        format!("{}:{rest}", self.name())
    }

    pub fn abandon(self) -> Abandon {
        if self == Self::Block { Abandon::Block } else { Abandon::Retry }
    }

    /// Chooses what makes a call one of this kind.
    pub fn choose(self, operation: Operation<'_>) -> Operation<'_> {
        let mode = match self {
            Self::Reject => Mode::Reject,
            Self::Window => Mode::Window,
            _ => Mode::Strong,
        };
        operation.mode(mode).abandon(self.abandon())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Block => "block",
            Self::Reject => "reject",
            Self::Window => "window",
            Self::Batch => "batch",
            Self::Detach => "detach",
        }
    }
}
