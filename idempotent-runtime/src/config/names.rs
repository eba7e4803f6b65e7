//! The names of the settings: one list, shared by code, files and the environment.

use super::ConfigError;
use super::settings::FILE_NAMES;

/// The spelling of names, by the place in which they are written.
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

/// A setting, by its name in files: a field of `Config`, or one of the second names that `Config`
/// documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setting(pub(super) &'static str);

impl Setting {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        FILE_NAMES.iter().copied().map(Self)
    }

    /// The name in files.
    pub(super) fn file_name(self) -> &'static str {
        self.0
    }
}

impl Spelling {
    /// The name of a setting in this spelling.
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
        Setting::all().find(|setting| self.name(*setting) == name).ok_or_else(|| {
            let known: Vec<String> = Setting::all().map(|setting| self.name(setting)).collect();
            ConfigError::unknown(name, nearest(name, &known), &known)
        })
    }
}

/// The nearest known name, if its distance is at most a third of its letters.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    // `max_run` in a file is another spelling of `max-run`, with a distance of zero.
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

/// The edit distance: the number of letters to insert, remove or replace.
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
        for setting in Setting::all() {
            for spelling in [Spelling::Code, Spelling::File, Spelling::Env] {
                assert_eq!(spelling.find(&spelling.name(setting)).unwrap(), setting);
            }
        }
        assert_eq!(Spelling::Env.name(Setting("max-run")), "IDEMPOTENT_MAX_RUN");
        assert_eq!(Spelling::Code.name(Setting("max-run")), "max_run");
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
