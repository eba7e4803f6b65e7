//! The HTTP layer as its clients see it: real sockets, on the memory store and on a real Redis.
#![allow(missing_docs)]

mod ambient;
mod bench;
mod client;
mod errors;
mod flight;
mod forms;
mod independence;
mod keys;
mod killed;
mod layers;
mod leases;
mod load;
mod operators;
mod payload;
mod processes;
mod quota;
mod refusals;
mod replay;
mod retries;
mod secrecy;
mod server;
mod sizes;
mod status;
mod statuses;
mod store_down;
mod unreliable;
