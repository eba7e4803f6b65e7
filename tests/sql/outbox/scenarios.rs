//! The promises of the outbox, for every database.

use super::receiver::Delivery;
use idempotent_sql::client::{Database, Preparation, SqlConnection as _, SqlError, Statement};
use idempotent_sql::outbox::{
    DeadLetterPolicy, Message, Outbox, OutboxErrorKind, Outgoing, PublishError, Publisher, Receipt,
    Relay, RelayHandle, Stopped,
};
use idempotent_sql::{Isolation, TransactionPool};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::until;

pub(crate) const OUTBOX: Outbox = Outbox::new("idempotent_outbox");

/// A publisher that does as it is told, and notes what it was given.
#[derive(Clone)]
pub(crate) struct Told(Arc<Notes>);

struct Notes {
    all: Mutex<Vec<Delivery>>,
    answer: Box<dyn Fn(&Outgoing) -> Answer + Send + Sync>,
}

pub(crate) enum Answer {
    Confirm,
    Late(Duration),
    Unavailable,
    Retryable,
    Permanent,
    Panic,
}

impl Told {
    pub(crate) fn new(answer: impl Fn(&Outgoing) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(Notes { all: Mutex::default(), answer: Box::new(answer) }))
    }

    pub(crate) fn all(&self) -> Vec<Delivery> {
        self.0.all.lock().unwrap().clone()
    }

    /// The payloads that were sent for a key.
    pub(crate) fn of(&self, key: &str) -> Vec<String> {
        let all = self.all().into_iter();
        all.filter(|it| it.key == key).map(|it| it.payload).collect()
    }
}

impl Publisher for Told {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        self.0.all.lock().unwrap().push(Delivery::of(message));
        match (self.0.answer)(message) {
            Answer::Confirm => Ok(Receipt::new()),
            Answer::Late(pause) => {
                tokio::time::sleep(pause).await;
                Ok(Receipt::new())
            }
            Answer::Unavailable => Err(PublishError::unavailable("nobody listens")),
            Answer::Retryable => Err(PublishError::retryable("not at the moment")),
            Answer::Permanent => Err(PublishError::permanent("never")),
            Answer::Panic => panic!("as it was told"),
        }
    }
}

/// Sends messages to keys, each in a transaction of its own.
pub(crate) async fn send<P: TransactionPool>(pool: &P, messages: &[(&str, &str)]) -> Vec<String> {
    let mut ids = Vec::new();
    for (key, payload) in messages {
        let mut tx = pool.begin(Isolation::Default).await.unwrap();
        let message = Message::new("orders", *key, *payload);
        ids.push(OUTBOX.send(&mut tx, message).await.unwrap());
        pool.commit(tx).await.unwrap();
    }
    ids
}

pub(crate) async fn waiting<P: TransactionPool>(pool: &P) -> u64 {
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let backlog = OUTBOX.backlog(&mut tx).await.unwrap();
    pool.roll_back(tx).await;
    backlog.waiting
}

