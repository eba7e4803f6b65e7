//! Consumers and senders in processes of their own that die.

use super::{CONSUMER, Nats, config, connect};
use crate::crashes::{InProcesses, REDELIVERED_AFTER, crashes};
use crate::place::Place;
use crate::producers::killed::killed_senders;
use crate::scenarios::Broker;
use async_nats::jetstream::consumer::pull;
use idempotent_queue::Message;
use idempotent_queue::nats::NatsDeliveries;
use support::nats::{NatsServer, shared_nats};

/// A stream, and the address of its server. Its messages come again soon after the process that had them died.
struct Distant {
    nats: Nats,
    url: String,
}

impl Distant {
    async fn on(url: &str) -> Self {
        let config = pull::Config { ack_wait: REDELIVERED_AFTER, ..config() };
        Self { nats: Nats::on(connect(url).await, config).await, url: url.to_owned() }
    }
}

impl Broker for Distant {
    type Deliveries = NatsDeliveries;

    async fn open() -> Self {
        Self::on(shared_nats()).await
    }

    async fn send(&self, message: Message) {
        self.nats.send(message).await;
    }

    async fn deliveries(&self) -> NatsDeliveries {
        self.nats.deliveries().await
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.nats.dead_letters().await
    }

    async fn parked(&self) -> Vec<Message> {
        self.nats.parked().await
    }

    async fn pending(&self) -> usize {
        self.nats.pending().await
    }
}

impl InProcesses for Distant {
    type Server = NatsServer;

    async fn open_on_own_server() -> (Self, NatsServer) {
        let server = NatsServer::start();
        (Self::on(&server.url()).await, server)
    }

    async fn open_for_processes() -> Self {
        Self::open().await
    }

    fn restart(server: &mut NatsServer) -> bool {
        server.restart();
        true
    }

    async fn place(&self) -> Place {
        let (url, stream) = (self.url.clone(), self.nats.stream.clone());
        let (subject, consumer) = (self.nats.subject(), CONSUMER.to_owned());
        Place::Nats { url, stream, subject, consumer }
    }
}

crashes!(Distant, counting);
killed_senders!(Distant, Dropped);
