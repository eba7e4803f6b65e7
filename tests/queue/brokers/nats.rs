//! NATS JetStream.

use crate::scenarios::{Broker, scenarios};
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use async_nats::{ConnectOptions, HeaderMap};
use idempotent_queue::Message;
use idempotent_queue::nats::{self, NatsDeliveries};
use std::time::Duration;
use support::nats::{NatsServer, more_binaries, shared_nats};

tokio::task_local! {
    /// The server of a test that does not use the shared one.
    static SERVER: String;
}

/// A stream of a test, its consumer, and a stream of what is put aside.
struct Nats {
    jetstream: Context,
    stream: String,
}

const CONSUMER: &str = "shop";

/// Long enough for the heartbeats of a consumer without settings: nothing in these tests waits for it.
const ACK_WAIT: Duration = Duration::from_secs(30);

fn config() -> pull::Config {
    pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        ..pull::Config::default()
    }
}

impl Nats {
    /// Streams on this server, with a connection of their own.
    async fn at(url: &str, config: pull::Config) -> Self {
        Self::on(connect(url).await, config).await
    }

    async fn on(jetstream: Context, config: pull::Config) -> Self {
        let nats = Self { jetstream, stream: format!("T{:016x}", rand::random::<u64>()) };
        let stream = nats.add_stream(&nats.stream, &[&nats.subject()]).await;
        stream.create_consumer(config).await.unwrap();
        nats.add_stream(&nats.aside(), &[&nats.dead(), &nats.parking()]).await;
        nats
    }

    async fn add_stream(&self, name: &str, subjects: &[&str]) -> stream::Stream {
        let subjects = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let config = stream::Config { name: name.to_owned(), subjects, ..Default::default() };
        self.jetstream.create_stream(config).await.unwrap()
    }

    fn subject(&self) -> String {
        format!("{}.orders", self.stream)
    }

    fn aside(&self) -> String {
        format!("{}_aside", self.stream)
    }

    fn dead(&self) -> String {
        format!("dead-letters.{}.{CONSUMER}", self.stream)
    }

    fn parking(&self) -> String {
        format!("parked.{}.{CONSUMER}", self.stream)
    }

    fn source(&self) -> NatsDeliveries {
        nats::deliveries(&self.jetstream, &self.stream, CONSUMER)
    }

    async fn put_aside(&self, subject: &str) -> Vec<Message> {
        let stream = self.jetstream.get_stream(self.aside()).await.unwrap();
        let last = stream.cached_info().state.last_sequence;
        let mut found = vec![];
        for sequence in 1..=last {
            let letter = stream.get_raw_message(sequence).await.unwrap();
            if *letter.subject == *subject {
                let mut message = Message::new(letter.payload.to_vec());
                for (name, values) in letter.headers.iter() {
                    for value in values {
                        message = message.with_header(name.to_string(), value.as_str());
                    }
                }
                found.push(message);
            }
        }
        found
    }

    async fn pending(&self) -> usize {
        let stream = self.jetstream.get_stream_no_info(&self.stream).await.unwrap();
        let info = stream.consumer_info(CONSUMER).await.unwrap();
        info.num_ack_pending + usize::try_from(info.num_pending).unwrap()
    }
}

async fn connect(url: &str) -> Context {
    // Without the pauses of a client that waits for a server for long.
    let options = ConnectOptions::new().reconnect_delay_callback(|_| Duration::from_millis(20));
    jetstream::new(options.connect(url).await.unwrap())
}

impl Broker for Nats {
    type Deliveries = NatsDeliveries;

    async fn open() -> Self {
        let url = SERVER.try_with(String::clone).unwrap_or_else(|_| shared_nats().to_owned());
        Self::at(&url, config()).await
    }

    async fn send(&self, message: Message) {
        let mut headers = HeaderMap::new();
        message.headers().for_each(|(name, value)| headers.append(name, value));
        let payload = message.payload().to_vec().into();
        let sent = self.jetstream.publish_with_headers(self.subject(), headers, payload).await;
        sent.unwrap().await.unwrap();
    }

    async fn deliveries(&self) -> NatsDeliveries {
        self.source()
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.put_aside(&self.dead()).await
    }

    async fn parked(&self) -> Vec<Message> {
        self.put_aside(&self.parking()).await
    }

    async fn pending(&self) -> usize {
        Self::pending(self).await
    }
}

scenarios!(Nats);
