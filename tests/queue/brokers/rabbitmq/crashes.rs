//! Consumers and senders in processes of their own that die.

use super::{Queue, headers, read};
use crate::crashes::{InProcesses, crashes};
use crate::place::Place;
use crate::producers::killed::killed_senders;
use crate::scenarios::Broker;
use idempotent_queue::Message;
use idempotent_queue::rabbitmq::{RabbitMq, RabbitMqDeliveries};
use lapin::BasicProperties;
use std::sync::Mutex;
use std::time::Duration;
use support::patience::Patience;
use support::rabbitmq::{RabbitMqServer, shared_rabbitmq};

/// A queue that is seen from outside only. Messages in hand are not counted: they are back when their consumer has
/// died, and gone when it was asked to end.
struct Distant {
    url: String,
    name: String,
    queue: tokio::sync::Mutex<Queue>,
    dead: Mutex<Vec<Message>>,
    parked: Mutex<Vec<Message>>,
}

impl Distant {
    async fn on(url: &str) -> Self {
        let queue = Queue::open_on(url, url).await;
        let (dead, parked) = Default::default();
        Self { url: url.to_owned(), name: queue.name.clone(), queue: queue.into(), dead, parked }
    }

    /// The queue, over a connection that is made again after it broke: when the server restarts, and when the machine
    /// has paused this process for longer than heartbeats may be missing.
    async fn queue(&self) -> tokio::sync::MutexGuard<'_, Queue> {
        let mut queue = self.queue.lock().await;
        let mut patience = Patience::usual();
        while let Err(error) = queue.reconnect().await {
            again(&mut patience, &error).await;
        }
        queue
    }

    async fn ready(&self, name: &str) -> Option<u32> {
        let mut patience = Patience::usual();
        loop {
            let ready = self.queue().await.try_ready(name).await;
            match ready {
                Ok(ready) => return ready,
                Err(error) => again(&mut patience, &error).await,
            }
        }
    }

    /// Moves what has arrived in a queue to those seen before.
    async fn arrived(&self, suffix: &str, seen: &Mutex<Vec<Message>>) -> Vec<Message> {
        let name = format!("{}.{suffix}", self.name);
        if self.ready(&name).await > Some(0) {
            let queue = self.queue().await;
            while let Some(delivery) = queue.take(&name).await {
                seen.lock().unwrap().push(read(delivery));
            }
        }
        seen.lock().unwrap().clone()
    }
}

/// Pauses before the broker is asked again.
async fn again(patience: &mut Patience, error: &lapin::Error) {
    assert!(!patience.is_over(), "the broker does not answer: {error}");
    tokio::time::sleep(Duration::from_millis(20)).await;
}

impl Broker for Distant {
    type Deliveries = RabbitMqDeliveries;

    async fn open() -> Self {
        Self::on(shared_rabbitmq()).await
    }

    async fn send(&self, message: Message) {
        let properties = BasicProperties::default().with_headers(headers(message.headers()));
        let mut patience = Patience::usual();
        loop {
            let sent = self.queue().await.try_send(message.payload(), properties.clone()).await;
            match sent {
                Ok(()) => return,
                // Sent again with the same key, as producers do: if the broker has it twice, its body runs once.
                Err(error) => again(&mut patience, &error).await,
            }
        }
    }

    async fn deliveries(&self) -> RabbitMqDeliveries {
        let rabbit = RabbitMq::connect(&self.url).await.unwrap();
        rabbit.deliveries(&*self.name)
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.arrived("dead", &self.dead).await
    }

    async fn parked(&self) -> Vec<Message> {
        self.arrived("parked", &self.parked).await
    }

    async fn pending(&self) -> usize {
        // Wait queues first: without a consumer, a message goes from them to the queue, and not back. One that is on
        // its way is in neither, and is there when they are looked at again.
        for _ in 0..2 {
            let mut pending = 0;
            for power in 7..12 {
                let waiting = self.ready(&format!("{}.wait.{}", self.name, 1 << power)).await;
                pending += waiting.unwrap_or(0);
            }
            pending += self.ready(&self.name).await.unwrap();
            if pending > 0 {
                return pending as usize;
            }
        }
        0
    }
}

impl InProcesses for Distant {
    type Server = RabbitMqServer;

    async fn open_on_own_server() -> (Self, RabbitMqServer) {
        let server = tokio::task::spawn_blocking(RabbitMqServer::start).await.unwrap();
        (Self::on(&server.url()).await, server)
    }

    async fn open_for_processes() -> Self {
        Self::open().await
    }

    fn restart(server: &mut RabbitMqServer) -> bool {
        server.restart();
        true
    }

    async fn place(&self) -> Place {
        Place::RabbitMq { url: self.url.clone(), queue: self.name.clone() }
    }
}

crashes!(Distant, counting);
killed_senders!(Distant, Kept);
