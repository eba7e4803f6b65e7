//! The part that the body had in a refused call.

/// The part that the body had in a call that was refused.
///
/// ```
/// use idempotent_runtime::{BodyRun, Error};
///
/// fn log(error: &Error) {
///     match error.body() {
///         BodyRun::DidNotRun => println!("nothing happened: {error}"),
///         BodyRun::Ran => println!("it happened, and its answer is lost: {error}"),
///         BodyRun::Unknown => println!("a repeat call returns the outcome: {error}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyRun {
    /// The body did not run, and it will not run for this call.
    DidNotRun,
    /// The body ran, or started to run.
    Ran,
    /// The body may have run, or may still run: an effect inside Redis whose answer was lost. A
    /// call with the same key is safe, and returns the outcome.
    Unknown,
}

impl BodyRun {
    /// The name on the wire, which does not change between releases.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::DidNotRun => "did_not_run",
            Self::Ran => "ran",
            Self::Unknown => "unknown",
        }
    }

    /// The answer with this name; [`Unknown`](Self::Unknown) if this version knows none.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "did_not_run" => Self::DidNotRun,
            "ran" => Self::Ran,
            _ => Self::Unknown,
        }
    }
}
