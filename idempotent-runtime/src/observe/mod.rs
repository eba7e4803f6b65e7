//! Observability: one outcome per call, timings, gauges and rare events.
//!
//! Keys appear hashed by default, values never.

mod adapter;
pub(crate) mod ending;
pub mod names;
mod record;

pub use adapter::{PendingCall, not_kept, refused};
pub use ending::Ending;
pub(crate) use record::{
    BodyTimer, CallEnd, Cleanup, LoggedKey, StoreTimer, WaitTimer, dropped, in_flight, looked_up,
    rare, store_failed,
};
