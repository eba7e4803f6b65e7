//! Checks of settings, the same for every source.
//!
//! A check takes the value of one field, and the whole configuration for values that depend on
//! another field.

use std::time::Duration;

use super::bounds::{LARGEST_VALUE_BYTES, LONGEST, LONGEST_KEY_PREFIX};
use super::{Config, ConfigError, duration, names::Setting};

/// The configuration that is being checked.
pub(super) struct Checked<'a> {
    pub(super) config: &'a Config,
    /// The name that the user wrote for a setting.
    pub(super) name: &'a dyn Fn(Setting) -> String,
}

/// A value that is not accepted, and a description of those that are.
#[derive(Debug)]
pub(super) struct Refused {
    value: String,
    accepted: String,
}

impl Refused {
    /// The error for a setting that the user wrote under this name.
    pub(super) fn under(self, name: String) -> ConfigError {
        ConfigError::refused(name, self.value, self.accepted)
    }
}

/// Accepts any value of the type.
pub(super) fn anything<T>(_: &T, _: &Checked<'_>) -> Result<(), Refused> {
    Ok(())
}

/// Accepts whole milliseconds within these bounds.
pub(super) fn within(
    least: Duration,
    most: Duration,
) -> impl Fn(&Duration, &Checked<'_>) -> Result<(), Refused> {
    move |value, _| whole_millis(*value, least, &duration::display(least), most)
}

/// Accepts whole milliseconds from `lease` on. The error names `lease`, which may be the one to
/// change.
pub(super) fn at_least_the_lease(value: &Duration, checked: &Checked<'_>) -> Result<(), Refused> {
    let lease = checked.config.lease;
    let named = format!("`{}` ({})", (checked.name)(Setting("lease")), duration::display(lease));
    whole_millis(*value, lease, &named, LONGEST)
}

fn whole_millis(
    value: Duration,
    least: Duration,
    shown_least: &str,
    most: Duration,
) -> Result<(), Refused> {
    if duration::is_whole_millis(value) && (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Refused {
        value: duration::display(value),
        accepted: format!("whole milliseconds from {shown_least} to {}", duration::display(most)),
    })
}

/// Accepts short text without control characters.
pub(super) fn key_prefix(prefix: &str, _: &Checked<'_>) -> Result<(), Refused> {
    let refused = |value: String| {
        let accepted =
            format!("1 to {LONGEST_KEY_PREFIX} bytes of text without control characters");
        Err(Refused { value, accepted })
    };
    if prefix.len() > LONGEST_KEY_PREFIX {
        return refused(format!("{} bytes long", prefix.len()));
    }
    if prefix.is_empty() || prefix.chars().any(char::is_control) {
        return refused(format!("{prefix:?}"));
    }
    Ok(())
}

/// Accepts sizes that a server takes.
pub(super) fn value_bytes(bytes: &usize, _: &Checked<'_>) -> Result<(), Refused> {
    match bytes {
        1..=LARGEST_VALUE_BYTES => Ok(()),
        _ => Err(Refused {
            value: bytes.to_string(),
            accepted: format!("1 to {LARGEST_VALUE_BYTES} bytes"),
        }),
    }
}

/// Accepts a bound of at least one, or none.
pub(super) fn at_least_one(bound: &Option<usize>, _: &Checked<'_>) -> Result<(), Refused> {
    match bound {
        Some(0) => Err(Refused {
            value: "0".to_owned(),
            accepted: "1 or more, or nothing for no bound".to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bounds;

    fn refused(config: Config) -> (String, String) {
        let error = config.validate().unwrap_err();
        assert!(error.to_string().contains(&format!("`{}`", error.field())), "{error}");
        (error.field().to_owned(), error.to_string())
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Config::default().validate(), Ok(()));
    }

    #[test]
    fn zero_is_refused_where_it_makes_no_sense() {
        let new = Config::new;
        assert_eq!(refused(new().with_expire(ms(0))).0, "expire");
        assert_eq!(refused(new().with_lease(ms(0))).0, "lease");
        assert_eq!(refused(new().with_max_run(ms(0))).0, "max_run");
        assert_eq!(refused(new().with_retry_interval(ms(0))).0, "retry_interval");
        assert_eq!(refused(new().with_block_retention(ms(0))).0, "block_retention");
        assert_eq!(refused(new().with_cleanup_interval(ms(0))).0, "cleanup_interval");
        assert_eq!(refused(new().with_max_value_bytes(0)).0, "max_value_bytes");
        assert_eq!(refused(new().with_max_concurrent(0)).0, "max_concurrent");
        assert_eq!(new().with_wait(ms(0)).validate(), Ok(()));
    }

    #[test]
    fn the_lease_has_bounds() {
        assert_eq!(Config::new().with_lease(ms(10)).validate(), Ok(()));
        assert_eq!(refused(Config::new().with_lease(ms(9))).0, "lease");
        assert_eq!(Config::new().with_lease(DAY).with_max_run(DAY).validate(), Ok(()));
        assert_eq!(
            refused(Config::new().with_lease(DAY + ms(1)).with_max_run(DAY * 2)).1,
            "`lease` cannot be 86400001ms; accepted: whole milliseconds from 10ms to 1d"
        );
    }

    #[test]
    fn a_run_shorter_than_its_lease_names_both() {
        let (field, text) = refused(Config::new().with_lease(Duration::from_secs(7200)));
        assert_eq!(field, "max_run");
        assert_eq!(
            text,
            "`max_run` cannot be 1h; accepted: whole milliseconds from `lease` (2h) to 36500d"
        );
    }

    #[test]
    fn durations_are_whole_milliseconds_within_a_century() {
        let fine = Duration::from_micros(1_500);
        assert_eq!(
            refused(Config::new().with_wait(fine)).1,
            "`wait` cannot be 1.5ms; accepted: whole milliseconds from 0s to 36500d"
        );
        assert_eq!(refused(Config::new().with_expire(DAY * 36_501)).0, "expire");
        assert_eq!(refused(Config::new().with_wait(Duration::MAX)).0, "wait");
        assert_eq!(Config::new().with_expire(DAY * 36_500).validate(), Ok(()));
    }

    #[test]
    fn the_key_prefix_is_short_printable_text() {
        assert_eq!(refused(Config::new().with_key_prefix("")).0, "key_prefix");
        assert_eq!(refused(Config::new().with_key_prefix("a\nb")).0, "key_prefix");
        let (_, text) = refused(Config::new().with_key_prefix("x".repeat(256)));
        assert!(text.contains("cannot be 256 bytes long"), "{text}");
        assert_eq!(Config::new().with_key_prefix("x".repeat(255)).validate(), Ok(()));
        assert_eq!(Config::new().with_key_prefix("größe:").validate(), Ok(()));
    }

    #[test]
    fn a_value_larger_than_a_server_takes_is_refused() {
        let largest = bounds::LARGEST_VALUE_BYTES;
        assert_eq!(Config::new().with_max_value_bytes(largest).validate(), Ok(()));
        assert_eq!(refused(Config::new().with_max_value_bytes(largest + 1)).0, "max_value_bytes");
    }
}
