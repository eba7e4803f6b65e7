//! Settings as they were read, before they become a configuration.
//!
//! Files and the environment differ in the source of names and values; their meaning is decided
//! here, once. A configuration that leaves this module is valid.

use std::{collections::BTreeMap, fmt};

use super::{
    Config, ConfigError, Mode,
    bounds::MAX_RETRY_COUNT,
    names::{Setting, Spelling},
    settings,
    values::{Millis, Value},
};

/// A value as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Nothing,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    /// A list or a table, which no setting takes.
    Nested(&'static str),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST_SHOWN: usize = 40;
        match self {
            Self::Nothing => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) if value.chars().count() > LONGEST_SHOWN => {
                let start: String = value.chars().take(LONGEST_SHOWN).collect();
                write!(f, "{start:?}..")
            }
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Nested(kind) => f.write_str(kind),
        }
    }
}

/// The settings that one source gave.
#[derive(Debug)]
pub(super) struct Draft {
    spelling: Spelling,
    given: BTreeMap<Setting, Scalar>,
}

/// Pairs of names that set the same thing. Retries times interval is a `wait`.
const SAME_THING: [(Setting, Setting); 5] = [
    (Setting("expire"), Setting("expire-time")),
    (Setting("mode"), Setting("return-cached-result")),
    (Setting("wait"), Setting("max-retry-count")),
    (Setting("wait"), Setting("retry-interval-ms")),
    (Setting("retry-interval"), Setting("retry-interval-ms")),
];

impl Draft {
    pub(super) fn new(spelling: Spelling) -> Self {
        Self { spelling, given: BTreeMap::new() }
    }

    /// Adds one setting under the name that the user wrote.
    pub(super) fn set(&mut self, name: &str, value: Scalar) -> Result<(), ConfigError> {
        let setting = self.spelling.find(name)?;
        match self.given.insert(setting, value) {
            None => Ok(()),
            Some(_) => Err(ConfigError::repeated(name)),
        }
    }

    /// Applies the settings to `base`, and checks the result.
    pub(super) fn over(self, base: Config) -> Result<Config, ConfigError> {
        for (ours, theirs) in SAME_THING {
            if self.given.contains_key(&ours) && self.given.contains_key(&theirs) {
                return Err(ConfigError::both(self.name(ours), &self.name(theirs)));
            }
        }
        let mut config = base;
        settings::put(&self, &mut config)?;
        self.apply_java_names(&mut config)?;
        settings::check(&config, &|setting| self.name(self.written_as(setting)))?;
        Ok(config)
    }

    fn apply_java_names(&self, config: &mut Config) -> Result<(), ConfigError> {
        put(&mut config.expire, self.read(Setting("expire-time"))?);
        let strong = self.read(Setting("return-cached-result"))?;
        put(&mut config.mode, strong.map(|it| if it { Mode::Strong } else { Mode::Reject }));
        // Retries times interval is the longest wait.
        let retries = self.read::<u32>(Setting("max-retry-count"))?;
        let interval = self.read(Setting("retry-interval-ms"))?.map(|Millis(interval)| interval);
        put(&mut config.retry_interval, interval);
        if retries.is_some() || interval.is_some() {
            let retries = retries.unwrap_or(MAX_RETRY_COUNT);
            config.wait = config.retry_interval.saturating_mul(retries);
        }
        Ok(())
    }

    fn name(&self, setting: Setting) -> String {
        self.spelling.name(setting)
    }

    /// The name under which the user set a field, which may be a second name.
    fn written_as(&self, setting: Setting) -> Setting {
        SAME_THING
            .into_iter()
            .find(|(ours, theirs)| *ours == setting && self.given.contains_key(theirs))
            .map_or(setting, |(_, theirs)| theirs)
    }

    /// The value of a setting, if it was given.
    pub(super) fn read<T: Value>(&self, setting: Setting) -> Result<Option<T>, ConfigError> {
        let Some(given) = self.given.get(&setting) else { return Ok(None) };
        let value = match given {
            Scalar::Text(text) if self.spelling == Spelling::Env && !T::IS_TEXT => typed(text),
            _ => given.clone(),
        };
        match T::read(&value) {
            Some(value) => Ok(Some(value)),
            None => Err(ConfigError::refused(self.name(setting), value, T::accepted())),
        }
    }
}

/// The value of a variable whose setting is not text. Variables are always text, so one that looks
/// like a number or a boolean is read as one.
fn typed(text: &str) -> Scalar {
    match text {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        _ => integer(text).map_or_else(|| Scalar::Text(text.to_owned()), Scalar::Int),
    }
}

