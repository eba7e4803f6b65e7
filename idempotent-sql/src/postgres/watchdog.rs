//! Time limits of statements, without a timer for each of them.
//!
//! A timer that is set when no other one is makes the runtime wake the thread that waits for the
//! network, which costs as much as a short statement takes. So the statements of a runtime share one
//! that goes off now and then while any of them is under way; a limit is kept to within a tenth.

use super::lock;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The limits of the statements that are under way on one runtime.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// The time between two looks.
    interval: Duration,
    statements: Mutex<Statements>,
}

#[derive(Debug, Default)]
struct Statements {
    limits: HashMap<u64, Limit>,
    next: u64,
    /// A task looks at them.
    is_watched: bool,
}

#[derive(Debug)]
struct Limit {
    ends: Instant,
    waker: Option<Waker>,
    is_over: bool,
}

/// The statement was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLate;

impl Watchdog {
    /// A watchdog for limits of about this length.
    pub(super) fn new(limit: Duration) -> Arc<Self> {
        let interval = (limit / 10).clamp(Duration::from_millis(1), Duration::from_millis(250));
        Arc::new(Self { interval, statements: Mutex::default() })
    }

    /// Waits for `statement`, for so long at the most.
    pub(super) async fn within<T>(
        self: &Arc<Self>,
        limit: Duration,
        statement: impl Future<Output = T>,
    ) -> Result<T, TooLate> {
        let mut statement = pin!(statement);
        let mut watched = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = statement.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            let watched = watched.get_or_insert_with(|| self.watch(limit));
            match watched.is_over(context.waker()) {
                true => Poll::Ready(Err(TooLate)),
                false => Poll::Pending,
            }
        })
        .await
    }

    fn watch(self: &Arc<Self>, limit: Duration) -> Watched {
        let mut statements = lock(&self.statements);
        let number = statements.next;
        statements.next += 1;
        let ends = Instant::now() + limit;
        statements.limits.insert(number, Limit { ends, waker: None, is_over: false });
        if !statements.is_watched {
            statements.is_watched = true;
            tokio::spawn(Arc::clone(self).look());
        }
        Watched { watchdog: Arc::clone(self), number }
    }

    /// Looks at the limits until there are none for a while.
    async fn look(self: Arc<Self>) {
        // Another runtime may get the number, and with it the watchdog, of one that has ended.
        let _unwatched = Unwatched(Arc::clone(&self));
        let mut idle = 0;
        while idle < 4 {
            tokio::time::sleep(self.interval).await;
            let now = Instant::now();
            let mut statements = lock(&self.statements);
            idle = if statements.limits.is_empty() { idle + 1 } else { 0 };
            let mut wakers = Vec::new();
            for limit in statements.limits.values_mut().filter(|limit| limit.ends <= now) {
                limit.is_over = true;
                wakers.extend(limit.waker.take());
            }
            // Decided under the lock: a statement that comes later starts another look.
            statements.is_watched = idle < 4;
            drop(statements);
            for waker in wakers {
                waker.wake();
            }
        }
    }
}

/// A look at the limits, which may end with its runtime.
struct Unwatched(Arc<Watchdog>);

impl Drop for Unwatched {
    fn drop(&mut self) {
        // At worst another task looks already, and there are two for a while.
        lock(&self.0.statements).is_watched = false;
    }
}

/// A statement under way. Dropped, it has no limit any more.
struct Watched {
    watchdog: Arc<Watchdog>,
    number: u64,
}

impl Watched {
    fn is_over(&self, waker: &Waker) -> bool {
        let mut statements = lock(&self.watchdog.statements);
        let Some(limit) = statements.limits.get_mut(&self.number) else { return true };
        if !limit.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            limit.waker = Some(waker.clone());
        }
        limit.is_over
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        lock(&self.watchdog.statements).limits.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_statement_without_an_answer_ends_at_its_limit() {
        let watchdog = Watchdog::new(LIMIT);
        for _ in 0..2 {
            let late = watchdog.within(LIMIT, std::future::pending::<()>()).await;
            assert_eq!(late, Err(TooLate));
            // The look ends by itself, and the next statement starts another one.
            while lock(&watchdog.statements).is_watched {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(lock(&watchdog.statements).limits.is_empty());
    }

    #[tokio::test]
    async fn an_answer_in_time_is_returned_and_leaves_nothing() {
        let watchdog = Watchdog::new(LIMIT);
        let answers = async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(watchdog.within(LIMIT, answers).await, Ok(7));
        assert!(lock(&watchdog.statements).limits.is_empty());
    }
}
