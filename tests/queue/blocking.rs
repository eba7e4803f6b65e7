//! Handlers that block their thread, and tasks that take message after message without a wait.

use crate::bench::{Bench, Body, in_time, message};
use idempotent_queue::memory::{MemoryDeliveries, MemoryDelivery, MemoryQueue};
use idempotent_queue::{Deliveries, Message, QueueError};
use idempotent_runtime::Error;
use std::future::{poll_fn, ready};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use support::until;
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_does_not_hold_up_other_messages() {
    for round in 0..20 {
        let bench = Bench::new();
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let blocks = move |body: Body| {
            if let Body::Waits = body {
                blocked.lock().unwrap().recv().unwrap();
            }
            ready(Ok::<_, Error>(()))
        };
        let consumer = bench.consumer();
        let health = consumer.health();
        // Hands that have handled something before are woken, others are new.
        let before = round % 4;
        for key in 0..before {
            bench.queue.send(message(&key.to_string(), Body::Succeeds));
        }
        let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), blocks));
        until(|| health.settled().acknowledged == before).await;
        bench.queue.send(message("blocks", Body::Waits));
        until(|| health.in_hand() == 1).await;
        bench.queue.send(message("other", Body::Succeeds));
        until(|| health.settled().acknowledged == before + 1).await;
        release.send(()).unwrap();
        bench.queue.close();
        in_time(consumes).await.unwrap().unwrap();
        assert_eq!(health.settled().acknowledged, before + 2);
    }
}

#[tokio::test]
async fn other_tasks_have_their_turn_between_messages() {
    let bench = Bench::new();
    for key in 0..100 {
        bench.queue.send(Message::new(key.to_string()));
    }
    bench.queue.close();
    let turns = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        poll_fn(move |context| {
            taken.fetch_add(1, SeqCst);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
    });
    let handled = move |_: u32| ready(Ok::<_, Error>(()));
    let consumer = bench.consumer().concurrency(1);
    let before = turns.load(SeqCst);
    in_time(consumer.run(bench.queue.deliveries(), handled)).await.unwrap();
    other.abort();
    let turns = turns.load(SeqCst) - before;
    assert!(turns >= 100, "{turns} turns for another task beside 100 messages");
}

/// The hand of the message behind it is woken after the last wait of the first one, and its thread is blocked by the
/// next message that the same hand takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_does_not_hold_up_a_message_whose_turn_has_come() {
    let bench = Bench::new();
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let handler = move |key: u32| {
        if key == 3 {
            let _ = blocked.lock().unwrap().recv();
        }
        let opens = Arc::clone(&opens);
        async move {
            if key == 1 {
                opens.acquire().await.unwrap().forget();
            }
            Ok::<_, Error>(())
        }
    };
    let of = |key: u32| Message::new(key.to_string()).with_header("customer", "a");
    bench.queue.send(of(1));
    bench.queue.send(of(2));
    bench.queue.send(Message::new("3"));
    let consumer = bench.consumer().concurrency(2);
    let consumer = consumer.ordered_by(|message| message.header("customer").map(str::to_owned));
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handler));
    until(|| health.in_hand() == 2).await;
    gate.add_permits(1);
    until(|| health.settled().acknowledged == 2).await;
    release.send(()).unwrap();
    bench.queue.close();
    in_time(consumes).await.unwrap().unwrap();
}

/// Messages that a task of the same runtime sends through a channel.
struct Channel {
    messages: tokio::sync::mpsc::Receiver<u32>,
    queue: MemoryQueue,
    deliveries: MemoryDeliveries,
}

impl Deliveries for Channel {
    type Delivery = MemoryDelivery;

    async fn next(&mut self) -> Result<Option<MemoryDelivery>, QueueError> {
        let Some(key) = self.messages.recv().await else { return Ok(None) };
        self.queue.send(Message::new(key.to_string()));
        self.deliveries.next().await
    }
}

/// The source wakes the task that feeds it, on the thread that the message then blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_does_not_hold_up_the_task_that_feeds_its_source() {
    let bench = Bench::new();
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let gates = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let opens = gates.clone();
    let handler = move |key: u32| {
        if key == 3 {
            let _ = blocked.lock().unwrap().recv();
        }
        let gate = opens.get(key as usize - 1).cloned();
        async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            Ok::<_, Error>(())
        }
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        for key in 1..=4 {
            sender.send(key).await.unwrap();
            count.fetch_add(1, SeqCst);
        }
    });
    let (queue, deliveries) = (bench.queue.clone(), bench.queue.deliveries());
    let source = Channel { messages: receiver, queue, deliveries };
    let consumer = bench.consumer().concurrency(2);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handler));
    // The channel has room for one, and the fourth waits for that.
    until(|| health.in_hand() == 2 && sent.load(SeqCst) == 3).await;
    gates[0].add_permits(1);
    until(|| health.settled().acknowledged == 1).await;
    gates[1].add_permits(1);
    until(|| health.settled().acknowledged == 3).await;
    release.send(()).unwrap();
    in_time(consumes).await.unwrap().unwrap();
}
