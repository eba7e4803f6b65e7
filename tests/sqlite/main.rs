//! The store in a SQLite file. No server is needed.
#![allow(missing_docs, clippy::print_stdout)]

mod clocks;
mod errors;
#[path = "../sql/exactly_once.rs"]
mod exactly_once;
mod groups;
mod listing;
mod orders;
mod outbox;
mod processes;
mod reentrant;
mod replays;
#[path = "../sql/scenarios/mod.rs"]
mod scenarios;
mod store;
mod subject;
mod threads;
mod transact;
mod transitions;
mod verbs;
mod waiters;