pub(crate) async fn until_empty<P: TransactionPool>(pool: &P) {
    let give_up = std::time::Instant::now() + Duration::from_secs(120);
    while waiting(pool).await > 0 {
        assert!(std::time::Instant::now() < give_up, "{} messages are left", waiting(pool).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn relay<P: TransactionPool, B: Publisher>(pool: &P, publisher: B) -> Relay<P, B> {
    Relay::new(OUTBOX, pool.clone(), publisher)
        .poll(Duration::from_millis(20))
        .backoff(Duration::from_millis(20), Duration::from_millis(100))
}

async fn end(relay: RelayHandle) {
    assert_eq!(relay.shutdown(Duration::from_secs(10)).await, Stopped::Drained);
}

/// A message arrives as it was sent.
pub(crate) async fn messages_arrive_as_they_were_sent<P: TransactionPool>(pool: P) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Told::new({
        let seen = Arc::clone(&seen);
        move |message| {
            seen.lock().unwrap().push(message.clone());
            Answer::Confirm
        }
    });
    let bytes: Vec<u8> = (0..=255).collect();
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let message = Message::new("größe", "Schlüssel 'x' \"y\" ? $1 ", bytes.clone())
        .kind("OrderCreated")
        .header("tenant", "a\0\"b");
    let id = OUTBOX.send(&mut tx, message).await.unwrap();
    let own = Message::unordered("orders", Vec::new()).id("order-17/created");
    assert_eq!(OUTBOX.send(&mut tx, own).await.unwrap(), "order-17/created");
    pool.commit(tx).await.unwrap();
    let relay = relay(&pool, told).start();
    until_empty(&pool).await;
    end(relay).await;
    let seen = seen.lock().unwrap();
    let first = seen.iter().find(|it| it.id() == id).unwrap();
    assert_eq!(first.destination(), "größe");
    assert_eq!(first.key(), Some("Schlüssel 'x' \"y\" ? $1 "));
    assert_eq!((first.kind(), first.payload()), ("OrderCreated", &*bytes));
    assert_eq!(first.headers().collect::<Vec<_>>(), [("tenant", "a\0\"b")]);
    let other = seen.iter().find(|it| it.id() == "order-17/created").unwrap();
    assert_eq!((other.key(), other.payload()), (None, &b""[..]));
    assert_eq!(seen.len(), 2);
}

pub(crate) async fn a_rolled_back_transaction_sends_nothing<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Confirm);
    let relay = relay(&pool, told.clone()).start();
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    OUTBOX.send(&mut tx, Message::new("orders", "a", "rolled back")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    pool.roll_back(tx).await;
    send(&pool, &[("a", "committed")]).await;
    until_empty(&pool).await;
    end(relay).await;
    assert_eq!(told.of("a"), ["committed"]);
}

/// Two open transactions that send to one key: the second waits for the first, and comes after it,
/// whatever their isolation.
pub(crate) async fn one_transaction_at_a_time_sends_to_a_key<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Confirm);
    let isolations = [Isolation::Default, Isolation::RepeatableRead, Isolation::Serializable];
    for isolation in isolations {
        let key = format!("{isolation:?}");
        let message = |payload: &str| Message::new("orders", &*key, payload);
        let mut first = pool.begin(isolation).await.unwrap();
        OUTBOX.send(&mut first, message("1")).await.unwrap();
        let second = tokio::spawn({
            let (pool, message) = (pool.clone(), message("3"));
            async move {
                let mut second = pool.begin(isolation).await.unwrap();
                OUTBOX.send(&mut second, message).await.unwrap();
                pool.commit(second).await.unwrap();
            }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!second.is_finished(), "two transactions have sent to one key");
        OUTBOX.send(&mut first, message("2")).await.unwrap();
        pool.commit(first).await.unwrap();
        second.await.unwrap();
    }
    let relay = relay(&pool, told.clone()).start();
    until_empty(&pool).await;
    end(relay).await;
    for isolation in isolations {
        assert_eq!(told.of(&format!("{isolation:?}")), ["1", "2", "3"]);
    }
}

/// Open transactions of other keys do not wait for each other.
pub(crate) async fn other_keys_are_sent_to_meanwhile<P: TransactionPool>(pool: P) {
    let mut first = pool.begin(Isolation::Default).await.unwrap();
    OUTBOX.send(&mut first, Message::new("orders", "a", "1")).await.unwrap();
    OUTBOX.send(&mut first, Message::unordered("orders", "2")).await.unwrap();
    let others = async {
        send(&pool, &[("b", "1"), ("c", "1")]).await;
        let mut tx = pool.begin(Isolation::Default).await.unwrap();
        OUTBOX.send(&mut tx, Message::unordered("orders", "3")).await.unwrap();
        pool.commit(tx).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(10), others).await.expect("they do not wait");
    pool.roll_back(first).await;
    assert_eq!(waiting(&pool).await, 3);
}

pub(crate) async fn a_failing_key_does_not_hold_up_others<P: TransactionPool>(pool: P) {
    let told = Told::new(|message| match message.key().unwrap_or_default() {
        "bad" => Answer::Retryable,
        "slow" => Answer::Late(Duration::from_secs(60)),
        "panics" => Answer::Panic,
        _ => Answer::Confirm,
    });
    send(&pool, &[("bad", "1"), ("bad", "2"), ("slow", "1"), ("slow", "2"), ("panics", "1")]).await;
    for number in 0..200 {
        send(&pool, &[(&format!("good {}", number % 20), &number.to_string())]).await;
    }
    let relay = relay(&pool, told.clone())
        .publish_timeout(Duration::from_millis(200))
        .concurrency(4)
        .max_attempts(10_000)
        .start();
    until(|| relay.status().published == 200).await;
    until(|| relay.status().timed_out >= 2 && relay.status().refused >= 6).await;
    let status = relay.status();
    end(relay).await;
    assert_eq!(waiting(&pool).await, 5, "{status:?}");
    assert!(status.last_error.is_some());
    for key in ["bad", "slow", "panics"] {
        let sent: HashSet<_> = told.of(key).into_iter().collect();
        assert_eq!(sent, HashSet::from(["1".to_owned()]), "the second waits for the first");
        let ids: HashSet<_> =
            told.all().into_iter().filter(|it| it.key == key).map(|it| it.id).collect();
        assert_eq!(ids.len(), 1, "a message keeps its id");
    }
}

