//! Configuration from environment variables: `IDEMPOTENT_` and the name in upper case.

use std::env;

use super::{
    Config, ConfigError,
    draft::{Draft, Scalar},
    names::{ENV_PREFIX, Spelling},
};

/// Variables of this crate that are not settings.
const NOT_SETTINGS: [&str; 2] = [crate::switch::REQUIRE_INSTALLED, crate::switch::DISABLED];

impl Config {
    /// Reads the environment: `IDEMPOTENT_EXPIRE=10m`, `IDEMPOTENT_MODE=strong`.
    ///
    /// The names are those of files, in upper case with underscores, second names included.
    /// Durations without a unit are in seconds, except `IDEMPOTENT_RETRY_INTERVAL_MS`. A setting
    /// without a variable takes its default.
    ///
    /// # Errors
    /// An `IDEMPOTENT_` variable that is not a setting, a value that is not accepted, or two
    /// variables that set the same thing.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::default().overlay_env()
    }

    /// Overrides this configuration with the variables that are set.
    ///
    /// # Errors
    /// Those of [`from_env`](Self::from_env).
    pub fn overlay_env(self) -> Result<Self, ConfigError> {
        let mut vars = Vec::new();
        for (name, value) in env::vars_os() {
            let Ok(name) = name.into_string() else {
                continue;
            };
            if !is_setting(&name) {
                continue;
            }
            match value.into_string() {
                Ok(value) => vars.push((name, value)),
                Err(_) => return Err(ConfigError::not_unicode(name)),
            }
        }
        self.overlay_vars(vars)
    }

    /// Like [`from_env`](Self::from_env), with the given variables. Names without the prefix
    /// `IDEMPOTENT_` are ignored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idempotent_runtime::Config;
    ///
    /// let vars = [("IDEMPOTENT_EXPIRE", "10m"), ("PATH", "/bin")];
    /// let config = Config::from_vars(vars.map(|(name, value)| (name.into(), value.into())))?;
    /// assert_eq!(config.expire, Duration::from_secs(600));
    /// # Ok::<(), idempotent_runtime::config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`from_env`](Self::from_env).
    pub fn from_vars(
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Self::default().overlay_vars(vars)
    }

    fn overlay_vars(
        self,
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut vars: Vec<_> = vars.into_iter().filter(|(name, _)| is_setting(name)).collect();
        // The environment has no order. Sorting reports the same one of several mistakes each time.
        vars.sort_unstable();
        let mut draft = Draft::new(Spelling::Env);
        for (name, value) in vars {
            draft.set(&name, Scalar::Text(value))?;
        }
        draft.over(self)
    }
}

