//! The Redis store, on real servers.

mod store;