pub(crate) async fn dead_letters_hold_their_key_until_an_operator_decides<P: TransactionPool>(
    pool: P,
) {
    let heals = Arc::new(AtomicUsize::new(0));
    let told = Told::new({
        let heals = Arc::clone(&heals);
        move |message| match message.payload() {
            _ if heals.load(Ordering::Relaxed) > 0 => Answer::Confirm,
            b"poison" => Answer::Permanent,
            b"refused" => Answer::Retryable,
            _ => Answer::Confirm,
        }
    });
    let ids =
        send(&pool, &[("a", "poison"), ("a", "behind"), ("b", "refused"), ("c", "good")]).await;
    let relay = relay(&pool, told.clone()).max_attempts(3).start();
    until(|| relay.status().dead == 2 && relay.status().published == 1).await;
    // What is published is deleted a moment later.
    support::until_async(|| async {
        let mut tx = pool.begin(Isolation::Default).await.unwrap();
        OUTBOX.backlog(&mut tx).await.unwrap().waiting == 1
    })
    .await;
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let letters = OUTBOX.dead_letters(&mut tx, 0, 10).await.unwrap();
    let listed: Vec<_> = letters
        .iter()
        .map(|it| (it.message.id(), &*it.last_error, it.message.failures()))
        .collect();
    assert_eq!(listed, [(&*ids[0], "never", 1), (&*ids[2], "not at the moment", 3)]);
    let poison = &letters[0].message;
    assert_eq!((poison.key(), poison.outgoing().payload()), ("a", &b"poison"[..]));
    assert!(poison.created_at().elapsed().unwrap_or_default() < Duration::from_secs(60));
    assert!(letters[0].dead_since.elapsed().unwrap_or_default() < Duration::from_secs(60));
    let next = OUTBOX.dead_letters(&mut tx, letters[0].number, 10).await.unwrap();
    assert_eq!(next.len(), 1, "a page continues after a number");
    let backlog = OUTBOX.backlog(&mut tx).await.unwrap();
    assert_eq!((backlog.waiting, backlog.dead), (1, 2));
    assert!(backlog.oldest.is_some());
    assert!(!OUTBOX.retry_dead_letter(&mut tx, &ids[1]).await.unwrap(), "it is not dead");
    assert!(!OUTBOX.discard_dead_letter(&mut tx, &ids[1]).await.unwrap(), "it is not dead");
    heals.store(1, Ordering::Relaxed);
    assert!(OUTBOX.retry_dead_letter(&mut tx, &ids[0]).await.unwrap());
    assert!(OUTBOX.discard_dead_letter(&mut tx, &ids[2]).await.unwrap());
    pool.commit(tx).await.unwrap();
    until_empty(&pool).await;
    end(relay).await;
    assert_eq!(told.of("a"), ["poison", "poison", "behind"]);
    assert_eq!(told.of("b"), ["refused"; 3]);
}

pub(crate) async fn skipped_dead_letters_let_others_pass<P: TransactionPool>(pool: P) {
    let told = Told::new(|message| match message.payload() {
        b"poison" => Answer::Permanent,
        _ => Answer::Confirm,
    });
    send(&pool, &[("a", "1"), ("a", "poison"), ("a", "2"), ("a", "3")]).await;
    let relay = relay(&pool, told.clone()).dead_letters(DeadLetterPolicy::Skip).start();
    until_empty(&pool).await;
    end(relay).await;
    assert_eq!(told.of("a"), ["1", "poison", "2", "3"]);
}

