//! The Redis store, on real servers.

mod faults;
mod message;
mod proxy;
mod site;
mod store;
