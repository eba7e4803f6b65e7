//! Warns of an argument that the mode leaves without effect.
//!
//! The macro refuses such an argument beside a `mode`. A function without `mode` has that of the
//! configuration, which is known at a call.

use crate::config::Mode;
use crate::options::Options;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Records that the warning was given.
#[derive(Debug, Default)]
pub(crate) struct IdleArguments {
    warned: AtomicBool,
}

impl IdleArguments {
    /// Warns of an argument for strong mode on a call in another mode, once per instance.
    pub(crate) fn check(&self, operation: &str, options: &Options, mode: Mode) {
        let Some(argument) = self.first(options, mode) else { return };
        tracing::warn!(
            target: "idempotent", operation, argument, ?mode,
            help = "add `mode = \"strong\"` to the function, or set it in the configuration",
            "an argument has no effect in this mode"
        );
    }

    /// The argument to warn of, unless a warning was given.
    fn first(&self, options: &Options, mode: Mode) -> Option<&'static str> {
        let argument = options.for_strong.filter(|_| mode != Mode::Strong)?;
        // Relaxed: the swap alone decides which caller warns.
        (!self.warned.swap(true, Relaxed)).then_some(argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_for_strong_mode_is_warned_of_once_in_another_mode() {
        let idle = IdleArguments::default();
        let waits = Options { for_strong: Some("wait"), ..Options::NONE };
        assert_eq!(idle.first(&waits, Mode::Strong), None);
        assert_eq!(idle.first(&Options::NONE, Mode::Reject), None);
        assert_eq!(idle.first(&waits, Mode::Reject), Some("wait"));
        assert_eq!(idle.first(&waits, Mode::Reject), None);
    }
}
