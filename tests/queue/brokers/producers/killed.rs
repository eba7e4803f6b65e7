//! Senders in processes of their own that are killed between their steps. Whoever sends again sends the same id: the
//! broker drops the second message, or the key of a consumer does.

use super::orders::{Broker as Sender, Orders, Point, Work};
use super::worker;
use crate::crashes::{HEARTBEAT, InProcesses, in_time};
use idempotent_queue::format::Raw;
use idempotent_queue::producer::{Destination, Producer, SentBy};
use idempotent_queue::{Consumer, Message};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use support::redis::shared_redis;
use support::worker::Worker;
use support::{until, until_async};

/// The broker's answer to a second message of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It is delivered too.
    Kept,
    /// It is dropped, within the broker's window.
    Dropped,
}

/// A sender is killed at a point at which the broker has so many copies of its message.
pub(crate) async fn killed_at<B: InProcesses>(point: Point, left: usize, repeat: Repeat) {
    let (broker, redis) = (B::open_for_processes().await, shared_redis().to_owned());
    let work = Work::StopsAt(point, broker.place().await);
    let orders = serde_json::to_string(&Orders { redis: redis.clone(), work }).unwrap();
    let stops = tokio::task::spawn_blocking(move || Worker::start_talking(worker(), &orders, 0));
    let (sender, line) = stops.await.unwrap();
    assert_eq!(line, "stopped\n");
    drop(sender);
    assert_eq!(broker.pending().await, left, "{point:?}");

    let store = RedisStore::connect(&redis).await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let (sender, destination) = Sender::at(broker.place().await).await;
    let producer = Producer::new(&idem, Destination::new(sender, destination));
    // It waits until the lease of the dead process is over.
    let sent = producer.send(42, "lamp").await.unwrap();
    assert_eq!((sent.id(), sent.sent_by()), (&*producer.id_of(42), SentBy::ThisCall));
    let copies = if repeat == Repeat::Dropped { 1 } else { left + 1 };
    assert_eq!(broker.pending().await, copies, "{point:?}");
    let again = producer.send(42, "lamp").await.unwrap();
    assert_eq!((again.id(), again.sent_by()), (sent.id(), SentBy::EarlierCall));
    assert_eq!(broker.pending().await, copies, "{point:?}");

    let consumer = Consumer::new(&idem, "orders").heartbeat(HEARTBEAT).decoder(Raw);
    let health = consumer.health();
    let bodies = Arc::new(AtomicUsize::new(0));
    let (count, expected) = (Arc::clone(&bodies), sent.id().to_owned());
    let handler = move |message: Message| {
        assert_eq!(message.header("idempotency-key"), Some(&*expected));
        let (idem, count) = (idem.clone(), Arc::clone(&count));
        async move {
            let body = async {
                count.fetch_add(1, SeqCst);
                Ok::<_, Error>(1)
            };
            idem.operation("order").mode(Mode::Strong).run(body).await
        }
    };
    let deliveries = Box::pin(broker.deliveries()).await;
    let consumes = tokio::spawn(consumer.run(deliveries, handler));
    in_time(until(|| {
        assert!(!consumes.is_finished(), "the consumer has ended");
        health.settled().acknowledged == copies as u64
    }))
    .await;
    // Kafka commits a moment later.
    in_time(until_async(async || broker.pending().await == 0)).await;
    assert_eq!(bodies.load(SeqCst), 1, "{point:?}");
    consumes.abort();
}

/// The tests of a broker whose senders die.
macro_rules! killed_senders {
    ($broker:ty, $repeat:ident) => {
        mod senders {
            use super::*;
            use $crate::producers::Point;
            use $crate::producers::killed::{Repeat, killed_at};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_before_the_message_is_sent() {
                Box::pin(killed_at::<$broker>(Point::AtTheBroker, 0, Repeat::$repeat)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_before_it_is_confirmed() {
                Box::pin(killed_at::<$broker>(Point::WithoutConfirmation, 1, Repeat::$repeat))
                    .await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_before_it_is_recorded() {
                Box::pin(killed_at::<$broker>(Point::BeforeTheRecord, 1, Repeat::$repeat)).await;
            }
        }
    };
}
pub(crate) use killed_senders;
