//! The Redis store, on real servers.

// Which server, and how many calls: shown beside a failure.
#![allow(clippy::print_stdout)]

mod cluster;
mod connect;
mod connect_errors;
mod reconnect;
mod replication;
mod sentinel;
mod store;
