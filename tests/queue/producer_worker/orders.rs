//! Orders of a sender, and a publisher that adds entries to a stream and can stop on the way.

use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::future::pending;
use tokio::sync::mpsc::UnboundedSender;

/// Orders of a sender: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Sends one message in two steps, and prints a line when it has stopped there.
    StopsAt(Point),
    /// Sends so many messages in one step each.
    SendsAll(u64),
}

/// A point between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    AtTheBroker,
    WithoutConfirmation,
    BeforeTheRecord,
}

/// The stream that they send to.
pub(crate) const STREAM: &str = "orders";

/// Adds entries by a plain `XADD`.
#[derive(Clone)]
pub(crate) struct Xadd {
    pub(crate) connection: MultiplexedConnection,
    /// It tells that it has got to this point, and stays there.
    pub(crate) stop: Option<(Point, UnboundedSender<()>)>,
}

impl Xadd {
    async fn stops_at(&self, point: Point) {
        if let Some((at, told)) = &self.stop
            && *at == point
        {
            told.send(()).unwrap();
            pending().await
        }
    }
}

impl Publisher for Xadd {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        self.stops_at(Point::AtTheBroker).await;
        let mut command = redis::cmd("XADD");
        command.arg(message.destination()).arg("*").arg("payload").arg(message.payload());
        for (name, value) in message.wire_headers() {
            command.arg(format!("header:{name}")).arg(value);
        }
        let added = command.query_async::<String>(&mut self.connection.clone()).await;
        let position = added.map_err(PublishError::unavailable)?;
        self.stops_at(Point::WithoutConfirmation).await;
        Ok(Receipt::at(position))
    }
}
