//! The Redis store, on real servers.

mod effects;
mod store;
mod tokens;
