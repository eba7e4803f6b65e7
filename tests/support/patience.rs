//! Time limits of tests.

use std::future::Future;
use std::time::{Duration, Instant};

/// The longest time between two looks that counts.
const COUNTED: Duration = Duration::from_secs(1);

/// A time limit that only the time uses up in which this process runs: one that the machine pauses, together with
/// the servers that it started, is not late.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    pub fn of(limit: Duration) -> Self {
        Self { left: limit, looked: Instant::now() }
    }

    /// Far beyond the time that any condition needs.
    pub fn usual() -> Self {
        Self::of(Duration::from_secs(60))
    }

    /// Returns `true` when the time is used up. Asked again and again while something is waited for.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        self.left = self.left.saturating_sub((now - self.looked).min(COUNTED));
        self.looked = now;
        self.left.is_zero()
    }

    /// The output of a future, or `None` when the time is used up.
    pub async fn wait_for<F: Future>(mut self, future: F) -> Option<F::Output> {
        let over = async {
            while !self.is_over() {
                tokio::time::sleep(self.left.min(COUNTED)).await;
            }
        };
        tokio::select! {
            biased;
            output = future => Some(output),
            () = over => None,
        }
    }
}
