//! Queued commands of many tasks, sent together.
//!
//! A multiplexed connection wakes up its driver and the caller for every command. Commands that wait here while a pipeline is
//! under way travel as the next one, and cost one request to the connection.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot};

/// The most commands of one pipeline.
const MOST: usize = 1024;

/// Commands of one caller, which stay together, and the channel for the answer to the last of them.
type Queued = (Vec<Cmd>, oneshot::Sender<Value>);

/// A queue in front of a connection.
#[derive(Clone, Debug)]
pub struct Packer {
    queue: mpsc::UnboundedSender<Queued>,
}

impl Packer {
    /// A queue in front of this connection. It ends with its last clone.
    pub fn new(connection: MultiplexedConnection) -> Self {
        let (queue, commands) = mpsc::unbounded_channel();
        tokio::spawn(drive(connection, commands));
        Self { queue }
    }

    /// Sends commands with those that others send at the same time. Returns the answer to the last of them.
    ///
    /// # Panics
    /// The server refuses one of them.
    pub async fn send(&self, commands: Vec<Cmd>) -> Value {
        let (answer, answered) = oneshot::channel();
        self.queue.send((commands, answer)).expect("the driver runs as long as the queue");
        answered.await.expect("the driver answers")
    }
}

async fn drive(
    mut connection: MultiplexedConnection,
    mut commands: mpsc::UnboundedReceiver<Queued>,
) {
    let mut queued = Vec::new();
    while commands.recv_many(&mut queued, MOST).await > 0 {
        let mut pipeline = redis::pipe();
        let mut callers = Vec::with_capacity(queued.len());
        for (commands, caller) in queued.drain(..) {
            callers.push((commands.len(), caller));
            for command in commands {
                pipeline.add_command(command);
            }
        }
        let answers: Vec<Value> =
            pipeline.query_async(&mut connection).await.expect("the server takes the pipeline");
        let mut answers = answers.into_iter();
        for (count, caller) in callers {
            if let Some(answer) = answers.by_ref().take(count).last() {
                let _ = caller.send(answer);
            }
        }
    }
}
