//! The Redis store, on real servers.

mod cluster;
mod sentinel;
mod store;
