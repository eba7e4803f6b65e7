//! Counts effects outside any store.

use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts the runs of bodies per key, outside the store under test. Clones share one count.
///
/// ```
/// use idempotent_runtime::testing::Ledger;
/// use idempotent_runtime::{Error, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (idem, ledger) = (Idempotency::in_memory()?, Ledger::new());
/// for _ in 0..3 {
///     let paid: Result<(), Error> = idem
///         .operation("pay")
///         .key("invoice-7")
///         .mode(Mode::Strong)
///         .run(async {
///             ledger.record("invoice-7");
///             Ok(())
///         })
///         .await;
///     paid?;
/// }
/// assert_eq!(ledger.ran("invoice-7"), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, usize>>>);

impl Ledger {
    /// Creates an empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a run of the body for `key`. Returns the number of runs, this one included.
    pub fn record(&self, key: impl Into<String>) -> usize {
        let mut ran = lock(&self.0);
        let count = ran.entry(key.into()).or_default();
        *count += 1;
        *count
    }

    /// The number of runs for `key`.
    pub fn ran(&self, key: &str) -> usize {
        lock(&self.0).get(key).copied().unwrap_or(0)
    }

    /// The number of runs for all keys together.
    pub fn total(&self) -> usize {
        lock(&self.0).values().sum()
    }

    /// Every key for which a body ran, with its number of runs.
    pub fn entries(&self) -> BTreeMap<String, usize> {
        lock(&self.0).clone()
    }
}
