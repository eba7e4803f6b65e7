//! Keeps a paused tokio clock from running ahead of a server.
//!
//! On a runtime whose clock is paused (`#[tokio::test(start_paused = true)]`, `tokio::time::pause`)
//! time jumps to the next timer as soon as every task waits. A task that waits for a server counts
//! as waiting, so the timeout of the command would be over before the server has had a chance to
//! answer. Tokio lets time stand while a blocking task runs. So one runs for as long as a command
//! is under way, and no longer than its timeout in real time: a server that stays silent is given
//! up on.

use std::future::Future;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Waits for `answer`. A paused clock stands still meanwhile, for `timeout` at most.
pub(super) async fn hold<T>(timeout: Duration, answer: impl Future<Output = T>) -> T {
    let held = is_paused().then(|| Held::for_at_most(timeout));
    let answer = answer.await;
    drop(held);
    answer
}

/// Dropping it lets the clock go on.
struct Held {
    _over: mpsc::Sender<()>,
}

impl Held {
    fn for_at_most(timeout: Duration) -> Self {
        let (over, ended) = mpsc::channel();
        tokio::task::spawn_blocking(move || ended.recv_timeout(timeout).is_ok());
        Self { _over: over }
    }
}

/// More than lies between two looks at one clock, unless the thread is interrupted between them,
/// and less than a call takes from its start to its first command.
const APART: Duration = Duration::from_micros(1);

/// `true` if the clock of the current runtime stands still. Tokio does not tell.
pub(super) fn is_paused() -> bool {
    let (tokio, real) = (tokio::time::Instant::now(), Instant::now());
    let apart = real.checked_duration_since(tokio.into_std());
    if apart.is_some_and(|apart| apart < APART) {
        return false;
    }
    // Paused, or paused before and running again, or the thread was interrupted.
    while real.elapsed() < APART {}
    tokio::time::Instant::now() == tokio
}
