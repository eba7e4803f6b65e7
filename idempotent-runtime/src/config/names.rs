//! The names of the settings: one list, shared by code, files and environment.

use super::ConfigError;

/// Where a name was written, which decides how it is spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `max_run`
    Code,
    /// `max-run`
    File,
    /// `IDEMPOTENT_MAX_RUN`
    Env,
}

pub(super) const ENV_PREFIX: &str = "IDEMPOTENT_";

/// Everything that can be set: the fields of `Config`, then the names that the Java system uses
/// for the same things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    KeyPrefix,
    Expire,
    Mode,
    Message,
    Wait,
    Lease,
    MaxRun,
    RetryInterval,
    Abandon,
    OnStoreError,
    OnUnrecorded,
    BlockRetention,
    MaxValueBytes,
    CleanupInterval,
    MaxConcurrent,
    LogKeys,
    ExpireTime,
    ReturnCachedResult,
    MaxRetryCount,
    RetryIntervalMs,
}

/// The names in files, in the order of [`Setting`].
pub(super) const FILE_NAMES: &[&str] = &[
    "key-prefix",
    "expire",
    "mode",
    "message",
    "wait",
    "lease",
    "max-run",
    "retry-interval",
    "abandon",
    "on-store-error",
    "on-unrecorded",
    "block-retention",
    "max-value-bytes",
    "cleanup-interval",
    "max-concurrent",
    "log-keys",
    "expire-time",
    "return-cached-result",
    "max-retry-count",
    "retry-interval-ms",
];

impl Setting {
    pub(super) const ALL: [Self; FILE_NAMES.len()] = [
        Self::KeyPrefix,
        Self::Expire,
        Self::Mode,
        Self::Message,
        Self::Wait,
        Self::Lease,
        Self::MaxRun,
        Self::RetryInterval,
        Self::Abandon,
        Self::OnStoreError,
        Self::OnUnrecorded,
        Self::BlockRetention,
        Self::MaxValueBytes,
        Self::CleanupInterval,
        Self::MaxConcurrent,
        Self::LogKeys,
        Self::ExpireTime,
        Self::ReturnCachedResult,
        Self::MaxRetryCount,
        Self::RetryIntervalMs,
    ];

    /// The name in files.
    pub(super) fn file_name(self) -> &'static str {
        FILE_NAMES[self as usize]
    }
}

impl Spelling {
    /// The name of a setting, written here.
    pub(super) fn name(self, setting: Setting) -> String {
        let file_name = setting.file_name();
        match self {
            Self::Code => file_name.replace('-', "_"),
            Self::File => file_name.to_owned(),
            Self::Env => format!("{ENV_PREFIX}{}", file_name.replace('-', "_").to_uppercase()),
        }
    }

    /// The setting with this name, or an error that suggests the nearest and lists all.
    pub(super) fn find(self, name: &str) -> Result<Setting, ConfigError> {
        Setting::ALL.into_iter().find(|setting| self.name(*setting) == name).ok_or_else(|| {
            let known: Vec<String> =
                Setting::ALL.iter().map(|setting| self.name(*setting)).collect();
            ConfigError::unknown(name, nearest(name, &known), &known)
        })
    }
}

/// The known name that is at most a third of its letters away.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    // `max_run` in a file is a matter of spelling, not of letters.
    let plain = |name: &str| {
        let name = name.to_lowercase().replace('_', "-");
        name.strip_prefix("idempotent-").map_or(name.clone(), str::to_owned)
    };
    let wanted = plain(name);
    known
        .iter()
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= plain(candidate).len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.clone())
}

/// How many letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_under_its_own_name_in_every_spelling() {
        for (position, setting) in Setting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, position);
            for spelling in [Spelling::Code, Spelling::File, Spelling::Env] {
                assert_eq!(spelling.find(&spelling.name(setting)).unwrap(), setting);
            }
        }
        assert_eq!(Spelling::Env.name(Setting::MaxRun), "IDEMPOTENT_MAX_RUN");
        assert_eq!(Spelling::Code.name(Setting::MaxRun), "max_run");
    }

    #[test]
    fn names_follow_the_variants() {
        for setting in Setting::ALL {
            let kebab = format!("{setting:?}").chars().fold(String::new(), |mut name, c| {
                if c.is_uppercase() && !name.is_empty() {
                    name.push('-');
                }
                name.extend(c.to_lowercase());
                name
            });
            assert_eq!(setting.file_name(), kebab);
        }
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion_and_the_list() {
        let error = Spelling::File.find("expires").unwrap_err();
        assert_eq!(error.field(), "expires");
        assert!(
            error.to_string().starts_with(
                "`expires` is not a setting; did you mean `expire`? known: key-prefix, "
            )
        );
        let suggested = |spelling: Spelling, name: &str| {
            let text = spelling.find(name).unwrap_err().to_string();
            text.split_once("did you mean `")
                .map(|(_, rest)| rest.split('`').next().unwrap().to_owned())
        };
        assert_eq!(suggested(Spelling::File, "max_run"), Some("max-run".into()));
        assert_eq!(suggested(Spelling::File, "retryInterval"), Some("retry-interval".into()));
        assert_eq!(suggested(Spelling::Env, "IDEMPOTENT_LEESE"), Some("IDEMPOTENT_LEASE".into()));
        assert_eq!(suggested(Spelling::File, "colour"), None);
    }
}
