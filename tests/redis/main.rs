//! The Redis store, on real servers.

mod proxy;
mod store;
