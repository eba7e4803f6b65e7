//! The switch that turns an instance off, for local runs.
//!
//! The program turns an instance off, or allows the environment to do so. The environment alone has
//! no effect: a forgotten variable must not remove the protection of a service.

use std::ffi::OsStr;
use std::fmt;

/// Environment variable that makes attributed functions refuse to run until an instance is
/// installed. It counts as set unless it is empty or `0`.
pub const REQUIRE_INSTALLED: &str = "IDEMPOTENT_REQUIRE_INSTALLED";

/// Environment variable that turns off an instance if it is `1` or `true` and the builder [allows
/// it](crate::instance::Builder::allow_disable_by_env).
pub const DISABLED: &str = "IDEMPOTENT_DISABLED";

/// Protection of bodies against duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    On,
    Off,
}

/// Settings of the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switch {
    pub(crate) disabled: bool,
    pub(crate) env_allowed: bool,
}

/// Error of a variable that is neither on nor off.
#[derive(Debug)]
pub(crate) struct Unclear;

impl fmt::Display for Unclear {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{DISABLED}` is set to something else than 1, true, 0 or false")
    }
}

impl std::error::Error for Unclear {}

impl Switch {
    /// Decides, given the variable. An unclear value is an error only if the variable has an
    /// effect.
    pub(crate) fn decide(self, variable: Option<&OsStr>) -> Result<Protection, Unclear> {
        if self.disabled {
            return Ok(Protection::Off);
        }
        match (self.env_allowed, read(variable)) {
            (true, wanted) => wanted,
            (false, Ok(Protection::On)) => Ok(Protection::On),
            (false, _) => {
                tracing::warn!(
                    target: "idempotent", variable = DISABLED,
                    "the variable is ignored: the instance does not allow it"
                );
                Ok(Protection::On)
            }
        }
    }
}

fn read(variable: Option<&OsStr>) -> Result<Protection, Unclear> {
    match variable.map(OsStr::to_str) {
        None | Some(Some("" | "0" | "false")) => Ok(Protection::On),
        Some(Some("1" | "true")) => Ok(Protection::Off),
        Some(_) => Err(Unclear),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(switch: Switch, variable: Option<&str>) -> Option<Protection> {
        switch.decide(variable.map(OsStr::new)).ok()
    }

    const ON: Option<Protection> = Some(Protection::On);
    const OFF: Option<Protection> = Some(Protection::Off);

    #[test]
    fn the_environment_turns_nothing_off_by_itself() {
        for value in [None, Some(""), Some("0"), Some("1"), Some("true"), Some("nonsense")] {
            assert_eq!(decide(Switch::default(), value), ON, "{value:?}");
        }
    }

    #[test]
    fn a_program_that_allows_it_leaves_the_choice_to_the_environment() {
        let allowed = Switch { env_allowed: true, ..Switch::default() };
        for value in [None, Some(""), Some("0"), Some("false")] {
            assert_eq!(decide(allowed, value), ON, "{value:?}");
        }
        for value in ["1", "true"] {
            assert_eq!(decide(allowed, Some(value)), OFF, "{value}");
        }
        for value in ["yes", "TRUE", " 1", "2"] {
            assert_eq!(decide(allowed, Some(value)), None, "{value}");
        }
    }

    #[test]
    fn a_program_can_turn_it_off_whatever_the_environment_says() {
        for env_allowed in [false, true] {
            for value in [None, Some("0"), Some("nonsense")] {
                assert_eq!(decide(Switch { disabled: true, env_allowed }, value), OFF);
            }
        }
    }
}
