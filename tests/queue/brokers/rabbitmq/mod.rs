//! RabbitMQ: the scenarios of all brokers, and the promises of its own adapter.

mod counted;
mod crashes;
mod cut;
mod faults;
mod limits;
mod publishing;
mod settling;

use crate::scenarios::{Broker, scenarios};
use counted::{Counted, Counts};
use idempotent_queue::Message;
use idempotent_queue::rabbitmq::{RabbitMq, RabbitMqDeliveries};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind};
use std::sync::{Arc, Mutex};
use support::rabbitmq::{queue_name, shared_rabbitmq};
use support::until_async;

/// A connection, with a channel on which the broker confirms messages.
async fn connect(server: &str) -> lapin::Result<(Connection, Channel)> {
    let connection = Connection::connect(server, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok((connection, channel))
}

/// A queue of a test's own, and a connection beside that of the adapter. Deleted with this value, so that a
/// server outlives many runs.
struct Queue {
    server: String,
    rabbit: RabbitMq,
    name: String,
    connection: Connection,
    channel: Channel,
}

impl Queue {
    /// A quorum queue on the shared server.
    async fn open() -> Self {
        Self::open_on(shared_rabbitmq(), shared_rabbitmq()).await
    }

    /// A quorum queue on a server that the adapter reaches in another way.
    async fn open_on(server: &str, url: &str) -> Self {
        let queue = Self::missing_on(server, url).await;
        queue.declare(&queue.name, &[]).await;
        queue
    }

    /// A name, without its queue.
    async fn missing_on(server: &str, url: &str) -> Self {
        let (connection, channel) = connect(server).await.unwrap();
        let rabbit = RabbitMq::connect(url).await.unwrap();
        Self { server: server.to_owned(), rabbit, name: queue_name(), connection, channel }
    }

    /// Makes a broken connection again.
    async fn reconnect(&mut self) -> lapin::Result<()> {
        if !self.connection.status().connected() || !self.channel.status().connected() {
            (self.connection, self.channel) = connect(&self.server).await?;
        }
        Ok(())
    }

    fn deliveries(&self) -> RabbitMqDeliveries {
        self.rabbit.deliveries(&*self.name)
    }

    fn dead(&self) -> String {
        format!("{}.dead", self.name)
    }

    fn parked(&self) -> String {
        format!("{}.parked", self.name)
    }

    /// Declares a quorum queue with these arguments.
    async fn declare(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        table.insert("x-queue-type".into(), text("quorum"));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions::durable();
        self.channel.queue_declare(name.into(), options, table).await.unwrap();
    }

    async fn send(&self, payload: &[u8], properties: BasicProperties) {
        self.try_send(payload, properties).await.unwrap();
    }

    /// Sends a message, and waits until the broker has confirmed it. After an error the broker may have it.
    async fn try_send(&self, payload: &[u8], properties: BasicProperties) -> lapin::Result<()> {
        let (to, options) = (self.name.as_str().into(), BasicPublishOptions::default());
        let properties = properties.with_delivery_mode(2);
        let sent = self.channel.basic_publish("".into(), to, options, payload, properties).await?;
        assert!(sent.await?.is_ack());
        Ok(())
    }

    /// The number of messages of a queue that nobody has in hand. `None` if there is no such queue.
    async fn ready(&self, name: &str) -> Option<u32> {
        self.try_ready(name).await.unwrap()
    }

    async fn try_ready(&self, name: &str) -> lapin::Result<Option<u32>> {
        // The broker closes a channel that asks for a missing queue.
        let channel = self.connection.create_channel().await?;
        let options = QueueDeclareOptions::durable().passive();
        match channel.queue_declare(name.into(), options, FieldTable::default()).await {
            Ok(queue) => Ok(Some(queue.message_count())),
            Err(error) => match error.kind() {
                // One whose node is starting is not found either, in other words.
                ErrorKind::ProtocolError(refusal)
                    if refusal.get_message().as_str().contains("no queue") =>
                {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Takes a message from a queue, if there is one.
    async fn take(&self, name: &str) -> Option<lapin::message::Delivery> {
        let got = self.channel.basic_get(name.into(), BasicGetOptions { no_ack: true }).await;
        got.unwrap().map(|got| got.delivery)
    }

    /// Takes a message from a queue, once there is one.
    async fn take_next(&self, name: &str) -> lapin::message::Delivery {
        until_async(async || self.ready(name).await > Some(0)).await;
        self.take(name).await.unwrap()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let deletes = async move {
            let connects = Connection::connect(&server, ConnectionProperties::default());
            // A server that was killed has deleted them in its own way.
            let Ok(connection) = connects.await else { return };
            let channel = connection.create_channel().await.unwrap();
            let waits = (7..=27).map(|power| format!(".wait.{}", 1 << power));
            let places = ["", ".dead", ".parked"].map(str::to_owned).into_iter().chain(waits);
            for place in places {
                let queue = format!("{name}{place}").into();
                let _ = channel.queue_delete(queue, QueueDeleteOptions::default()).await;
            }
        };
        // The runtime of the test ends with it.
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(deletes);
        });
        let _ = thread.join();
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(name.into(), text(value));
    }
    table
}

/// A message as it lies in a queue.
fn read(delivery: lapin::message::Delivery) -> Message {
    let mut message = Message::new(delivery.data);
    for (name, value) in delivery.properties.headers().iter().flatten() {
        if let AMQPValue::LongString(value) = value {
            message = message.with_header(name.as_str(), value.to_string());
        }
    }
    message
}

/// A queue whose messages are counted by what became of them: of messages in hand, the broker tells the number
/// only seconds later.
struct Rabbit {
    queue: Queue,
    sent: Mutex<usize>,
    counts: Arc<Counts>,
    dead: Mutex<Vec<Message>>,
    parked: Mutex<Vec<Message>>,
}

impl Rabbit {
    /// Moves what has arrived in a queue to those seen before, once there are this many.
    async fn arrived(&self, name: &str, seen: &Mutex<Vec<Message>>, count: usize) -> Vec<Message> {
        until_async(async || {
            if self.queue.ready(name).await.is_some() {
                while let Some(delivery) = self.queue.take(name).await {
                    seen.lock().unwrap().push(read(delivery));
                }
            }
            seen.lock().unwrap().len() >= count
        })
        .await;
        seen.lock().unwrap().clone()
    }
}

impl Broker for Rabbit {
    type Deliveries = Counted<RabbitMqDeliveries>;

    async fn open() -> Self {
        let (sent, counts, dead, parked) = Default::default();
        Self { queue: Queue::open().await, sent, counts, dead, parked }
    }

    async fn send(&self, message: Message) {
        let properties = BasicProperties::default().with_headers(headers(message.headers()));
        self.queue.send(message.payload(), properties).await;
        *self.sent.lock().unwrap() += 1;
    }

    async fn deliveries(&self) -> Counted<RabbitMqDeliveries> {
        // Another connection, as in another process.
        let rabbit = RabbitMq::connect(shared_rabbitmq()).await.unwrap();
        Counted::new(rabbit.deliveries(&*self.queue.name), Arc::clone(&self.counts))
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.arrived(&self.queue.dead(), &self.dead, self.counts.dead()).await
    }

    async fn parked(&self) -> Vec<Message> {
        self.arrived(&self.queue.parked(), &self.parked, self.counts.parked()).await
    }

    async fn pending(&self) -> usize {
        let sent = *self.sent.lock().unwrap();
        let pending = sent.checked_sub(self.counts.settled()).expect("a message is settled once");
        if pending == 0 {
            assert_eq!(self.queue.ready(&self.queue.name).await, Some(0), "the broker agrees");
        }
        pending
    }
}

scenarios!(Rabbit);
