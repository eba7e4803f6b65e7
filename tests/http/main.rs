//! The HTTP layer as its clients see it: real sockets, on the memory store and on a real Redis.
#![allow(missing_docs)]

mod ambient;
mod bench;
mod client;
mod composition;
mod errors;
mod extractor;
mod flight;
mod forms;
mod grpc;
mod in_place;
mod independence;
mod key_sources;
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
mod settings;
mod sizes;
mod status;
mod statuses;
mod store_down;
mod streams;
mod unreliable;
