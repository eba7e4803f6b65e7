//! Sources are prepared before the first delivery.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::Watched;
use idempotent_queue::{ConsumerError, ConsumerState, PrepareError, QueueError};
use idempotent_runtime::Config;
use std::sync::Arc;
use std::time::Duration;
use support::until;
use tokio::sync::oneshot;

fn unavailable() -> PrepareError {
    PrepareError::Unavailable(QueueError::new("the broker is away"))
}

#[tokio::test]
async fn a_source_is_prepared_once_with_the_terms_of_its_consumer() {
    let bench = Bench::new();
    let lease = Duration::from_millis(300);
    bench.idem.reconfigure(Config::new().with_lease(lease)).unwrap();
    for key in ["a", "b"] {
        bench.queue.send(message(key, Body::Succeeds));
    }
    bench.queue.close();
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().concurrency(3).prefetch(1).max_attempts(5);
    in_time(consumer.run(source, handle)).await.unwrap();
    let terms = seen.terms.lock().unwrap();
    let [terms] = &terms[..] else { panic!("{terms:?}") };
    assert_eq!((&*terms.consumer, terms.max_attempts), ("orders", Some(5)));
    assert_eq!(terms.prefetch, 3, "never below the concurrency");
    assert_eq!(terms.heartbeat, lease / 3, "it follows the lease");
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
}

#[tokio::test]
async fn a_source_whose_broker_is_away_is_prepared_again() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let mut source = Watched::new(&bench.queue);
    source.prepares.extend([Err(unavailable()), Err(unavailable())]);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().prefetch(50);
    let health = consumer.health();
    in_time(consumer.run(source, handle)).await.unwrap();
    assert_eq!(seen.terms.lock().unwrap().len(), 3);
    assert_eq!(seen.terms.lock().unwrap()[0].prefetch, 50);
    assert_eq!(health.last_error().unwrap().text, "the broker is away");
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_queue_that_does_not_suit_ends_the_consumer_before_anything_is_fetched() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let mut source = Watched::new(&bench.queue);
    let limit = "`x-delivery-limit` is 20\nhelp: set it to 50";
    source.prepares.push_back(Err(PrepareError::Refused(QueueError::new(limit))));
    let seen = Arc::clone(&source.seen);
    let error = in_time(bench.consumer().run(source, handle)).await.unwrap_err();
    assert!(matches!(error, ConsumerError::Refused { .. }), "{error:?}");
    let text = format!("the consumer `orders` has not started: {limit}");
    assert_eq!(error.to_string(), text);
    assert_eq!((seen.asked(), bench.counts()), (0, [0, 0, 0, 1]));
}

#[tokio::test]
async fn a_shutdown_ends_a_consumer_that_is_not_ready() {
    let bench = Bench::new();
    let mut source = Watched::new(&bench.queue);
    source.prepares.push_back(Err(unavailable()));
    let (hour, seen) = (Duration::from_secs(3_600), Arc::clone(&source.seen));
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().backoff(hour, hour);
    let consumer = consumer.shutdown_on(async { drop(stopped.await) });
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| seen.terms.lock().unwrap().len() == 1).await;
    assert_eq!(health.state(), ConsumerState::Starting);
    stop.send(()).unwrap();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!((seen.asked(), health.state()), (0, ConsumerState::Ended));
}
