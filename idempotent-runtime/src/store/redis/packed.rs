//! Commands of many tasks, sent together.
//!
//! The client spends as much time on a message as on the command inside it: a channel, a timer, a
//! wakeup. So commands that are ready at the same time travel as one pipeline. Nothing waits for
//! another command to come: while few are under way each is sent by itself, and from then on by a
//! task that runs once the tasks that are ready have had their turn.
//!
//! Commands are sent in the order in which they are given, also across the two ways.

use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, lock};
use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use std::future::{Future, poll_fn};
use std::io;
use std::mem::{replace, take};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Number of commands under way up to which each is sent by itself.
const ALONE: usize = 4;

/// Maximum number of commands in one message. If the connection ends while their answers come in,
/// the outcome of all of them is unknown.
const TOGETHER: usize = 128;

/// Number of bytes of arguments after which a message takes no further command: the answers of a
/// message come at once, so that of a small command would wait for many large ones.
const LARGE: usize = 64 * 1024;

/// A connection that sends commands together. A clone is another handle to it.
#[derive(Clone)]
pub(super) struct Packed(Arc<Shared>);

struct Shared {
    connection: MultiplexedConnection,
    /// Commands that were given and not yet answered.
    under_way: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Commands that a task is about to send.
    queued: Vec<Queued>,
    /// There is a [`Packer`]. It has not yet handed its commands to the connection.
    packing: bool,
    /// The number of commands in each message.
    #[cfg(test)]
    messages: Vec<usize>,
}

struct Queued {
    command: Cmd,
    answer: oneshot::Sender<Result<Value, RedisError>>,
}

impl Packed {
    pub(super) fn new(connection: MultiplexedConnection) -> Self {
        Self(Arc::new(Shared {
            connection,
            under_way: AtomicUsize::new(0),
            state: Mutex::default(),
        }))
    }

    /// The connection itself, for what is not to be sent with other commands.
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.0.connection.clone()
    }

    /// Sends a command. An error that the server answers with is in the value.
    pub(super) fn command(&self, command: Cmd) -> Sent {
        match self.0.give(command) {
            Given::Alone(command, under_way) => {
                let mut connection = self.connection();
                Sent::Alone(Box::pin(async move {
                    let _under_way = under_way;
                    connection.send_packed_command(&command).await
                }))
            }
            Given::Queued { answer, packer } => {
                if let Some(packer) = packer {
                    tokio::spawn(packer.run());
                }
                Sent::Queued(answer)
            }
        }
    }
}

/// A command that was given to a connection.
enum Given {
    /// It is to be sent by itself.
    Alone(Cmd, UnderWay),
    /// It is sent with others, by a task that is to be started if it is the first of them.
    Queued { answer: oneshot::Receiver<Result<Value, RedisError>>, packer: Option<Packer> },
}

/// A command under way. One that goes by itself is sent with the first poll.
///
/// Small, because it is part of the future of every call.
pub(super) enum Sent {
    Alone(Pin<Box<dyn Future<Output = Result<Value, RedisError>> + Send>>),
    Queued(oneshot::Receiver<Result<Value, RedisError>>),
}

impl Future for Sent {
    type Output = Result<Value, RedisError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Alone(sent) => sent.as_mut().poll(context),
            Self::Queued(answer) => Pin::new(answer).poll(context).map(|answer| {
                // The task ends without an answer only with its runtime.
                answer.unwrap_or_else(|_| {
                    Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())
                })
            }),
        }
    }
}

/// Commands that were given to a connection. Dropped, they count as answered.
struct UnderWay {
    shared: Arc<Shared>,
    count: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Relaxed: a command that counts a moment longer sends others together, which is no harm.
        self.shared.under_way.fetch_sub(self.count, Relaxed);
    }
}

impl Shared {
    /// Decides how a command is sent, and queues it if it is sent with others.
    fn give(self: &Arc<Self>, command: Cmd) -> Given {
        let others = self.under_way.fetch_add(1, Relaxed);
        let mut state = lock(&self.state);
        if others < ALONE && !state.packing {
            return Given::Alone(command, UnderWay { shared: Arc::clone(self), count: 1 });
        }
        let (sender, answer) = oneshot::channel();
        state.queued.push(Queued { command, answer: sender });
        let is_first = !replace(&mut state.packing, true);
        let packer = is_first.then(|| Packer { shared: Arc::clone(self), is_done: false });
        Given::Queued { answer, packer }
    }