/// Reads an integer. Underscores are allowed between and after the digits, as in Rust.
fn integer(text: &str) -> Option<i128> {
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => text.replace('_', "").parse().ok(),
        false => text.parse().ok(),
    }
}

fn put<T>(place: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(settings: &[(&str, Scalar)]) -> Result<Config, ConfigError> {
        let mut draft = Draft::new(Spelling::File);
        for (name, value) in settings {
            draft.set(name, value.clone())?;
        }
        draft.over(Config::new())
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn retries_times_interval_is_the_wait() {
        let both = [("max-retry-count", Scalar::Int(5)), ("retry-interval-ms", Scalar::Int(200))];
        let config = read(&both).unwrap();
        assert_eq!((config.wait, config.retry_interval), (ms(1000), ms(200)));
        let config = read(&both[..1]).unwrap();
        assert_eq!((config.wait, config.retry_interval), (ms(500), ms(100)));
        let config = read(&both[1..]).unwrap();
        assert_eq!((config.wait, config.retry_interval), (ms(600), ms(200)));
    }

    #[test]
    fn no_retries_is_no_wait() {
        assert_eq!(read(&[("max-retry-count", Scalar::Int(0))]).unwrap().wait, ms(0));
    }

    #[test]
    fn our_interval_alone_leaves_the_wait() {
        let config = read(&[("retry-interval", Scalar::Text("50ms".into()))]).unwrap();
        assert_eq!((config.wait, config.retry_interval), (ms(300), ms(50)));
    }

    #[test]
    fn our_interval_counts_for_their_retries() {
        let config = read(&[
            ("retry-interval", Scalar::Text("50ms".into())),
            ("max-retry-count", Scalar::Int(4)),
        ]);
        assert_eq!(config.unwrap().wait, ms(200));
    }

    #[test]
    fn both_names_of_one_thing_are_refused_and_named() {
        for (ours, theirs) in SAME_THING {
            let (ours, theirs) = (ours.file_name(), theirs.file_name());
            let error = read(&[(theirs, Scalar::Int(1)), (ours, Scalar::Int(1))]).unwrap_err();
            let text = format!("`{ours}` and `{theirs}` set the same thing; give one of them");
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn a_value_out_of_range_is_reported_under_the_name_that_was_written() {
        let error = read(&[("expire-time", Scalar::Int(0))]).unwrap_err();
        assert_eq!(error.field(), "expire-time");
        let error = read(&[("retry-interval-ms", Scalar::Int(0))]).unwrap_err();
        assert_eq!(error.field(), "retry-interval-ms");
        let long = [
            ("retry-interval-ms", Scalar::Int(60_000)),
            ("max-retry-count", Scalar::Int(i128::from(u32::MAX))),
        ];
        assert_eq!(read(&long).unwrap_err().field(), "max-retry-count");
    }

    #[test]
    fn a_value_of_the_wrong_kind_says_what_is_accepted() {
        for (name, value, accepted) in [
            ("expire", Scalar::Float(1.5), "a whole number of seconds, or text with a unit"),
            ("expire", Scalar::Int(-5), "a whole number of seconds, or text with a unit"),
            (
                "expire",
                Scalar::Text("300".into()),
                "a whole number of seconds, or text with a unit",
            ),
            ("retry-interval-ms", Scalar::Bool(true), "a whole number of milliseconds"),
            ("mode", Scalar::Bool(true), r#""reject", "strong" or "window""#),
            ("return-cached-result", Scalar::Text("yes".into()), "true or false"),
            ("max-value-bytes", Scalar::Int(-1), "a whole number"),
            ("max-retry-count", Scalar::Int(1 << 40), "a whole number"),
            ("key-prefix", Scalar::Nothing, "text"),
            ("message", Scalar::Nested("a list"), "text"),
        ] {
            let error = read(&[(name, value.clone())]).unwrap_err();
            assert_eq!(error.field(), name);
            let start = format!("`{name}` cannot be {value}; accepted: {accepted}");
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_long_value_is_shortened_in_the_error() {
        let error = read(&[("mode", Scalar::Text("é".repeat(10_000)))]).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }

    #[test]
    fn a_setting_given_twice_is_refused() {
        let error = read(&[("wait", Scalar::Int(1)), ("wait", Scalar::Int(1))]).unwrap_err();
        assert_eq!(error.to_string(), "`wait` is given twice; give it once");
    }
}
