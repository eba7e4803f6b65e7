//! Consumers on a queue in memory: how deliveries are settled, and how a consumer ends. Producers, with a broker that
//! answers as it is told.
#![allow(missing_docs)]

mod bench;
mod blocking;
mod consumers;
mod decoders;
mod hands;
mod in_hand;
mod observed;
mod order;
mod outages;
mod prepare;
mod producers;
mod publisher;
mod schedules;
mod settlements;
mod watched;
