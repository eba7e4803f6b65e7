//! The Redis store, on real servers.

mod histories;
mod processes;
mod store;
