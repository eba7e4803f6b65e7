//! Can an effect inside Redis happen exactly once?
//!
//! ```text
//! cargo run --example stock
//! ```
//!
//! Stock lies in Redis. The script that takes from it and the record that says so are written in one
//! atomic step: no crash, lost reply or repeat can take twice.
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::{Effect, RedisStore};
use idempotent_runtime::{EffectOutcome, Error, Idempotency};
use support::redis::RedisServer;

/// Validates before its first write: Redis takes nothing back.
const DEDUCT: &str = "
    local left = tonumber(redis.call('GET', KEYS[1]) or '0')
    local wanted = tonumber(ARGV[1])
    if left < wanted then
      return refuse('only ' .. left .. ' left')
    end
    return redis.call('DECRBY', KEYS[1], wanted)";

struct Shop {
    idem: Idempotency,
    redis: RedisStore,
    deduct: Effect,
}

impl Shop {
    /// Takes `count` of `item`, once per order, and answers with what is left.
    async fn deduct(&self, order: u64, item: &str, count: u32) -> Result<String, Error> {
        let effect = self.deduct.clone().key(format!("stock:{{{item}}}")).arg(count);
        let operation = self.idem.operation("stock.deduct").key(order).hash_tag(item);
        Ok(match operation.run_effect::<i64>(&self.redis, &effect).await? {
            EffectOutcome::Applied(outcome) if outcome.replayed => {
                format!("done before, {} were left", outcome.value)
            }
            EffectOutcome::Applied(outcome) => format!("done, {} are left", outcome.value),
            EffectOutcome::Refused { reason } => format!("refused: {reason}"),
            other => format!("{other:?}"),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = RedisServer::start();
    let mut connection = server.connection().await;
    let () = redis::cmd("SET").arg("stock:{lamp}").arg(5).query_async(&mut connection).await?;

    let redis = RedisStore::connect(&server.url()).await?;
    let idem = Idempotency::builder().store(redis.clone()).build()?;
    let shop = Shop { idem, redis, deduct: Effect::new(DEDUCT) };

    println!("5 lamps");
    for (order, count) in [(1, 2), (1, 2), (2, 4), (3, 3), (3, 3)] {
        println!("order {order} takes {count}: {}", shop.deduct(order, "lamp", count).await?);
    }
    let left: i64 = redis::cmd("GET").arg("stock:{lamp}").query_async(&mut connection).await?;
    assert_eq!(left, 0);
    println!("{left} lamps");
    Ok(())
}
