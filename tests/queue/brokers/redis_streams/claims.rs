//! Entries whose consumers die, are slow, or pause.

use super::{CLAIM_AFTER, GROUP, Stream, in_a_process_that_dies, next, payload, prepared, terms};
use crate::bench::in_time;
use crate::scenarios::Broker as _;
use idempotent_queue::format::Raw;
use idempotent_queue::redis_streams::StreamDeliveries;
use idempotent_queue::{Consumer, ConsumerState, Deliveries, Delivery, Message};
use idempotent_runtime::Idempotency;
use std::sync::Arc;
use std::time::Duration;
use support::proxy::{Command, Proxy};
use support::redis::{RedisServer, binaries, info_number};
use support::{poll_at_most, until, until_async};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A stream on each server of the machine.
async fn on_every_server(test: impl AsyncFn(Stream)) {
    for binary in binaries() {
        let server = RedisServer::start_with(&binary, &[]);
        test(Stream::on(&server.url()).await).await;
    }
}

/// Commands by which a source looks for entries that it can claim.
fn looks(command: &Command) -> bool {
    command.name().starts_with("EVAL") && command.has("100") && command.words().len() == 10
}

/// Waits until a source behind this proxy has looked for longer than entries are kept.
async fn until_looked(proxy: &Proxy) {
    proxy.forget();
    // It looks four times within the time after which it claims.
    until(|| proxy.answered(looks) > 10).await;
}

