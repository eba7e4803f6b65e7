//! The HTTP layer as its clients see it: real sockets, on the memory store and on a real Redis.
#![allow(missing_docs)]

mod ambient;
mod backoff;
mod bench;
mod client;
mod downstream;
mod errors;
mod flight;
mod forms;
mod handled_once;
mod independence;
mod keys;
mod killed;
mod large_answers;
mod layers;
mod leases;
mod load;
mod payload;
mod processes;
mod replay;
mod retries;
mod script;
mod secrecy;
mod server;
mod sizes;
mod statuses;
mod store_down;
mod unreliable;
