//! The Redis store, on real servers.

mod faults;
mod message;
mod proxy;
mod round_trips;
mod site;
mod store;
