//! The error of reading or checking a configuration.

use std::{error::Error, fmt};

/// A setting that was not accepted.
///
/// The text names the setting as it was written, its value, and the values that are accepted.
///
/// ```
/// use std::time::Duration;
/// use idempotent_runtime::Config;
///
/// let error = Config::new().with_expire(Duration::ZERO).validate().unwrap_err();
/// assert_eq!(error.field(), "expire");
/// assert_eq!(
///     error.to_string(),
///     "`expire` cannot be 0s; accepted: whole milliseconds from 1ms to 36500d"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: String,
    text: String,
}

impl ConfigError {
    /// The setting, as the user wrote it: `max_run` in code, `max-run` in a file,
    /// `IDEMPOTENT_MAX_RUN` in the environment.
    pub fn field(&self) -> &str {
        &self.field
    }

    pub(super) fn refused(
        field: impl Into<String>,
        value: impl fmt::Display,
        accepted: impl fmt::Display,
    ) -> Self {
        let field = field.into();
        let text = format!("`{field}` cannot be {value}; accepted: {accepted}");
        Self { field, text }
    }

    pub(super) fn unknown(
        field: impl Into<String>,
        suggestion: Option<String>,
        known: &[String],
    ) -> Self {
        let field = field.into();
        let hint = suggestion.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        let text = format!("`{field}` is not a setting; {hint}known: {}", known.join(", "));
        Self { field, text }
    }

    pub(super) fn both(field: impl Into<String>, other: &str) -> Self {
        let field = field.into();
        let text = format!("`{field}` and `{other}` set the same thing; give one of them");
        Self { field, text }
    }

    pub(super) fn repeated(field: impl Into<String>) -> Self {
        let field = field.into();
        let text = format!("`{field}` is given twice; give it once");
        Self { field, text }
    }

    pub(super) fn not_unicode(field: impl Into<String>) -> Self {
        let field = field.into();
        let text = format!("`{field}` is not valid unicode; accepted: text in UTF-8");
        Self { field, text }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigError").field(&self.text).finish()
    }
}

impl Error for ConfigError {}