fn is_setting(name: &str) -> bool {
    name.starts_with(ENV_PREFIX) && !NOT_SETTINGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};

    fn vars(vars: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        vars.iter().map(|(name, value)| (name.to_string(), value.to_string()))
    }

    fn read(given: &[(&str, &str)]) -> Result<Config, String> {
        Config::from_vars(vars(given)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_environment_without_our_names_is_the_default() {
        let others = [("HOME", "/root"), ("IDEMPOTENCE", "x"), ("idempotent_expire", "5")];
        assert_eq!(read(&others), Ok(Config::default()));
    }

    #[test]
    fn our_names_are_read() {
        let config = read(&[
            ("IDEMPOTENT_KEY_PREFIX", "shop:"),
            ("IDEMPOTENT_EXPIRE", "600"),
            ("IDEMPOTENT_MODE", "strong"),
            ("IDEMPOTENT_MESSAGE", "123"),
            ("IDEMPOTENT_WAIT", "2s"),
            ("IDEMPOTENT_ABANDON", "block"),
            ("IDEMPOTENT_ON_STORE_ERROR", "run"),
            ("IDEMPOTENT_ON_UNRECORDED", "error"),
            ("IDEMPOTENT_MAX_VALUE_BYTES", "4096"),
            ("IDEMPOTENT_MAX_CONCURRENT", "10000"),
            ("IDEMPOTENT_LOG_KEYS", "true"),
        ]);
        let expected = Config::new()
            .with_key_prefix("shop:")
            .with_expire(Duration::from_secs(600))
            .with_mode(Mode::Strong)
            .with_message("123")
            .with_wait(Duration::from_secs(2))
            .with_abandon(Abandon::Block)
            .with_on_store_error(OnStoreError::Run)
            .with_on_unrecorded(OnUnrecorded::Error)
            .with_max_value_bytes(4096)
            .with_max_concurrent(10_000)
            .with_log_keys(true);
        assert_eq!(config, Ok(expected));
    }

    #[test]
    fn numbers_are_read_as_in_rust() {
        let config = read(&[
            ("IDEMPOTENT_EXPIRE", "1_000"),
            ("IDEMPOTENT_WAIT", "1_500ms"),
            ("IDEMPOTENT_MAX_VALUE_BYTES", "64_000"),
        ])
        .unwrap();
        assert_eq!(config.expire, Duration::from_secs(1000));
        assert_eq!(config.wait, Duration::from_millis(1500));
        assert_eq!(config.max_value_bytes, 64_000);
        assert!(read(&[("IDEMPOTENT_EXPIRE", "_1")]).is_err());
        assert!(read(&[("IDEMPOTENT_EXPIRE", "-_1")]).is_err());
    }

    #[test]
    fn the_names_of_the_java_system_are_read() {
        let config = read(&[
            ("IDEMPOTENT_EXPIRE_TIME", "600"),
            ("IDEMPOTENT_RETURN_CACHED_RESULT", "true"),
            ("IDEMPOTENT_MAX_RETRY_COUNT", "10"),
            ("IDEMPOTENT_RETRY_INTERVAL_MS", "20"),
        ])
        .unwrap();
        assert_eq!(config.expire, Duration::from_secs(600));
        assert_eq!(config.mode, Mode::Strong);
        assert_eq!(config.wait, Duration::from_millis(200));
        assert_eq!(config.retry_interval, Duration::from_millis(20));
    }

    #[test]
    fn errors_name_the_variable() {
        for (given, expected) in [
            (
                ("IDEMPOTENT_EXPIRES", "5"),
                "`IDEMPOTENT_EXPIRES` is not a setting; did you mean `IDEMPOTENT_EXPIRE`?",
            ),
            (("IDEMPOTENT_EXPIRE", "0"), "`IDEMPOTENT_EXPIRE` cannot be 0s; accepted: "),
            (("IDEMPOTENT_EXPIRE", ""), r#"`IDEMPOTENT_EXPIRE` cannot be ""; accepted: "#),
            (("IDEMPOTENT_EXPIRE_TIME", "-5"), "`IDEMPOTENT_EXPIRE_TIME` cannot be -5; accepted: "),
            (
                ("IDEMPOTENT_LOG_KEYS", "yes"),
                r#"`IDEMPOTENT_LOG_KEYS` cannot be "yes"; accepted: true or false"#,
            ),
        ] {
            let error = read(&[given]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error =
            read(&[("IDEMPOTENT_MODE", "strong"), ("IDEMPOTENT_RETURN_CACHED_RESULT", "true")]);
        assert_eq!(
            error.unwrap_err(),
            "`IDEMPOTENT_MODE` and `IDEMPOTENT_RETURN_CACHED_RESULT` set the same thing; give one of them"
        );
    }

    #[test]
    fn variables_that_are_not_settings_are_passed_over() {
        let others = [("IDEMPOTENT_REQUIRE_INSTALLED", "1"), ("IDEMPOTENT_DISABLED", "1")];
        assert_eq!(read(&others), Ok(Config::default()));
    }

    #[test]
    fn the_environment_wins_over_what_is_beneath_and_leaves_the_rest() {
        let base = Config::new().with_mode(Mode::Strong).with_expire(Duration::from_secs(1));
        let config = base.overlay_vars(vars(&[("IDEMPOTENT_EXPIRE", "2")])).unwrap();
        assert_eq!((config.mode, config.expire), (Mode::Strong, Duration::from_secs(2)));
    }
}
