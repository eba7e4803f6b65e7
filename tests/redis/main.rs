//! The Redis store, on real servers.
#![allow(missing_docs, clippy::print_stdout)]

mod cluster;
mod connect;
mod connect_errors;
mod effects;
mod histories;
mod processes;
mod reconnect;
mod sentinel;
mod store;
mod tokens;
