//! What one process makes of the faults between it and its server.
//!
//! How often a body ran is counted outside the store. Each test ends with a call that succeeds, and
//! with nothing left that runs, waits or is renewed.

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
