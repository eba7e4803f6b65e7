//! Values of other programs under the names of records, which a server answers with WRONGTYPE.

use crate::scene::{generation, record};
use rand::RngExt as _;
use rand::rngs::StdRng;
use redis::aio::MultiplexedConnection;
use support::kind::Kind;
use support::until_async;

/// The most frequent keys of each kind.
const RANKS: usize = 4;

/// Leaves what is there.
const PLANT: &str = "
    local planted = 0
    for _, name in ipairs(KEYS) do
        if redis.call('EXISTS', name) == 0 then
            redis.call('LPUSH', name, 'foreign')
            planted = planted + 1
        end
    end
    return planted";

/// Removes nothing else.
const REMOVE: &str = "
    local removed = 0
    for _, name in ipairs(KEYS) do
        if redis.call('TYPE', name)['ok'] == 'list' then
            removed = removed + redis.call('DEL', name)
        end
    end
    return removed";

/// Some of the keys that are called next, and that nobody has called yet: a value in the place of a
/// record would lose the record.
pub(crate) fn keys(rng: &mut StdRng) -> Vec<String> {
    let next = generation() + 1;
    let some = Kind::ALL
        .into_iter()
        .flat_map(|kind| (0..RANKS).map(move |rank| kind.key(format_args!("{next}-{rank}"))));
    // The first ones are called again and again, others once or twice.
    some.filter(|key| key.ends_with("-0") || rng.random_bool(0.7)).collect()
}

/// Puts values in the place of records until a server has refused them a few times, and takes them
/// away: from then on their keys are like any other.
pub(crate) async fn be_in_the_way(
    connection: &MultiplexedConnection,
    keys: &[String],
    refused: impl AsyncFn() -> u64,
) {
    let names: Vec<String> = keys.iter().map(|key| record(key)).collect();
    let before = refused().await;
    assert_eq!(eval(connection, PLANT, &names).await, names.len(), "a key was called early");
    until_async(|| async { refused().await >= before + 5 }).await;
    assert_eq!(eval(connection, REMOVE, &names).await, names.len(), "a value was overwritten");
}

async fn eval(connection: &MultiplexedConnection, script: &str, names: &[String]) -> usize {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(names.len()).arg(names);
    command.query_async(&mut connection.clone()).await.unwrap()
}
