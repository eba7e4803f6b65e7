//! Faults between one process and its server.
//!
//! Runs of bodies are counted outside the store. Each test ends with a call that succeeds, and with
//! nothing left that runs, waits or is renewed.

mod callers;
mod late;
mod messages;
mod moments;
mod outages;
mod records;
mod refusals;
mod refusing;
mod server;
mod shutdown;
mod waiters;
