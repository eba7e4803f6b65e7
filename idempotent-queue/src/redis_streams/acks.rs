//! Acknowledgements of many entries, sent together.
//!
//! One command is under way at a time. It has every entry, up to [`TOGETHER`], that was settled while the one before it was under way. The first
//! waits for no other, so a consumer that handles one message at a time is as fast as with a command for each.
//!
//! An entry may be acknowledged that its caller no longer waits for: it has been handled.

use super::link::{Link, Request};
use redis::{Cmd, ErrorKind, RedisResult, cmd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Entries that one command acknowledges at most.
const TOGETHER: usize = 256;

/// The acknowledgements of a group. A clone is another handle to them.
#[derive(Clone, Debug)]
pub(super) struct Acks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    stream: String,
    group: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queued: Vec<Queued>,
    /// There is a [`Sender`].
    is_sending: bool,
}

#[derive(Debug)]
struct Queued {
    id: String,
    answer: oneshot::Sender<RedisResult<()>>,
}

impl Acks {
    pub(super) fn new(link: Arc<Link>, stream: &str, group: &str) -> Self {
        let (stream, group) = (stream.to_owned(), group.to_owned());
        Self(Arc::new(Shared { link, stream, group, state: Mutex::default() }))
    }

    /// Acknowledges an entry. It may have been before, by this consumer or another one.
    pub(super) async fn send(&self, id: &str) -> RedisResult<()> {
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut state = self.0.lock();
            state.queued.push(Queued { id: id.to_owned(), answer });
            !std::mem::replace(&mut state.is_sending, true)
        };
        if is_first {
            // A task, because the entries of others are in it: this caller may go away.
            tokio::spawn(Sender { shared: Arc::clone(&self.0), is_done: false }.run());
        }
        // The task ends without an answer only with its runtime.
        answered.await.unwrap_or_else(|_| Err((ErrorKind::Io, "the runtime has ended").into()))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entries; none if there are no more, and nothing sends from here on.
    fn next(&self) -> Vec<Queued> {
        let mut state = self.lock();
        let count = state.queued.len().min(TOGETHER);
        // Under one lock with the look at the queue, or an entry could be queued in between.
        state.is_sending = count > 0;
        state.queued.drain(..count).collect()
    }

    fn command(&self, queued: &[Queued]) -> Cmd {
        let mut command = cmd("XACK");
        command.arg(&self.stream).arg(&self.group);
        for Queued { id, .. } in queued {
            command.arg(id);
        }
        command
    }
}

/// Sends what is queued. Dropped early, with its runtime, it ends the queue: nobody would send it.
struct Sender {
    shared: Arc<Shared>,
    /// The queue was empty when it looked last, and another one may have begun since.
    is_done: bool,
}

impl Sender {
    async fn run(mut self) {
        loop {
            let queued = self.shared.next();
            if queued.is_empty() {
                self.is_done = true;
                return;
            }
            let command = self.shared.command(&queued);
            // Sent twice, it does no more than once.
            let answer = self.shared.link.ask_again(Request::Command(&command)).await.map(drop);
            for Queued { answer: sender, .. } in queued {
                // A caller may be gone.
                let _ = sender.send(answer.clone());
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let unsent = {
            let mut state = self.shared.lock();
            state.is_sending = false;
            std::mem::take(&mut state.queued)
        };
        // Wakes their callers, so not under the lock.
        drop(unsent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis_streams::servers::Servers;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    /// Acknowledgements to a server that is not there.
    fn acks() -> Acks {
        let servers = Servers::single("redis://127.0.0.1:1/").unwrap();
        Acks::new(Arc::new(Link::new(servers, LONG, LONG)), "orders", "billing")
    }

    #[test]
    fn entries_that_were_settled_meanwhile_are_one_command() {
        let acks = acks();
        let queue = |id: &str| {
            let (answer, _) = oneshot::channel();
            acks.0.lock().queued.push(Queued { id: id.to_owned(), answer });
        };
        queue("1-0");
        queue("2-0");
        let command = acks.0.command(&acks.0.next()).get_packed_command();
        let sent = String::from_utf8(command).unwrap();
        assert_eq!(sent.split("\r\n").filter(|part| part.ends_with("-0")).count(), 2, "{sent}");
        assert!(acks.0.lock().is_sending && acks.0.next().is_empty() && !acks.0.lock().is_sending);
    }

    #[tokio::test]
    async fn every_caller_gets_the_error_and_the_next_one_is_sent() {
        let acks = acks();
        for _ in 0..2 {
            let (first, second) = tokio::join!(acks.send("1-0"), acks.send("2-0"));
            assert!(first.is_err() && second.is_err());
        }
    }

    #[test]
    fn a_runtime_that_ends_leaves_nobody_waiting() {
        let acks = acks();
        let ended = Builder::new_current_thread().enable_all().build().unwrap();
        let entered = ended.enter();
        // Spawned there, and never polled.
        let mut first = Box::pin(acks.send("1-0"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        drop(entered);
        drop(ended);
        let here = Builder::new_current_thread().enable_all().build().unwrap();
        assert!(here.block_on(async { timeout(LONG, first).await }).unwrap().is_err());
        let next = here.block_on(async { timeout(LONG, acks.send("2-0")).await });
        assert!(next.unwrap().is_err(), "another task was started");
    }
}
