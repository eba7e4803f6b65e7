//! The Redis store, on real servers.

mod cluster;
mod connect;
mod connect_errors;
mod reconnect;
mod replication;
mod sentinel;
mod store;
