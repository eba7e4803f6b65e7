//! The receiver of messages, at the end of a socket: it notes what it is sent, and confirms.

use idempotent_sql::outbox::{Outgoing, PublishError, Publisher, Receipt};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Orders of a worker: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerOrders {
    pub(crate) database: WorkerDatabase,
    pub(crate) receiver: SocketAddr,
    /// In milliseconds.
    pub(crate) lease: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkerDatabase {
    Postgres(String),
    MariaDb(String),
    Sqlite(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) destination: String,
    pub(crate) key: String,
    pub(crate) payload: String,
}

impl Delivery {
    pub(crate) fn of(message: &Outgoing) -> Self {
        Self {
            id: message.id().to_owned(),
            destination: message.destination().to_owned(),
            key: message.key().unwrap_or_default().to_owned(),
            payload: String::from_utf8_lossy(message.payload()).into_owned(),
        }
    }
}

/// Sends messages to a receiver, each on a connection of its own.
#[derive(Debug)]
pub(crate) struct SocketPublisher(pub(crate) SocketAddr);

impl Publisher for SocketPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let stream = TcpStream::connect(self.0).await.map_err(PublishError::unavailable)?;
        let mut stream = BufReader::new(stream);
        let mut line = serde_json::to_string(&Delivery::of(message)).unwrap();
        line.push('\n');
        stream.write_all(line.as_bytes()).await.map_err(PublishError::retryable)?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await.map_err(PublishError::retryable)?;
        match answer.trim_end() {
            "confirmed" => Ok(Receipt::new()),
            _ => Err(PublishError::retryable("no confirmation")),
        }
    }
}
