//! The Redis store, on real servers.
#![allow(missing_docs, clippy::print_stdout)]

mod clock;
mod cluster;
mod connect;
mod connect_errors;
mod effects;
mod eviction;
mod failover;
mod faults;
mod follow;
mod freed;
mod histories;
mod message;
mod paused;
mod processes;
mod proxy;
mod reconnect;
mod replay_cache;
mod replication;
mod round_trips;
mod scan;
mod sentinel;
mod short_leases;
mod site;
mod store;
mod tokens;
