//! Bodies per second when more callers come than `max_concurrent` lets run.
//!
//! `cargo bench -p idempotent-tests --bench limit`. Needs redis-server. Ten bodies of 10 ms may run, with 2 ms on the
//! way to the server and back. Ten, fifty and two hundred callers alternate in short rounds on one
//! instance, so that all see the same machine. Each calls with a key of its own, again and again;
//! one that is refused asks again after `PAUSE`. What is printed is how many bodies ended, and the
//! ratio to ten callers of the same round: the median, and the least and the most over the rounds.
//! It fails if a median is below `LEAST`. Both sides of a ratio are of one round, so that a slow
//! machine slows both, and a round that was disturbed does not move the median.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::redis::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const LIMIT: usize = 10;
const CALLERS: [usize; 3] = [LIMIT, 5 * LIMIT, 20 * LIMIT];
const BODY: Duration = Duration::from_millis(10);
const WIRE: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(5);
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
/// The part of the goodput at the limit that has to be left when more callers come.
const LEAST: f64 = 0.8;

/// Passes on what it reads after `WIRE`; what follows does not wait for that.
async fn delay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (send, mut due) = mpsc::unbounded_channel::<(tokio::time::Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let at = tokio::time::Instant::now() + WIRE;
        if send.send((at, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}

/// A way to the server that takes `WIRE` in each direction, on a thread of its own.
fn distant(server: String) -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(delay(from_client, to_server));
                tokio::spawn(delay(from_server, to_client));
            }
        });
    });
    url
}

/// The bodies of so many callers that ended within a round, and the calls that were refused.
async fn round(idem: &Idempotency, callers: usize) -> (u64, u64) {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let until = Instant::now() + ROUND;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (idem, counts) = (idem.clone(), Arc::clone(&counts));
            tokio::spawn(async move {
                while Instant::now() < until {
                    let op = idem.operation("limited").key(KEYS.fetch_add(1, Relaxed));
                    let body = async {
                        tokio::time::sleep(BODY).await;
                        Ok::<u64, Error>(1)
                    };
                    match op.run(body).await {
                        Ok(_) => drop(counts.0.fetch_add(1, Relaxed)),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::StoreFull, "{error}");
                            counts.1.fetch_add(1, Relaxed);
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    (counts.0.load(Relaxed), counts.1.load(Relaxed))
}

async fn measure() {
    let server = RedisServer::start();
    let store = RedisStore::connect(&distant(server.address())).await.unwrap();
    let config = Config::new().with_mode(Mode::Strong).with_max_concurrent(LIMIT);
    let idem = Idempotency::builder().store(store).config(config).build().unwrap();
    round(&idem, LIMIT).await;
    let mut rounds: Vec<[(u64, u64); 3]> = Vec::new();
    for _ in 0..ROUNDS {
        let mut row = [(0, 0); 3];
        for (callers, cell) in CALLERS.into_iter().zip(&mut row) {
            *cell = round(&idem, callers).await;
        }
        rounds.push(row);
    }
    let mut medians = Vec::new();
    for (index, callers) in CALLERS.into_iter().enumerate() {
        let mut ratios: Vec<f64> =
            rounds.iter().map(|row| row[index].0 as f64 / row[0].0 as f64).collect();
        ratios.sort_by(f64::total_cmp);
        let mut cells: Vec<_> = rounds.iter().map(|row| row[index]).collect();
        cells.sort_unstable();
        let (bodies, refused) = cells[ROUNDS / 2];
        println!(
            "{callers:>4} callers: {bodies:>5} bodies, {refused:>6} refused in {ROUND:?}   ratio \
             {:.2} ({:.2} to {:.2})",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1],
        );
        medians.push(ratios[ROUNDS / 2]);
    }
    // After the whole table is printed.
    for (median, callers) in medians.into_iter().zip(CALLERS) {
        assert!(median >= LEAST, "{callers} callers: {median:.2} of the goodput at the limit");
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}
