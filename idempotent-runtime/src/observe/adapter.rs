//! Reports by adapters: an HTTP layer refuses some requests before an operation begins.

use super::Ending;
use super::names;
use super::record::{ended, rare};
use crate::problem::ProblemType;

/// Guard for a call that an adapter has accepted. It reports the end of the call, unless an
/// operation does.
///
/// Every call ends in exactly one [`Ending`]. A call that is dropped without one is reported as
/// cancelled or panicked.
///
/// ```
/// use idempotent_runtime::observe::PendingCall;
/// use idempotent_runtime::problem::ProblemType;
///
/// let call = PendingCall::new("shop");
/// // A request that has what it needs would be handed over to `Idempotency::operation`.
/// call.refused(ProblemType::MISSING_KEY);
/// ```
#[derive(Debug)]
#[must_use = "a call that is dropped counts as cancelled"]
pub struct PendingCall<'a> {
    /// `None` once its end is reported, or left to an operation.
    operation: Option<&'a str>,
}

impl<'a> PendingCall<'a> {
    /// Creates a call of the operation of this name.
    pub fn new(operation: &'a str) -> Self {
        Self { operation: Some(operation) }
    }

    /// Leaves the report to the operation that is run or begun for this call.
    pub fn hand_over(mut self) {
        self.operation = None;
    }

    /// Reports the end of the call.
    pub fn ends(mut self, ending: Ending) {
        self.report(ending);
    }

    /// Reports that the call was answered with a problem, as [`refused`] does, and its end.
    pub fn refused(mut self, problem: ProblemType) {
        if let Some(operation) = self.operation {
            refused(operation, problem);
        }
        self.report(problem.ending());
    }

    fn report(&mut self, ending: Ending) {
        if let Some(operation) = self.operation.take() {
            ended(&operation.to_owned().into(), ending);
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let is_panicking = std::thread::panicking();
        self.report(if is_panicking { Ending::Panicked } else { Ending::Cancelled });
    }
}

/// Reports that an answer of this type is recorded without its value, and the reason.
///
/// Operations report it themselves if a value cannot be encoded or is too large. This is for
/// adapters that do not pass such a value to an operation.
pub fn not_kept(operation: &str, type_name: &str, reason: &str) {
    tracing::warn!(target: "idempotent", operation, type_name, reason, "the value is not kept");
    rare(names::NOT_KEPT, &operation.to_owned().into());
}

/// Reports that a call was answered with a problem: an event, and a counter by the problem's code.
///
/// The end of the call is reported separately, by a [`PendingCall`] or by the operation that
/// refused.
pub fn refused(operation: &str, problem: ProblemType) {
    let problem = problem.code();
    tracing::debug!(target: "idempotent", operation, problem, "the request was refused");
    #[cfg(feature = "metrics")]
    metrics::counter!(
        names::REFUSALS,
        names::OPERATION => operation.to_owned(),
        names::PROBLEM => problem
    )
    .increment(1);
}
