//! What no configuration may say, wherever it came from.

use std::time::Duration;

use super::{Config, ConfigError, defaults, duration, names::Setting};

/// Checks every field. `name` gives the name that the user wrote for a setting.
pub(super) fn check(config: &Config, name: &dyn Fn(Setting) -> String) -> Result<(), ConfigError> {
    check_key_prefix(&config.key_prefix, name)?;
    check_durations(config, name)?;
    let bytes = config.max_value_bytes;
    if bytes == 0 || bytes > defaults::LARGEST_VALUE_BYTES {
        let accepted = format!("1 to {} bytes", defaults::LARGEST_VALUE_BYTES);
        return Err(ConfigError::refused(name(Setting::MaxValueBytes), bytes, accepted));
    }
    if config.max_concurrent == Some(0) {
        let accepted = "1 or more, or nothing for no bound";
        return Err(ConfigError::refused(name(Setting::MaxConcurrent), 0, accepted));
    }
    Ok(())
}

fn check_key_prefix(prefix: &str, name: &dyn Fn(Setting) -> String) -> Result<(), ConfigError> {
    let refused = |value: String| {
        let accepted = format!(
            "1 to {} bytes of text without control characters",
            defaults::LONGEST_KEY_PREFIX
        );
        Err(ConfigError::refused(name(Setting::KeyPrefix), value, accepted))
    };
    if prefix.len() > defaults::LONGEST_KEY_PREFIX {
        return refused(format!("{} bytes long", prefix.len()));
    }
    if prefix.is_empty() || prefix.chars().any(char::is_control) {
        return refused(format!("{prefix:?}"));
    }
    Ok(())
}

fn check_durations(config: &Config, name: &dyn Fn(Setting) -> String) -> Result<(), ConfigError> {
    const TICK: Duration = Duration::from_millis(1);
    const LONGEST: Duration = defaults::LONGEST;
    let ranges = [
        (Setting::Expire, config.expire, TICK, LONGEST),
        (Setting::Wait, config.wait, Duration::ZERO, LONGEST),
        (Setting::Lease, config.lease, defaults::SHORTEST_LEASE, defaults::LONGEST_LEASE),
        (Setting::MaxRun, config.max_run, config.lease, LONGEST),
        (Setting::RetryInterval, config.retry_interval, TICK, LONGEST),
        (Setting::BlockRetention, config.block_retention, TICK, LONGEST),
        (Setting::CleanupInterval, config.cleanup_interval, TICK, LONGEST),
    ];
    for (setting, value, least, most) in ranges {
        if duration::is_whole_millis(value) && (least..=most).contains(&value) {
            continue;
        }
        // The least `max_run` is another setting, which may be the one to change.
        let least = match setting {
            Setting::MaxRun => format!("`{}` ({})", name(Setting::Lease), duration::display(least)),
            _ => duration::display(least),
        };
        return Err(ConfigError::refused(
            name(setting),
            duration::display(value),
            format!("whole milliseconds from {least} to {}", duration::display(most)),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let largest = defaults::LARGEST_VALUE_BYTES;
        assert_eq!(Config::new().with_max_value_bytes(largest).validate(), Ok(()));
        assert_eq!(refused(Config::new().with_max_value_bytes(largest + 1)).0, "max_value_bytes");
    }
}
