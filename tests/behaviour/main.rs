//! What callers see: modes, waiting, cancellation, panics, leases, faults, values, keys.
#![allow(missing_docs)]

mod ambient;
mod arming;
mod background;
mod batch;
mod binding;
mod broken_store;
mod by_hand;
mod cancellation;
mod concurrency;
mod config;
mod derived_keys;
mod detach;
mod detach_ends;
mod disabled;
mod failures;
mod faults;
mod forget;
mod hostile;
mod in_place;
mod keys;
mod leases;
mod limit;
mod modes;
mod names;
mod nesting;
mod no_attempt;
mod panics;
mod recorded;
mod repeats_only;
mod replays;
mod sharing;
mod shutdown;
mod size;
mod tokens;
mod values;
