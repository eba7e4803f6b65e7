//! Configuration in files, through serde: JSON, TOML, YAML and other self-describing formats.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
    ser::Error as _,
};

use super::{
    Config,
    draft::{Draft, Scalar},
    names::Spelling,
    settings::{self, FILE_NAMES},
};

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Config", FILE_NAMES, ConfigVisitor)
    }
}

struct ConfigVisitor;

impl<'de> Visitor<'de> for ConfigVisitor {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let mut draft = Draft::new(Spelling::File);
        while let Some(name) = map.next_key::<String>()? {
            draft.set(&name, map.next_value()?).map_err(A::Error::custom)?;
        }
        draft.over(Config::default()).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Accepts any value. The draft knows the type of each setting, and names the setting in its error.
struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, text, true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Scalar, E> {
        Ok(Scalar::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_none<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        Scalar::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested("a table"))
    }
}

impl Serialize for Config {
    /// Writes a form that reads back as the same configuration; fails if the configuration is
    /// invalid.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.validate().map_err(S::Error::custom)?;
        settings::write(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde::de::value::{Error as ValueError, MapDeserializer};

    use super::*;
    use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};

    fn json(text: &str) -> Result<Config, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(json("{}"), Ok(Config::default()));
    }

    #[test]
    fn our_names_are_read() {
        let read = json(
            r#"{
                "key-prefix": "shop:", "expire": "24h", "mode": "strong", "message": "once only",
                "wait": 2, "lease": "10s", "max-run": "5m", "retry-interval": "50ms",
                "abandon": "block", "on-store-error": "run", "on-unrecorded": "error",
                "block-retention": "3d",
                "max-value-bytes": 4096, "cleanup-interval": 60, "max-concurrent": 10000,
                "log-keys": true
            }"#,
        );
        let expected = Config::new()
            .with_key_prefix("shop:")
            .with_expire(Duration::from_secs(86_400))
            .with_mode(Mode::Strong)
            .with_message("once only")
            .with_wait(Duration::from_secs(2))
            .with_lease(Duration::from_secs(10))
            .with_max_run(Duration::from_secs(300))
            .with_retry_interval(Duration::from_millis(50))
            .with_abandon(Abandon::Block)
            .with_on_store_error(OnStoreError::Run)
            .with_on_unrecorded(OnUnrecorded::Error)
            .with_block_retention(Duration::from_secs(3 * 86_400))
            .with_max_value_bytes(4096)
            .with_cleanup_interval(Duration::from_secs(60))
            .with_max_concurrent(10_000)
            .with_log_keys(true);
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn the_names_of_the_java_system_are_read() {
        let read = json(
            r#"{
                "key-prefix": "idempotent:token:", "expire-time": 600, "return-cached-result": true,
                "max-retry-count": 10, "retry-interval-ms": 20
            }"#,
        );
        let expected = Config::new()
            .with_expire(Duration::from_secs(600))
            .with_mode(Mode::Strong)
            .with_wait(Duration::from_millis(200))
            .with_retry_interval(Duration::from_millis(20));
        assert_eq!(read, Ok(expected));
        assert_eq!(json(r#"{"return-cached-result": false}"#).unwrap().mode, Mode::Reject);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, expected) in [
            (r#"{"expires": 5}"#, "`expires` is not a setting; did you mean `expire`? known: "),
            (r#"{"expire": 5, "expire-time": 5}"#, "`expire` and `expire-time` set the same thing"),
            (r#"{"expire": 0}"#, "`expire` cannot be 0s; accepted: whole milliseconds from 1ms"),
            (r#"{"expire": [5]}"#, "`expire` cannot be a list; accepted: "),
            (r#"{"lease": {"secs": 5}}"#, "`lease` cannot be a table; accepted: "),
            (r#"{"wait": 1, "wait": 2}"#, "`wait` is given twice"),
        ] {
            let error = json(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn null_is_no_bound_and_nothing_else() {
        assert_eq!(json(r#"{"max-concurrent": null}"#).unwrap().max_concurrent, None);
        assert!(json(r#"{"expire": null}"#).unwrap_err().starts_with("`expire` cannot be null"));
    }

    #[test]
    fn signed_integers_are_read_as_toml_gives_them() {
        let map = MapDeserializer::<_, ValueError>::new([("expire", 60_i64)].into_iter());
        assert_eq!(Config::deserialize(map).unwrap().expire, Duration::from_secs(60));
    }

    #[test]
    fn it_can_be_part_of_a_larger_file() {
        #[derive(Deserialize)]
        struct Settings {
            port: u16,
            #[serde(default)]
            idempotency: Config,
        }
        let text = r#"{"port": 80, "idempotency": {"mode": "window"}}"#;
        let settings: Settings = serde_json::from_str(text).unwrap();
        assert_eq!((settings.port, settings.idempotency.mode), (80, Mode::Window));
        let settings: Settings = serde_json::from_str(r#"{"port": 80}"#).unwrap();
        assert_eq!(settings.idempotency, Config::default());
    }

    #[test]
    fn an_invalid_configuration_is_not_written() {
        let config = Config::new().with_expire(Duration::ZERO);
        assert!(serde_json::to_string(&config).is_err());
    }

    #[test]
    fn every_field_is_written() {
        let written = serde_json::to_value(Config::new().with_max_concurrent(5)).unwrap();
        let written: Vec<&String> = written.as_object().unwrap().keys().collect();
        let mut fields = FILE_NAMES[..settings::DOCUMENTED.len()].to_vec();
        fields.sort_unstable();
        let mut names: Vec<&str> = written.into_iter().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, fields);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            expire in 1..3_000_000_000_000_u64,
            lease in 10..=3_600_000_u64,
            prefix in "[^\\p{Cc}]{1,60}",
            message in any::<String>(),
            mode in prop::sample::select(vec![Mode::Reject, Mode::Strong, Mode::Window]),
            max_concurrent in prop::option::of(1..usize::MAX),
            log_keys in any::<bool>(),
        ) {
            let config = Config::new()
                .with_expire(Duration::from_millis(expire))
                .with_lease(Duration::from_millis(lease))
                .with_key_prefix(prefix)
                .with_message(message)
                .with_mode(mode)
                .with_max_concurrent(max_concurrent)
                .with_log_keys(log_keys);
            let text = serde_json::to_string(&config).unwrap();
            prop_assert_eq!(json(&text), Ok(config));
        }
    }
}