/// Has a source read on a server of its own, and drops the future that waits for the answer.
async fn read_ahead(server: &RedisServer, source: &mut StreamDeliveries) {
    tokio::select! {
        _ = source.next() => panic!("nothing was added"),
        () = until_async(|| async { info_number(server, "blocked_clients").await == 1 }) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_consumer_that_died_is_claimed_by_one_other() {
    on_every_server(async |stream| {
        stream.add("1").await;
        let started = Instant::now();
        stream.take_and_die().await;
        let (mut one, mut other) = (stream.open().await, stream.open().await);
        let delivery = tokio::select! {
            delivery = next(&mut one) => delivery,
            delivery = next(&mut other) => delivery,
        };
        assert!(started.elapsed() >= CLAIM_AFTER);
        assert_eq!((&*payload(&delivery), delivery.message().deliveries()), ("1", Some(2)));
        delivery.ack().await.unwrap();
        stream.add("2").await;
        let delivery = tokio::select! {
            delivery = next(&mut one) => delivery,
            delivery = next(&mut other) => delivery,
        };
        assert_eq!((&*payload(&delivery), delivery.message().deliveries()), ("2", Some(1)));
    })
    .await;
}

#[test]
fn entries_of_a_process_that_died_are_claimed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stream = runtime.block_on(Stream::shared());
    runtime.block_on(stream.add("1"));
    in_a_process_that_dies(|| async {
        let mut source = stream.open().await;
        let delivery = next(&mut source).await;
        (source, delivery)
    });
    runtime.block_on(async {
        let mut source = stream.open().await;
        let delivery = next(&mut source).await;
        assert_eq!(delivery.message().deliveries(), Some(2));
        delivery.ack().await.unwrap();
        assert_eq!(stream.pending_in_group().await, 0);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_being_handled_is_not_claimed() {
    let stream = Stream::shared().await;
    stream.add("1").await;
    let mut slow = stream.open().await;
    let mut delivery = next(&mut slow).await;
    let proxy = Proxy::start(stream.url.trim_start_matches("redis://").trim_end_matches('/'));
    let mut other = prepared(stream.source_at(&proxy.url())).await;
    let beats = async {
        loop {
            delivery.in_progress().await.unwrap();
            tokio::time::sleep(CLAIM_AFTER / 5).await;
        }
    };
    tokio::select! {
        () = beats => {}
        _ = next(&mut other) => panic!("claimed from a consumer that is at work"),
        () = until_looked(&proxy) => {}
    }
    // Without heartbeats it is.
    let claimed = next(&mut other).await;
    assert_eq!(claimed.message().deliveries(), Some(2));
    delivery.in_progress().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_lost_its_entry_does_not_take_it_back() {
    on_every_server(async |stream| {
        stream.add("1").await;
        let mut slow = stream.open().await;
        let mut late = next(&mut slow).await;
        let mut other = stream.open().await;
        // Both sources look; this one only if it is asked.
        let claimed = next(&mut other).await;
        let owner = || async {
            let pending = format!("XPENDING KEY {GROUP} - + 1");
            let all: Vec<(String, String, u64, u64)> = stream.run(&pending).await;
            all[0].1.clone()
        };
        let before = owner().await;
        late.in_progress().await.unwrap_err();
        late.again(Duration::from_millis(1)).await.unwrap();
        assert_eq!(owner().await, before);
        assert!(poll_at_most(100, slow.next()).await.is_none(), "it is not delivered again here");
        claimed.ack().await.unwrap();
        assert_eq!(stream.pending_in_group().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_another_consumer_took_after_its_pause_is_not_delivered_here() {
    let stream = Stream::shared().await;
    stream.add("1").await;
    let an_hour = Duration::from_secs(3_600);
    let proxy = Proxy::start(stream.url.trim_start_matches("redis://").trim_end_matches('/'));
    let mut source = prepared(stream.source_at(&proxy.url()).claim_after(an_hour)).await;
    next(&mut source).await.again(Duration::from_millis(1)).await.unwrap();
    // Nobody asks here, so that it is taken there.
    let taken = next(&mut prepared(stream.source().claim_after(an_hour)).await).await;
    assert_eq!(taken.message().deliveries(), Some(2));
    proxy.forget();
    tokio::select! {
        _ = next(&mut source) => panic!("another consumer has it"),
        () = until(|| proxy.answered(looks) > 0) => {}
    }
    taken.ack().await.unwrap();
    assert_eq!(stream.pending_in_group().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entry_is_delivered_to_one_of_two_sources() {
    let stream = Stream::shared().await;
    let (seen, mut all) = tokio::sync::mpsc::unbounded_channel();
    let mut sources = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (mut source, seen) = (stream.open().await, seen.clone());
        sources.spawn(async move {
            loop {
                let delivery = source.next().await.unwrap().unwrap();
                seen.send(payload(&delivery)).unwrap();
                delivery.ack().await.unwrap();
            }
        });
    }
    for number in 0..200 {
        stream.add(&number.to_string()).await;
    }
    in_time(until_async(|| async { all.len() >= 200 && stream.pending_in_group().await == 0 }))
        .await;
    let mut numbers = vec![];
    while let Ok(number) = all.try_recv() {
        numbers.push(number.parse::<u32>().unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_dropped_comes_again_at_once() {
    on_every_server(async |stream| {
        stream.add("1").await;
        let source = stream.source().claim_after(Duration::from_secs(3_600));
        let mut source = prepared(source).await;
        for count in 1..4 {
            let delivery = next(&mut source).await;
            assert_eq!(delivery.message().deliveries(), Some(count));
        }
        // And to another source, if this one is gone.
        let delivery = next(&mut source).await;
        drop(source);
        drop(delivery);
        let mut other = stream.source().claim_after(Duration::from_secs(3_600));
        other.prepare(&terms()).await.unwrap();
        assert_eq!(next(&mut other).await.message().deliveries(), Some(5));
    })
    .await;
}

#[test]
fn a_pause_outlives_the_process_that_asked_for_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stream = runtime.block_on(Stream::shared());
    runtime.block_on(stream.add("1"));
    let (pause, an_hour) = (Duration::from_millis(300), Duration::from_secs(3_600));
    let source = || stream.source().claim_after(an_hour);
    let started = std::time::Instant::now();
    in_a_process_that_dies(|| async {
        let mut source = prepared(source()).await;
        next(&mut source).await.again(pause).await.unwrap();
        source
    });
    runtime.block_on(async {
        // Long before it would be claimed from a consumer that died.
        let delivery = next(&mut prepared(source()).await).await;
        assert_eq!(delivery.message().deliveries(), Some(2));
    });
    assert!(started.elapsed() >= pause);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_longer_than_entries_are_kept_is_kept_from_others() {
    on_every_server(async |stream| {
        stream.add("1").await;
        let (mut source, mut other) = (stream.open().await, stream.open().await);
        let pause = 3 * CLAIM_AFTER;
        let started = Instant::now();
        next(&mut source).await.again(pause).await.unwrap();
        let delivery = tokio::select! {
            delivery = next(&mut source) => delivery,
            delivery = next(&mut other) => delivery,
        };
        assert!(started.elapsed() >= pause, "{:?}", started.elapsed());
        assert_eq!(delivery.message().deliveries(), Some(2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_not_asked_keeps_what_it_has_read() {
    let server = RedisServer::start();
    let stream = Stream::on(&server.url()).await;
    let mut source = stream.open().await;
    read_ahead(&server, &mut source).await;
    stream.add("1").await;
    until_async(|| async { stream.pending_in_group().await == 1 }).await;
    let proxy = Proxy::start(stream.url.trim_start_matches("redis://").trim_end_matches('/'));
    let mut other = prepared(stream.source_at(&proxy.url())).await;
    tokio::select! {
        _ = next(&mut other) => panic!("claimed from a source that lives"),
        () = until_looked(&proxy) => {}
    }
    assert_eq!(next(&mut source).await.message().deliveries(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_ends_leaves_what_it_has_read_to_others() {
    let server = RedisServer::start();
    let stream = Stream::on(&server.url()).await;
    let an_hour = Duration::from_secs(3_600);
    let mut source = prepared(stream.source().claim_after(an_hour)).await;
    read_ahead(&server, &mut source).await;
    stream.add("1").await;
    until_async(|| async { stream.pending_in_group().await == 1 }).await;
    drop(source);
    let mut other = prepared(stream.source().claim_after(an_hour)).await;
    assert_eq!(next(&mut other).await.message().deliveries(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_fetched_than_may_be_in_hand() {
    let stream = Stream::shared().await;
    for number in 0..5 {
        stream.add(&number.to_string()).await;
    }
    let (mut source, mut terms) = (stream.source(), terms());
    terms.prefetch = 2;
    source.prepare(&terms).await.unwrap();
    let one = next(&mut source).await;
    let two = next(&mut source).await;
    assert!(poll_at_most(100, source.next()).await.is_none());
    assert_eq!(stream.pending_in_group().await, 2);
    // Room is made while the consumer waits.
    let (third, ()) = tokio::join!(next(&mut source), async { one.ack().await.unwrap() });
    assert_eq!(payload(&third), "2");
    drop(two);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_are_gone_are_removed_unless_they_have_something_pending() {
    on_every_server(async |stream| {
        stream.add("1").await;
        stream.take_and_die().await;
        let create = format!("XGROUP CREATECONSUMER KEY {GROUP} idle");
        let () = stream.run(&create).await;
        let source = stream.source().consumer("alive").claim_after(Duration::from_secs(3_600));
        let mut source = source.forget_consumers_after(Duration::from_millis(100));
        source.prepare(&terms()).await.unwrap();
        stream.add("2").await;
        let _delivery = next(&mut source).await;
        in_time(until_async(|| async {
            let consumers = format!("XINFO CONSUMERS KEY {GROUP}");
            let found: redis::streams::StreamInfoConsumersReply = stream.run(&consumers).await;
            let names: Vec<_> = found.consumers.iter().map(|consumer| &*consumer.name).collect();
            names == ["alive", "dead"]
        }))
        .await;
    })
    .await;
}

/// A read waits in the server. One that is under way when the consumer is told to end is the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_fetched_while_a_consumer_drains() {
    let server = RedisServer::start();
    let stream = Stream::on(&server.url()).await;
    let idem = Idempotency::in_memory().unwrap();
    let (ends, opens) = [(); 2].map(|()| Arc::new(Notify::new())).into();
    let (told, gate) = (Arc::clone(&ends), Arc::clone(&opens));
    let handler = move |_: Message| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Ok::<_, String>(())
        }
    };
    let consumer = Consumer::new(&idem, "orders").decoder(Raw).concurrency(4);
    let consumer = consumer.shutdown_on(async move { told.notified().await });
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(stream.deliveries().await, handler));
    stream.add("1").await;
    until(|| health.in_hand() == 1).await;
    let reads = async || info_number(&server, "blocked_clients").await;
    until_async(|| async { reads().await == 1 }).await;
    ends.notify_one();
    until(|| health.state() == ConsumerState::Draining).await;
    until_async(|| async { reads().await == 0 }).await;
    for _ in 0..10 {
        stream.add("2").await;
    }
    // A read that is sent now finds them at once.
    for _ in 0..100 {
        assert_eq!(stream.pending_in_group().await, 1);
    }
    opens.notify_one();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(stream.pending_in_group().await, 0);
}
