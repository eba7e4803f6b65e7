//! Relays in processes that are killed and paused: nothing is lost, and the order of every key is kept.

use super::receiver::{Delivery, WorkerDatabase, WorkerOrders};
use super::scenarios::{OUTBOX, until_empty};
use idempotent_sql::outbox::Message;
use idempotent_sql::{Isolation, TransactionPool};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::worker::Worker;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const KEYS: usize = 100;
const MESSAGES: usize = 50;
const SENDERS: usize = 8;
const LEASE: u64 = 600;

/// A receiver that loses one delivery in fifty, and one confirmation in fifty.
struct Receiver {
    address: SocketAddr,
    all: Arc<Mutex<Vec<Delivery>>>,
}

impl Receiver {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let all = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn({
            let all = Arc::clone(&all);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(receive(stream, Arc::clone(&all)));
                }
            }
        });
        Self { address, all }
    }
}

async fn receive(stream: TcpStream, all: Arc<Mutex<Vec<Delivery>>>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    // A relay that is killed while it writes leaves half a line.
    if stream.read_line(&mut line).await.is_err() || !line.ends_with('\n') {
        return;
    }
    let luck = rand::random_range(0..50);
    if luck == 0 {
        return;
    }
    all.lock().unwrap().push(serde_json::from_str(&line).unwrap());
    if luck != 1 {
        let _ = stream.write_all(b"confirmed\n").await;
    }
}

/// The payloads of each key, in the order in which their transactions held the key.
type Ledger = Mutex<HashMap<String, Vec<String>>>;

/// Sends until every key has its messages. One transaction in ten is rolled back.
async fn send_all<P: TransactionPool>(pool: P, ledger: Arc<Ledger>, sender: usize) {
    for round in 0.. {
        let behind: Vec<usize> = {
            let ledger = ledger.lock().unwrap();
            let sent = |key: &usize| ledger.get(&format!("key {key}")).map_or(0, Vec::len);
            (0..KEYS).filter(|key| sent(key) < MESSAGES).collect()
        };
        if behind.is_empty() {
            return;
        }
        // Senders crowd on the first keys, so that they meet.
        let key = behind[rand::random_range(0..behind.len().min(10))];
        let key = format!("key {key}");
        let count = rand::random_range(1..=4);
        let mut tx = pool.begin(Isolation::Default).await.unwrap();
        let payloads: Vec<_> =
            (0..count).map(|number| format!("{sender}.{round}.{number}")).collect();
        for payload in &payloads {
            let message = Message::new("orders", &*key, &**payload);
            OUTBOX.send(&mut tx, message).await.unwrap();
        }
        if rand::random_bool(0.1) {
            pool.roll_back(tx).await;
            continue;
        }
        // The key is held: the order here is the order of the commits.
        ledger.lock().unwrap().entry(key).or_default().extend(payloads);
        if rand::random_bool(0.25) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        pool.commit(tx).await.unwrap();
    }
}

pub(crate) async fn killed_relays_lose_nothing_and_keep_the_order<P: TransactionPool>(
    pool: P,
    database: WorkerDatabase,
) {
    let receiver = Receiver::new().await;
    let orders = WorkerOrders { database, receiver: receiver.address, lease: LEASE };
    let orders = serde_json::to_string(&orders).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_outbox-worker"));
    let start = |process| Worker::start_told(binary, &orders, process);
    let ledger = Arc::new(Ledger::default());
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        senders.spawn(send_all(pool.clone(), Arc::clone(&ledger), sender));
    }
    let mut relays = [start(0), start(1)];
    let mut kills = 0;
    // Killed or paused while messages are sent and relayed; the last two are left to finish.
    while kills < 12 || !senders.is_empty() {
        let pause = rand::random_range(100..300);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        while let Some(sent) = senders.try_join_next() {
            sent.unwrap();
        }
        kills += 1;
        if kills % 6 == 5 {
            // It goes on after the other one has taken its keys.
            relays[0].pause();
            tokio::time::sleep(Duration::from_millis(LEASE + 100)).await;
            relays[0].go_on();
        } else {
            relays[rand::random_range(0..2)] = start(kills + 1);
        }
    }
    until_empty(&pool).await;
    drop(relays);
    let all = receiver.all.lock().unwrap().clone();
    check(&ledger.lock().unwrap(), &all);
    println!("{kills} kills and pauses, {} deliveries", all.len());
}

/// First deliveries are in the order of the ledger, and others repeat one of them.
fn check(ledger: &HashMap<String, Vec<String>>, all: &[Delivery]) {
    let mut ids = HashMap::new();
    let mut first: HashMap<String, Vec<String>> = HashMap::new();
    for delivery in all {
        let message = (&*delivery.key, &*delivery.payload);
        match ids.get(&*delivery.id) {
            Some(known) => assert_eq!(*known, message, "an id is of one message"),
            None => {
                ids.insert(&*delivery.id, message);
                first.entry(delivery.key.clone()).or_default().push(delivery.payload.clone());
            }
        }
    }
    let messages: HashSet<_> = ids.values().collect();
    assert_eq!(messages.len(), ids.len(), "a message has one id");
    assert_eq!(ledger.len(), KEYS);
    for (key, expected) in ledger {
        assert_eq!(first.get(key), Some(expected), "{key}");
    }
    assert_eq!(first.len(), KEYS, "nothing else was sent");
}
