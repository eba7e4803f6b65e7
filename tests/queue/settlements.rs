//! Every way in which a delivery is settled, by the real engine.

use crate::bench::{Bench, Body, Failed, handle, in_time, message};
use idempotent_queue::Message;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Abandon, Config, Error, Mode, idempotent};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::until;

#[tokio::test]
async fn a_message_that_is_handled_is_acknowledged_and_so_is_each_repeat() {
    let bench = Bench::new();
    bench.consume([message("a", Body::Succeeds), message("a", Body::Succeeds)]).await;
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
    let usage = bench.idem.store().usage().unwrap();
    assert_eq!(usage.entries, 1);
}

#[tokio::test]
async fn a_duplicate_in_reject_mode_is_acknowledged() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.queue.send(message("a", Body::Succeeds));
    }
    bench.queue.close();
    let idem = bench.idem.clone();
    let reject = move |_: Body| {
        let idem = idem.clone();
        async move {
            idem.operation("reject")
                .key(1)
                .mode(Mode::Reject)
                .run(async { Ok::<_, Error>(1) })
                .await
        }
    };
    in_time(bench.consumer().concurrency(1).run(bench.queue.deliveries(), reject)).await.unwrap();
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
}

#[tokio::test]
async fn an_error_comes_again_and_its_attempts_are_limited() {
    let bench = Bench::new();
    bench
        .consume_with(bench.consumer().max_attempts(3), [message("a", Body::Fails)])
        .await
        .unwrap();
    assert_eq!((bench.counts(), bench.codes()), ([0, 1, 0, 0], vec!["failed-before".to_owned()]));
    let deliveries = bench.queue.dead_letters()[0].0.deliveries();
    assert_eq!(deliveries, Some(4), "three that started the body, and one that did not");
}

#[tokio::test]
async fn a_panic_comes_again_and_counts() {
    let bench = Bench::new();
    let consumer = bench.consumer().max_attempts(2);
    bench.consume_with(consumer, [message("a", Body::Panics)]).await.unwrap();
    assert_eq!((bench.counts(), bench.codes()), ([0, 1, 0, 0], vec!["failed-before".to_owned()]));
}

#[tokio::test]
async fn a_final_error_is_a_dead_letter_and_so_is_each_repeat() {
    let bench = Bench::new();
    bench.consume([message("a", Body::Declines), message("a", Body::Declines)]).await;
    assert_eq!(bench.counts(), [0, 2, 0, 0]);
    let letters = bench.queue.dead_letters();
    assert!(letters.iter().all(|(_, reason)| reason.to_string() == "final-error: declined"));
}

#[tokio::test]
async fn a_message_without_a_key_or_with_a_bad_payload_or_scope_is_a_dead_letter() {
    let bench = Bench::new();
    let tenant = |message: Message| message.with_header("tenant", "acme");
    let keyless = Message::new(r#""Succeeds""#);
    let messages = [
        tenant(keyless.clone()),
        tenant(keyless.with_header("idempotency-key", "")),
        tenant(Message::new("{").with_header("idempotency-key", "a")),
        message("b", Body::Succeeds),
        tenant(message("c", Body::Succeeds)),
    ];
    let consumer = bench.consumer().scope_header("Tenant").concurrency(1);
    bench.consume_with(consumer, messages).await.unwrap();
    assert_eq!(bench.counts(), [1, 4, 0, 0]);
    assert_eq!(bench.codes(), ["missing-key", "invalid-key", "undecodable", "scope-missing"]);
}

#[tokio::test]
async fn a_message_that_another_process_handles_comes_again_until_that_is_done() {
    let bench = Bench::new();
    let elsewhere = Bench::on(bench.store.clone());
    let gate = bench.store.hold(Verb::Complete);
    let first = tokio::spawn(async move {
        let token = Ambient::new().token("a").scope("orders");
        elsewhere.idem.scope(ambient::scope(token, handle(Body::Succeeds))).await
    });
    gate.arrived(1).await;
    bench.queue.send(message("a", Body::Fails));
    bench.queue.close();
    let consumes = tokio::spawn(bench.consumer().run(bench.queue.deliveries(), handle));
    until(|| bench.store.calls(Verb::Begin) > 3).await;
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    gate.open();
    first.await.unwrap().unwrap();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0], "a replay");
}

#[tokio::test]
async fn an_unknown_outcome_is_parked() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.queue.send(message("a", Body::Panics));
    }
    bench.queue.close();
    let idem = bench.idem.clone();
    let blocking = move |_: Body| {
        let idem = idem.clone();
        async move {
            let op = idem.operation("blocking").key(1).abandon(Abandon::Block);
            op.run(async { panic!("the body panics") as Result<u8, Error> }).await
        }
    };
    in_time(bench.consumer().concurrency(1).run(bench.queue.deliveries(), blocking)).await.unwrap();
    assert_eq!((bench.counts()[2], bench.codes()[0].as_str()), (2, "outcome-unknown"));
}

#[tokio::test]
async fn a_store_that_does_not_answer_loses_no_message() {
    let bench = Bench::new();
    bench.store.all_down();
    for key in 0..20 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    bench.queue.close();
    let consumer = bench.consumer().max_attempts(1).concurrency(4);
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    until(|| bench.store.calls(Verb::Begin) > 20).await;
    assert_eq!(bench.counts(), [0, 0, 0, 20]);
    bench.store.all_up();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [20, 0, 0, 0]);
}

