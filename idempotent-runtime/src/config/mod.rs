//! Configuration of an instance, which applies where a function does not choose for itself.
//!
//! A configuration comes from code, from a file through serde, or from the environment; all three
//! are checked by the same rules. `settings.rs` is the table of all settings.

mod bounds;
mod choices;
mod draft;
pub(crate) mod duration;
mod env;
mod error;
mod file;
mod names;
mod replay_cache;
pub mod retention;
#[macro_use]
mod table;
mod settings;
mod validate;
mod values;

use std::time::Duration;

use self::names::Spelling;

pub(crate) use self::bounds::{LONGEST, RETRY_AFTER};

/// The range of a lease.
pub(crate) const LEASES: std::ops::RangeInclusive<Duration> =
    bounds::SHORTEST_LEASE..=bounds::LONGEST_LEASE;
pub use self::{
    choices::{Abandon, Mode, OnStoreError, OnUnrecorded},
    error::ConfigError,
    replay_cache::ReplayCache,
    settings::Config,
};

impl Config {
    /// Creates a configuration with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks every setting. Reading from a file or the environment does so too.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        settings::check(self, &|setting| Spelling::Code.name(setting))
    }
}