    /// Takes as many commands as one message holds.
    fn next_message(&self) -> Vec<Queued> {
        let mut state = lock(&self.state);
        let (mut count, mut bytes) = (0, 0);
        for Queued { command, .. } in state.queued.iter().take(TOGETHER) {
            if bytes >= LARGE {
                break;
            }
            count += 1;
            bytes += size(command);
        }
        match count == state.queued.len() {
            true => take(&mut state.queued),
            false => state.queued.drain(..count).collect(),
        }
    }
}

/// Sends what is queued. A connection has one while [`State::packing`] is set.
///
/// Its task may be dropped before it has sent anything: a runtime that shuts down does not run the
/// tasks that are spawned on it. Nothing would then send the queue, whose commands hold the senders
/// that their callers wait for. So dropping it early ends the queue.
struct Packer {
    shared: Arc<Shared>,
    /// The queue was empty when the last message was handed over.
    is_done: bool,
}

impl Packer {
    async fn run(self) {
        // Those that are ready now add theirs.
        behind_ready_tasks().await;
        self.send_queued().await;
    }

    /// Sends a message, and answers. Must be the first thing that a task does when it is polled, or
    /// the commands may not reach the connection with the first poll.
    async fn send_queued(self) {
        let queued = self.shared.next_message();
        let under_way = UnderWay { shared: Arc::clone(&self.shared), count: queued.len() };
        let mut pipeline = Pipeline::with_capacity(queued.len());
        let mut answers = Vec::with_capacity(queued.len());
        for Queued { command, answer } in queued {
            // Nobody waits for it any more: it was not sent, as if it had never been given.
            if !answer.is_closed() {
                pipeline.add_command(command);
                answers.push(answer);
            }
        }
        let mut connection = self.shared.connection.clone();
        let mut sent = pin!(connection.send_packed_commands(&pipeline, 0, pipeline.len()));
        // With the first poll they have their place on the connection, before all later commands.
        let at_once = match pipeline.is_empty() {
            true => Poll::Ready(Ok(Vec::new())),
            false => poll_fn(|context| Poll::Ready(sent.as_mut().poll(context))).await,
        };
        self.handed_over(pipeline.len());
        let answered = match at_once {
            Poll::Ready(answered) => answered,
            Poll::Pending => sent.await,
        };
        drop(under_way);
        match answered {
            Ok(values) => {
                for (answer, value) in answers.into_iter().zip(values) {
                    // Whoever asked may be gone.
                    let _ = answer.send(Ok(value));
                }
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Lets another task send what was queued meanwhile.
    fn handed_over(mut self, _count: usize) {
        {
            let mut state = lock(&self.shared.state);
            #[cfg(test)]
            state.messages.push(_count);
            // Under one lock with the look at the queue, or a command could be queued in between.
            state.packing = !state.queued.is_empty();
            self.is_done = !state.packing;
        }
        if !self.is_done {
            tokio::spawn(self.send_queued());
        }
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let unsent = {
            let mut state = lock(&self.shared.state);
            state.packing = false;
            take(&mut state.queued)
        };
        self.shared.under_way.fetch_sub(unsent.len(), Relaxed);
        // Wakes their callers, so not under the lock.
        drop(unsent);
    }
}

/// Lets the tasks that are ready have their turn.
///
/// A task that wakes itself is put at the end of its worker's queue, from which other workers take.
/// `yield_now` would leave it with the worker alone: if that runs a body that blocks next, all commands
/// of the runtime would wait for that body.
pub(super) async fn behind_ready_tasks() {
    let mut has_waited = false;
    poll_fn(|context| {
        if replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The bytes of a command's arguments.
fn size(command: &Cmd) -> usize {
    let sizes = command.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes.len(),
        _ => 0,
    });
    sizes.sum()
}

#[cfg(test)]
#[path = "packed/tests.rs"]
mod tests;
