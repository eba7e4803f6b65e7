//! Consumers on a queue in memory: how deliveries are settled, and how a consumer ends.
#![allow(missing_docs)]

mod bench;
mod consumers;
mod decoders;
mod in_hand;
mod observed;
mod order;
mod outages;
mod prepare;
mod settlements;
mod watched;