#[tokio::test]
async fn a_function_of_mode_window_ends_the_consumer_and_keeps_its_messages() {
    let bench = Bench::new();
    for key in ["a", "b"] {
        bench.queue.send(message(key, Body::Succeeds));
    }
    let idem = bench.idem.clone();
    let window = move |_: Body| {
        let idem = idem.clone();
        async move {
            idem.operation("window")
                .key(1)
                .mode(Mode::Window)
                .run(async { Ok::<_, Error>(1) })
                .await
        }
    };
    let consumer = bench.consumer().concurrency(1);
    let error = in_time(consumer.run(bench.queue.deliveries(), window)).await.unwrap_err();
    assert!(error.to_string().starts_with("the consumer `orders` has stopped"), "{error}");
    assert!(error.to_string().contains("help: choose `mode = "), "{error}");
    assert_eq!(bench.counts(), [0, 0, 0, 2], "the first one is not acknowledged");
}

#[tokio::test]
async fn two_consumers_of_one_message_have_a_record_each() {
    let bench = Bench::new();
    bench.consume([message("a", Body::Succeeds)]).await;
    let other = Bench::on(bench.store.clone());
    let mails = idempotent_queue::Consumer::new(&other.idem, "mails");
    other.consume_with(mails, [message("a", Body::Succeeds)]).await.unwrap();
    assert_eq!(bench.idem.store().usage().unwrap().entries, 2);
}

#[tokio::test]
async fn a_handler_without_protection_is_settled_by_its_result() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Fails));
    bench.queue.close();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let plain = move |_: Body| {
        let call = count.fetch_add(1, SeqCst);
        async move { if call < 2 { Err("not yet") } else { Ok(()) } }
    };
    in_time(bench.consumer().run(bench.queue.deliveries(), plain)).await.unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    assert_eq!(calls.load(SeqCst), 3);
}

#[tokio::test]
async fn a_consumer_that_is_dropped_leaves_its_message_to_the_broker() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let consumes = tokio::spawn(bench.consumer().run(bench.queue.deliveries(), handle));
    until(|| bench.idem.in_flight() == 1).await;
    consumes.abort();
    assert!(consumes.await.unwrap_err().is_cancelled());
    until(|| bench.counts() == [0, 0, 0, 1] && bench.idem.in_flight() == 0).await;
}

#[idempotent(name = "queue.inner", key = const 1_u8, mode = "reject")]
async fn inner() -> Result<u8, Error> {
    Ok(1)
}

/// Its body moves to a task of its own.
#[idempotent(
    name = "queue.detached",
    mode = "strong",
    wait = "0s",
    detach,
    final_errors = "Failed::is_final"
)]
async fn detached(body: Body) -> Result<u8, Failed> {
    // In the first poll, before it moves. A repeat of it is a refusal, which is not that of this call.
    let _ = inner().await;
    tokio::task::yield_now().await;
    if body == Body::Declines { Err(Failed::Declined) } else { Err(Failed::Busy) }
}

#[tokio::test]
async fn a_function_that_moves_to_another_task_is_settled_by_its_own_end() {
    let bench = Bench::new();
    for (key, body) in [("a", Body::Declines), ("b", Body::Fails)] {
        bench.queue.send(message(key, body));
    }
    bench.queue.close();
    let consumer = bench.consumer().max_attempts(2).concurrency(1);
    in_time(consumer.run(bench.queue.deliveries(), detached)).await.unwrap();
    assert_eq!(bench.codes(), ["final-error", "failed-before"]);
    assert_eq!(bench.queue.dead_letters()[0].0.deliveries(), Some(1));
}

#[tokio::test]
async fn an_error_after_several_calls_is_not_final() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let idem = bench.idem.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let handler = move |_: Body| {
        let (idem, count) = (idem.clone(), Arc::clone(&count));
        async move {
            for name in ["first", "second"] {
                let once = idem.operation(name).key(1).mode(Mode::Reject);
                let _ = once.run(async { Ok::<_, Error>(1) }).await;
            }
            if count.fetch_add(1, SeqCst) < 3 { Err("the database is down") } else { Ok(()) }
        }
    };
    in_time(bench.consumer().run(bench.queue.deliveries(), handler)).await.unwrap();
    assert_eq!((bench.counts(), calls.load(SeqCst)), ([1, 0, 0, 0], 4));
}

#[tokio::test]
async fn a_value_that_is_not_recorded_is_not_acknowledged() {
    let bench = Bench::new();
    let short = Config::new().with_lease(Duration::from_millis(100));
    bench.idem.reconfigure(short).unwrap();
    bench.store.down(Verb::Complete);
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let answers = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answers);
    let handler = move |body: Body| {
        let count = Arc::clone(&count);
        async move {
            let answer = handle(body).await;
            count.fetch_add(1, SeqCst);
            answer
        }
    };
    let consumes = tokio::spawn(bench.consumer().run(bench.queue.deliveries(), handler));
    // The second delivery comes because the first one was not acknowledged.
    until(|| answers.load(SeqCst) > 1).await;
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    bench.store.all_up();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}
