//! Measures floors, peers and the product on the same machine, in alternating rounds.
//!
//! A [`Subject`](subject::Subject) is a way to run a body once per key: commands sent by hand (a floor), another crate (a
//! peer), or the product. Subjects take turns on one server, so that all of them see the same machine, and a ratio is the
//! median over rounds of what two of them did in the same round.

pub mod batch;
pub mod capture;
pub mod command;
pub mod counts;
pub mod field;
pub mod floors;
pub mod goals;
pub mod http;
pub mod machine;
pub mod memory;
pub mod options;
pub mod packer;
pub mod peers;
pub mod plan;
pub mod product;
pub mod quick;
pub mod report;
pub mod rounds;
pub mod servers;
pub mod statistics;
pub mod subject;
pub mod svg;
pub mod table;
pub mod usage;
pub mod waiters;
pub mod workload;
