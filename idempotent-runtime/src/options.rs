//! Options of one function, and their merge with the configuration.

use crate::config::{
    Abandon, Config, LEASES, LONGEST, Mode, OnStoreError, OnUnrecorded, RETRY_AFTER,
};
use crate::protocol::Binding;
use std::borrow::Cow;
use std::time::Duration;

/// The options of one function. The configuration decides those that it leaves out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) expire: Option<Duration>,
    pub(crate) mode: Option<Mode>,
    pub(crate) message: Option<Cow<'static, str>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) abandon: Option<Abandon>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) on_unrecorded: Option<OnUnrecorded>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) runs: Runs,
    pub(crate) binding: Binding,
    /// An argument that has an effect in strong mode only, of a function without `mode`.
    pub(crate) for_strong: Option<&'static str>,
}

/// The calls of an operation that may run their body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Every call that the store grants an attempt.
    #[default]
    Granted,
    /// The same, and they are not counted for `max_concurrent`.
    Uncounted,
    /// None: a call gets the answer of another one, or is refused.
    Never,
}

impl Options {
    pub(crate) const NONE: Self = Self {
        expire: None,
        mode: None,
        message: None,
        wait: None,
        lease: None,
        max_run: None,
        abandon: None,
        on_store_error: None,
        on_unrecorded: None,
        retry_after: None,
        runs: Runs::Granted,
        binding: Binding::Lifted,
        for_strong: None,
    };

    /// The `retry_after` of a caller that finds the key held.
    ///
    /// Only if the holder has died does the key stay held until the lease ends. Most bodies end
    /// long before that.
    pub(crate) fn ask_again(&self, lease_left: Duration) -> Duration {
        lease_left.min(self.retry_after.unwrap_or(RETRY_AFTER))
    }
}

/// The settings that apply to one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) retention: Duration,
    pub(crate) wait: Duration,
    pub(crate) lease: Duration,
    pub(crate) max_run: Duration,
    /// The linger of the record once the body is about to start, if the key blocks.
    pub(crate) block_linger: Option<Duration>,
    pub(crate) mode: Mode,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) on_unrecorded: OnUnrecorded,
    pub(crate) max_value_bytes: usize,
    /// The number of times that the body may start under one record, if that is limited.
    pub(crate) max_attempts: Option<u32>,
    /// `Some(0)` if the body must not run.
    pub(crate) max_concurrent: Option<usize>,
    /// The payload that may follow an attempt that ends without an answer.
    pub(crate) binding: Binding,
}

impl Policy {
    /// Merges the options of a call with the configuration; an error if a duration is out of range.
    pub(crate) fn of(options: &Options, config: &Config) -> Result<Self, &'static str> {
        let expire = options.expire.unwrap_or(config.expire);
        if expire.is_zero() {
            return Err("`expire` must be longer than zero");
        }
        let retention = whole_millis(expire);
        let abandon = options.abandon.unwrap_or(config.abandon);
        let lease = whole_millis(options.lease.unwrap_or(config.lease));
        if !LEASES.contains(&lease) {
            return Err("`lease` must be between 10 ms and 24 h");
        }
        Ok(Self {
            retention,
            wait: options.wait.unwrap_or(config.wait),
            lease,
            max_run: options.max_run.unwrap_or(config.max_run).max(lease),
            block_linger: match abandon {
                Abandon::Retry => None,
                Abandon::Block => Some(retention.max(whole_millis(config.block_retention))),
            },
            mode: options.mode.unwrap_or(config.mode),
            on_store_error: options.on_store_error.unwrap_or(config.on_store_error),
            on_unrecorded: options.on_unrecorded.unwrap_or(config.on_unrecorded),
            max_value_bytes: config.max_value_bytes,
            max_attempts: None,
            max_concurrent: match options.runs {
                Runs::Granted => config.max_concurrent,
                Runs::Uncounted => None,
                Runs::Never => Some(0),
            },
            binding: options.binding,
        })
    }

    /// `true` if the body may run at all.
    pub(crate) fn may_run(&self) -> bool {
        self.max_concurrent != Some(0)
    }

    /// `true` if a duplicate waits for a running body.
    pub(crate) fn waits(&self) -> bool {
        self.mode == Mode::Strong && !self.wait.is_zero()
    }
}

/// Rounds a duration up to whole milliseconds, the unit of stores: at least one, at most
/// [`LONGEST`].
pub(crate) fn whole_millis(duration: Duration) -> Duration {
    if duration > LONGEST {
        return LONGEST;
    }
    if duration.subsec_nanos().is_multiple_of(1_000_000) && !duration.is_zero() {
        return duration;
    }
    let millis = duration.as_nanos().div_ceil(1_000_000).max(1);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_beats_the_configuration_which_beats_the_default() {
        let config = Config::new().with_lease(Duration::from_secs(7));
        let options = Options { expire: Some(Duration::from_secs(5)), ..Options::NONE };
        let policy = Policy::of(&options, &config).unwrap();
        assert_eq!(policy.retention, Duration::from_secs(5));
        assert_eq!(policy.lease, Duration::from_secs(7));
        assert_eq!(policy.wait, Config::new().wait);
    }

    #[test]
    fn a_blocked_key_outlives_its_retention() {
        let options = Options { abandon: Some(Abandon::Block), ..Options::NONE };
        let policy = Policy::of(&options, &Config::new()).unwrap();
        assert_eq!(policy.block_linger, Some(Config::new().block_retention));
    }

    #[test]
    fn a_held_key_is_asked_for_soon_and_no_later_than_its_lease_ends() {
        let lease = Config::new().lease;
        assert_eq!(Options::NONE.ask_again(lease), RETRY_AFTER);
        let left = Duration::from_millis(3);
        assert_eq!(Options::NONE.ask_again(left), left);
        let patient = Options { retry_after: Some(lease), ..Options::NONE };
        assert_eq!(patient.ask_again(lease), lease);
    }

    #[test]
    fn durations_are_rounded_up_to_whole_milliseconds() {
        assert_eq!(whole_millis(Duration::from_nanos(1)), Duration::from_millis(1));
        assert_eq!(whole_millis(Duration::from_micros(1001)), Duration::from_millis(2));
        assert_eq!(whole_millis(Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(whole_millis(Duration::MAX), LONGEST);
    }
}
