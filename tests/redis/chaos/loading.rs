//! A server that is restarted and reads its records for a while: it answers with LOADING.

use crate::faults::{count, send};
use support::redis::{RedisServer, info};
use support::until_async;

/// Makes the file longer: a server that reads it answers once in 1,024 commands.
const FILL: &str =
    "for i = 1, 20000 do redis.call('SET', 'filler', i) end redis.call('DEL', 'filler')";
/// Microseconds that reading a command takes.
const SLOWLY: &[&str] = &["--key-load-delay", "200"];

/// Restarts a server, and lets it read slowly until it has refused a few times.
pub(crate) async fn load_slowly(server: &mut RedisServer) {
    send(&mut server.connection().await, &["EVAL", FILL, "0"]).await;
    server.restart_loading(SLOWLY);
    let mut connection = server.connection().await;
    until_async(|| async { count(&connection, "errorstat_LOADING").await >= 5 }).await;
    send(&mut connection, &["CONFIG", "SET", "key-load-delay", "0"]).await;
    until_async(|| async { info(server, "loading").await == "0" }).await;
}
