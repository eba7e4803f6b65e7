//! Consumers and senders in processes of their own that die.

use super::{GROUP, Stream};
use crate::crashes::{InProcesses, REDELIVERED_AFTER, crashes};
use crate::place::Place;
use crate::producers::killed::killed_senders;
use crate::scenarios::Broker;
use idempotent_queue::Message;
use idempotent_queue::redis_streams::StreamDeliveries;
use support::redis::{RedisServer, connection, installed};
use tokio::sync::{Mutex, MutexGuard};

/// A stream whose server may be restarted.
struct Distant(Mutex<Stream>);

impl Distant {
    /// The stream, over a connection that may have broken with the server.
    async fn stream(&self) -> MutexGuard<'_, Stream> {
        let mut stream = self.0.lock().await;
        let ping = redis::cmd("PING");
        if ping.query_async::<String>(&mut stream.connection.clone()).await.is_err() {
            stream.connection = connection(&stream.url).await;
        }
        stream
    }
}

impl Broker for Distant {
    type Deliveries = StreamDeliveries;

    async fn open() -> Self {
        Self(Stream::shared().await.into())
    }

    async fn send(&self, message: Message) {
        self.stream().await.send(message).await;
    }

    async fn deliveries(&self) -> StreamDeliveries {
        self.stream().await.deliveries().await
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.stream().await.dead_letters().await
    }

    async fn parked(&self) -> Vec<Message> {
        self.stream().await.parked().await
    }

    async fn pending(&self) -> usize {
        self.stream().await.pending().await
    }
}

impl InProcesses for Distant {
    type Server = RedisServer;

    async fn open_on_own_server() -> (Self, RedisServer) {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start_with(&installed(), &durable);
        (Self(Stream::on(&server.url()).await.into()), server)
    }

    async fn open_for_processes() -> Self {
        Self::open().await
    }

    fn restart(server: &mut RedisServer) -> bool {
        server.restart();
        true
    }

    async fn place(&self) -> Place {
        let stream = self.stream().await;
        Place::RedisStream {
            url: stream.url.clone(),
            stream: stream.name.clone(),
            group: GROUP.to_owned(),
            claim_after_ms: REDELIVERED_AFTER.as_millis() as u64,
        }
    }
}

crashes!(Distant, counting);
killed_senders!(Distant, Kept);