/// An outage makes no dead letters, however long it lasts.
pub(crate) async fn a_broker_that_is_away_makes_no_dead_letters<P: TransactionPool>(pool: P) {
    let tries = Arc::new(AtomicUsize::new(0));
    let told = Told::new({
        let tries = Arc::clone(&tries);
        move |_| match tries.fetch_add(1, Ordering::Relaxed) {
            0..4 => Answer::Unavailable,
            _ => Answer::Confirm,
        }
    });
    for number in 0..10 {
        send(&pool, &[(&format!("key {number}"), "1")]).await;
    }
    let relay = relay(&pool, told.clone()).max_attempts(1).concurrency(1).start();
    until_empty(&pool).await;
    let status = relay.status();
    end(relay).await;
    assert_eq!((status.dead, status.refused, status.unavailable), (0, 0, 4), "{status:?}");
    assert_eq!(told.all().len(), 14);
}

/// The message that is being sent is settled, and no further one is begun.
pub(crate) async fn shutdown_settles_the_message_in_flight<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Late(Duration::from_millis(300)));
    send(&pool, &[("a", "1"), ("a", "2"), ("a", "3")]).await;
    let handle = relay(&pool, told.clone()).start();
    until(|| told.all().len() == 1).await;
    assert_eq!(handle.status().keys_in_progress, 1);
    end(handle).await;
    assert_eq!((told.of("a"), waiting(&pool).await), (vec!["1".to_owned()], 2));
    // The key is free at once, although the lease is longer than a test.
    let handle = relay(&pool, told.clone()).lease(Duration::from_secs(3_600)).start();
    until_empty(&pool).await;
    end(handle).await;
    assert_eq!(told.of("a"), ["1", "2", "3"]);
    // A message that does not end in time is given up, and sent again with its id.
    let stuck = Told::new(|_| Answer::Late(Duration::from_secs(60)));
    let ids = send(&pool, &[("a", "4")]).await;
    let handle = relay(&pool, stuck.clone())
        .publish_timeout(Duration::from_secs(60))
        .lease(Duration::from_secs(3_600))
        .start();
    until(|| stuck.all().len() == 1).await;
    assert_eq!(handle.shutdown(Duration::from_millis(10)).await, Stopped::Aborted);
    let handle = relay(&pool, told.clone()).start();
    until_empty(&pool).await;
    end(handle).await;
    assert_eq!(stuck.all()[0].id, ids[0]);
    assert_eq!(told.all().last().unwrap().id, ids[0]);
}

/// A pool whose transactions do not begin for a while.
#[derive(Clone)]
pub(crate) struct Failing<P> {
    pool: P,
    begins_to_fail: Arc<AtomicUsize>,
}

impl<P: TransactionPool> TransactionPool for Failing<P> {
    type Transaction = P::Transaction;
    type Connection = P::Connection;

    fn database(&self) -> Database {
        self.pool.database()
    }

    async fn begin(&self, isolation: Isolation) -> Result<P::Transaction, SqlError> {
        let left = &self.begins_to_fail;
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok() {
            return Err(SqlError::lost("the connection is gone"));
        }
        self.pool.begin(isolation).await
    }

    fn connection(transaction: &P::Transaction) -> &P::Connection {
        P::connection(transaction)
    }

    fn connection_mut(transaction: &mut P::Transaction) -> &mut P::Connection {
        P::connection_mut(transaction)
    }

    async fn commit(&self, transaction: P::Transaction) -> Result<(), SqlError> {
        self.pool.commit(transaction).await
    }

    async fn roll_back(&self, transaction: P::Transaction) {
        self.pool.roll_back(transaction).await;
    }
}

/// The database is lost after the broker has confirmed: the message is sent again, with its id.
pub(crate) async fn a_lost_database_repeats_messages_with_their_ids<P: TransactionPool>(pool: P) {
    let begins_to_fail = Arc::new(AtomicUsize::new(0));
    let failing = Failing { pool: pool.clone(), begins_to_fail: Arc::clone(&begins_to_fail) };
    let once = AtomicUsize::new(1);
    let told = Told::new(move |_| {
        if once.swap(0, Ordering::Relaxed) == 1 {
            begins_to_fail.store(3, Ordering::Relaxed);
        }
        Answer::Confirm
    });
    let ids = send(&pool, &[("a", "1"), ("a", "2")]).await;
    let relay = relay(&failing, told.clone())
        .concurrency(1)
        .batch(1)
        .publish_timeout(Duration::from_millis(200))
        .lease(Duration::from_millis(400))
        .start();
    until_empty(&pool).await;
    let status = relay.status();
    end(relay).await;
    assert_eq!(told.of("a"), ["1", "1", "2"]);
    let sent: Vec<_> = told.all().into_iter().map(|it| it.id).collect();
    assert_eq!(sent, [&*ids[0], &*ids[0], &*ids[1]]);
    assert_eq!((status.unsettled, status.published), (1, 3), "{status:?}");
    assert!(status.database_errors >= 3, "{status:?}");
}

