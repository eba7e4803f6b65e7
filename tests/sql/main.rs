//! Records in SQL databases, on real servers.
#![allow(missing_docs, clippy::print_stdout)]

mod exactly_once;
mod faults;
mod http;
mod mysql;
mod outbox;
mod pgbouncer;
mod postgres;
mod processes;
mod proxy;
mod scenarios;
mod servers;
mod transitions;
