//! NATS JetStream.

mod crashes;
mod delivering;
mod faults;
mod preparing;
mod publishing;

use crate::scenarios::{Broker, scenarios};
use async_nats::jetstream::consumer::{self, AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use async_nats::{ConnectOptions, HeaderMap};
use futures_util::TryStreamExt as _;
use idempotent_queue::nats::{self, NatsDeliveries};
use idempotent_queue::{Deliveries as _, Message, Terms};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::nats::{MORE_SERVERS, NatsServer, SHARED, more_binaries, shared_nats};
use support::until_async;

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
    /// Streams on the shared server, with a connection of their own.
    async fn open_with(config: pull::Config) -> Self {
        Self::on(connect(shared_nats()).await, config).await
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

    /// A source for so many messages at a time.
    async fn prepared(&self, prefetch: usize) -> NatsDeliveries {
        let mut terms = Terms::new("orders");
        (terms.prefetch, terms.heartbeat) = (prefetch, Duration::from_millis(1));
        let mut source = self.source();
        source.prepare(&terms).await.unwrap();
        source
    }

    /// The same streams, as another client sees them.
    fn through(&self, jetstream: Context) -> Self {
        Self { jetstream, stream: self.stream.clone() }
    }

    /// Waits for a message that does not come, until the server has the request for it.
    async fn until_asked(&self, source: &mut NatsDeliveries) {
        let asked = until_async(async || self.consumer_info().await.num_waiting > 0);
        tokio::select! {
            delivered = source.next() => panic!("{delivered:?}"),
            () = asked => {}
        }
    }

    async fn consumer_info(&self) -> consumer::Info {
        let stream = self.jetstream.get_stream_no_info(&self.stream).await.unwrap();
        stream.consumer_info(CONSUMER).await.unwrap()
    }

    /// The messages of a subject, which stay where they are.
    async fn put_aside(&self, subject: &str) -> Vec<Message> {
        let stream = self.jetstream.get_stream_no_info(self.aside()).await.unwrap();
        // A consumer of its own: the client reads only one value of a header from the stream itself.
        let reader = pull::Config { filter_subject: subject.to_owned(), ..Default::default() };
        let mut reader = stream.create_consumer(reader).await.unwrap();
        let count = reader.info().await.unwrap().num_pending;
        let mut letters =
            reader.batch().max_messages(usize::try_from(count).unwrap()).messages().await.unwrap();
        let mut found = vec![];
        while let Some(letter) = letters.try_next().await.unwrap() {
            let mut message = Message::new(letter.payload.to_vec());
            for (name, values) in letter.headers.iter().flat_map(|headers| headers.iter()) {
                for value in values {
                    message = message.with_header(name.to_string(), value.as_str());
                }
            }
            found.push(message);
        }
        assert_eq!(found.len() as u64, count);
        stream.delete_consumer(&reader.cached_info().name).await.unwrap();
        found
    }

    async fn pending(&self) -> usize {
        // The stream first: a consumer may not count a message yet that the stream has confirmed.
        let stream = self.jetstream.get_stream(&self.stream).await.unwrap();
        let sent = stream.cached_info().state.last_sequence;
        let info = self.consumer_info().await;
        let undelivered = sent.saturating_sub(info.delivered.stream_sequence).max(info.num_pending);
        info.num_ack_pending + usize::try_from(undelivered).unwrap()
    }
}

async fn connect(url: &str) -> Context {
    // Without the pauses of a client that waits for a server for long.
    let options = ConnectOptions::new().reconnect_delay_callback(|_| Duration::from_millis(20));
    jetstream::new(options.connect(url).await.unwrap())
}

/// A client that does not wait for answers for long.
async fn impatient(url: &str) -> Context {
    let mut jetstream = connect(url).await;
    jetstream.set_timeout(Duration::from_millis(500));
    jetstream
}

impl Broker for Nats {
    type Deliveries = NatsDeliveries;

    async fn open() -> Self {
        Self::open_with(config()).await
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

/// All other tests, on each server that the environment names.
#[test]
fn other_versions_of_the_server_keep_the_same_promises() {
    for binary in more_binaries() {
        let server = NatsServer::start_with(&binary);
        let home = binary.parent().unwrap_or(Path::new("."));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(home.to_owned()).chain(std::env::split_paths(&path));
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests.args(["nats::", "--skip", "other_versions_of_the_server"]);
        tests.env(SHARED, server.url()).env_remove(MORE_SERVERS);
        tests.env("PATH", std::env::join_paths(folders).unwrap());
        let output = tests.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}:\n{printed}", binary.display());
    }
}
