//! Consumers on a queue in memory: how deliveries are settled, and how a consumer ends.
#![allow(missing_docs)]

mod bench;
mod consumers;
mod settlements;
