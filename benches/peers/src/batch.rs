//! `run_batch` against two pipelines with the same commands.

use crate::floors::Commands;
use crate::product::Product;
use crate::servers::Server;
use crate::statistics::Summary;
use crate::workload::{Body, Order, VALUE_BYTES, check, fresh_ids, json};
use idempotent_runtime::{Error, Mode};
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};

/// Keys of a batch.
pub const KEYS: u64 = 1_000;

/// Batches of a turn.
const EACH: u64 = 10;

/// Times of batches.
#[derive(Clone, Debug)]
pub struct Batches {
    /// Microseconds a key, two pipelines.
    pub pipelines: Summary,
    /// Microseconds a key, `run_batch`.
    pub product: Summary,
    /// Throughput of the product over that of the pipelines.
    pub ratio: Summary,
}

/// Measures batches of new keys, in alternating rounds.
///
/// # Errors
/// The product does not send the commands of a begin and a complete.
pub async fn measure(server: &Server, rounds: usize) -> Result<Batches, String> {
    let body = Body::of_size(VALUE_BYTES);
    let product = Product::connect(server, &body).await;
    let commands = product.commands(server).await?;
    let mut connection = server.connect().await;
    let (mut floors, mut products) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (mut floor, mut ours) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..EACH {
            server.flush().await;
            floor += pipelines(&mut connection, &commands, &body).await;
            server.flush().await;
            ours += run_batch(&product).await;
        }
        if round > 0 {
            let per_key = |time: Duration| time.as_secs_f64() * 1e6 / (EACH * KEYS) as f64;
            floors.push(per_key(floor));
            products.push(per_key(ours));
        }
    }
    Ok(Batches {
        ratio: Summary::of_ratios(&floors, &products),
        pipelines: Summary::of(floors),
        product: Summary::of(products),
    })
}

async fn pipelines(
    connection: &mut MultiplexedConnection,
    commands: &Commands,
    body: &Body,
) -> Duration {
    let ids = fresh_ids(KEYS);
    let started = Instant::now();
    let (mut begin, mut complete) = (redis::pipe(), redis::pipe());
    for id in ids..ids + KEYS {
        for command in commands.begin(id) {
            begin.add_command(command);
        }
    }
    let _: Vec<Value> = begin.query_async(connection).await.expect("the server takes the pipeline");
    for id in ids..ids + KEYS {
        for command in commands.complete(id, &json(&body.run(id))) {
            complete.add_command(command);
        }
    }
    let _: Vec<Value> =
        complete.query_async(connection).await.expect("the server takes the pipeline");
    started.elapsed()
}

async fn run_batch(product: &Product) -> Duration {
    let ids = fresh_ids(KEYS);
    let started = Instant::now();
    let operation = product.idem.operation("orders.create").mode(Mode::Strong);
    let items = (ids..ids + KEYS).map(|id| (id, id));
    let body = |ids: Vec<u64>| async {
        ids.into_iter().map(|id| Ok::<Order, Error>(product.body.run(id))).collect()
    };
    let answers = operation.run_batch(items, body).await;
    let elapsed = started.elapsed();
    for (answer, id) in answers.into_iter().zip(ids..) {
        check(&answer.expect("the call is answered").value, id);
    }
    elapsed
}
