//! The HTTP layer as its clients see it: real sockets, on the memory store and, with the feature
//! `redis-server-tests`, on a real Redis.
#![allow(missing_docs)]

mod ambient;
mod backoff;
mod bench;
mod client;
mod composition;
mod departures;
mod downstream;
mod errors;
mod extractor;
mod flight;
mod forms;
mod grpc;
mod handled_once;
mod in_place;
mod independence;
mod key_sources;
mod keys;
#[cfg(feature = "redis-server-tests")]
mod killed;
mod large_answers;
mod layers;
mod leases;
#[cfg(feature = "redis-server-tests")]
mod load;
mod operators;
mod payload;
mod problem_types;
#[cfg(feature = "redis-server-tests")]
mod processes;
mod quota;
#[cfg(feature = "redis-server-tests")]
mod redis_down;
mod refusals;
mod replay;
mod retries;
mod script;
mod secrecy;
mod server;
mod settings;
mod sizes;
mod status;
mod statuses;
mod store_down;
mod streams;
mod unreliable;

/// Stands in for every test that is left out, so that a run without them says so.
#[cfg(not(all(
    feature = "broker-tests",
    feature = "browser-tests",
    feature = "prometheus-tests",
    feature = "redis-server-tests",
    feature = "sql-server-tests"
)))]
#[test]
#[ignore = "needs redis-server, PostgreSQL, MariaDB, RabbitMQ, NATS, Prometheus and chromium: `scripts/test`, or `cargo test --workspace --all-features`"]
fn tests_on_servers_and_in_a_browser() {
    panic!("they need `--all-features`");
}