/// An id that is in the outbox is refused, and so is a table that is not there.
pub(crate) async fn mistakes_are_told<P: TransactionPool>(pool: P) {
    let message = || Message::new("orders", "a", "").id("twice");
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    OUTBOX.send(&mut tx, message()).await.unwrap();
    let refused = OUTBOX.send(&mut tx, message()).await.unwrap_err();
    assert_eq!(refused.kind(), OutboxErrorKind::Sql, "{refused}");
    pool.roll_back(tx).await;
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let refused = Outbox::new("nowhere").send(&mut tx, message()).await.unwrap_err();
    assert_eq!(refused.kind(), OutboxErrorKind::NotMigrated, "{refused}");
    assert!(refused.to_string().contains("`nowhere`"), "{refused}");
    pool.roll_back(tx).await;
}

/// Relays do not do each other's work.
pub(crate) async fn two_relays_share_the_keys<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Late(Duration::from_millis(5)));
    for number in 0..100 {
        send(&pool, &[(&format!("key {}", number % 20), &number.to_string())]).await;
    }
    let relays = [(); 2].map(|()| relay(&pool, told.clone()).concurrency(4).batch(2).start());
    until_empty(&pool).await;
    for relay in relays {
        let status = relay.status();
        assert!(status.published > 0 && status.database_errors == 0, "{status:?}");
        end(relay).await;
    }
    assert_eq!(told.all().len(), 100, "no message was sent twice");
    for number in 0..20 {
        let expected: Vec<_> = (0..5).map(|it| (number + 20 * it).to_string()).collect();
        assert_eq!(told.of(&format!("key {number}")), expected);
    }
}

/// A row that something else wrote becomes a dead letter, and holds up no other key.
pub(crate) async fn rows_that_cannot_be_read_are_dead_letters<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Confirm);
    send(&pool, &[("a", "1"), ("b", "1")]).await;
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let text = "UPDATE idempotent_outbox SET headers = '[1]' WHERE aggregateid = 'a'";
    tx.query(Statement { text, params: &[], preparation: Preparation::Unnamed }).await.unwrap();
    pool.commit(tx).await.unwrap();
    let relay = relay(&pool, told.clone()).start();
    until_empty(&pool).await;
    end(relay).await;
    assert_eq!((told.of("a").len(), told.of("b").len()), (0, 1));
    let mut tx = pool.begin(Isolation::Default).await.unwrap();
    let letters = OUTBOX.dead_letters(&mut tx, 0, 10).await.unwrap();
    pool.roll_back(tx).await;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].last_error.contains("headers"), "{}", letters[0].last_error);
}

/// A process that wakes its relay does not wait for the next look.
pub(crate) async fn a_relay_can_be_woken<P: TransactionPool>(pool: P) {
    let told = Told::new(|_| Answer::Confirm);
    let relay = relay(&pool, told.clone()).poll(Duration::from_secs(3_600)).start();
    tokio::time::sleep(Duration::from_millis(200)).await;
    send(&pool, &[("a", "1")]).await;
    assert!(told.all().is_empty());
    relay.waker().wake();
    until_empty(&pool).await;
    end(relay).await;
}

/// A test of each promise, and of those that not every database gives, on a pool that a function of
/// this name makes. The module around it is `outbox`.
macro_rules! promises {
    ($pool:ident $(, $further:ident)*) => {
        crate::outbox::scenarios::promises! { @each $pool
            messages_arrive_as_they_were_sent
            a_rolled_back_transaction_sends_nothing
            one_transaction_at_a_time_sends_to_a_key
            a_failing_key_does_not_hold_up_others
            dead_letters_hold_their_key_until_an_operator_decides
            skipped_dead_letters_let_others_pass
            a_broker_that_is_away_makes_no_dead_letters
            shutdown_settles_the_message_in_flight
            a_lost_database_repeats_messages_with_their_ids
            mistakes_are_told
            two_relays_share_the_keys
            rows_that_cannot_be_read_are_dead_letters
            a_relay_can_be_woken
            $($further)*
        }
    };
    (@each $pool:ident $($promise:ident)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let (_database, pool) = $pool().await;
            crate::outbox::scenarios::$promise(pool).await;
        }
    )+};
}
pub(crate) use promises;
