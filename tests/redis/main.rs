//! The Redis store, on real servers.

mod cluster;
mod connect;
mod connect_errors;
mod effects;
mod reconnect;
mod sentinel;
mod store;
mod tokens;
