//! Settings with a fixed set of values.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, ser::SerializeStruct};

use super::{ConfigError, draft::Scalar, values::Value};

/// Declares an enum whose variants have one text form, shared by `as_str`, `Display`, `FromStr`
/// and serde.
macro_rules! choice {
    (
        $(#[$docs:meta])*
        $name:ident, $field:literal {
            $($(#[$variant_docs:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_docs])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// The name of the value in files, in environment variables and in the attribute.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            const ACCEPTED: &'static [&'static str] = &[$($text),+];
        }

        impl Value for $name {
            const IS_TEXT: bool = true;

            fn read(value: &Scalar) -> Option<Self> {
                match value {
                    Scalar::Text(text) => text.parse().ok(),
                    _ => None,
                }
            }

            fn accepted() -> String {
                one_of(Self::ACCEPTED)
            }

            fn write<S: SerializeStruct>(
                &self,
                name: &'static str,
                out: &mut S,
            ) -> Result<(), S::Error> {
                out.serialize_field(name, self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = ConfigError;

            fn from_str(text: &str) -> Result<Self, ConfigError> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(ConfigError::refused($field, format!("{text:?}"), Self::accepted())),
                }
            }
        }
    };
}

choice! {
    /// The answer to a duplicate call.
    ///
    /// ```
    /// use idempotent_runtime::Mode;
    ///
    /// assert_eq!("strong".parse::<Mode>().unwrap(), Mode::Strong);
    /// assert_eq!(Mode::Window.as_str(), "window");
    /// ```
    Mode, "mode" {
        /// A duplicate is refused at once, with the configured message.
        Reject = "reject",
        /// A duplicate gets the answer of the first call, and waits for it if necessary.
        Strong = "strong",
        /// One call per time window: the key is taken for `expire`, however the call ends.
        Window = "window",
    }
}

choice! {
    /// The treatment of a key whose attempt began and then vanished: it was dropped, it panicked,
    /// or its lease ran out.
    ///
    /// ```
    /// use idempotent_runtime::{Abandon, Config, Error, idempotent};
    ///
    /// #[idempotent(key = "transfer", abandon = "block")]
    /// async fn wire(transfer: u64) -> Result<(), Error> { Ok(()) }
    ///
    /// // For all functions that do not say it themselves:
    /// let config = Config::new().with_abandon(Abandon::Block);
    /// # drop((config, wire));
    /// ```
    Abandon, "abandon" {
        /// The next call runs the body again.
        Retry = "retry",
        /// The outcome is unknown, and calls are refused until an operator resolves the key.
        Block = "block",
    }
}

choice! {
    /// The behaviour of a call when the store does not answer.
    ///
    /// ```
    /// use idempotent_runtime::{Error, OnStoreError, idempotent};
    ///
    /// #[idempotent(key = "id", on_store_error = "run")]
    /// async fn send_newsletter(id: u64) -> Result<(), Error> { Ok(()) }
    ///
    /// assert_eq!("run".parse::<OnStoreError>()?, OnStoreError::Run);
    /// # drop(send_newsletter);
    /// # Ok::<(), idempotent_runtime::config::ConfigError>(())
    /// ```
    OnStoreError, "on_store_error" {
        /// The call fails and the body does not run.
        Refuse = "refuse",
        /// The body runs without protection against duplicates.
        Run = "run",
    }
}

choice! {
    /// The answer to a caller whose value the store has not acknowledged.
    ///
    /// ```
    /// use idempotent_runtime::{Error, OnUnrecorded, idempotent};
    ///
    /// #[idempotent(key = "id", mode = "strong", on_unrecorded = "error")]
    /// async fn issue_receipt(id: u64) -> Result<u64, Error> { Ok(id) }
    ///
    /// assert_eq!("error".parse::<OnUnrecorded>()?, OnUnrecorded::Error);
    /// # drop(issue_receipt);
    /// # Ok::<(), idempotent_runtime::config::ConfigError>(())
    /// ```
    OnUnrecorded, "on_unrecorded" {
        /// The value. [`Outcome::recorded`](crate::Outcome::recorded) says that it is not recorded.
        Value = "value",
        /// An error of the kind [`Unrecorded`](crate::ErrorKind::Unrecorded), which says that the
        /// body ran.
        Error = "error",
    }
}

/// Joins names for an error message: `"a", "b" or "c"`.
fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_reads_back_its_own_name() {
        for name in Mode::ACCEPTED {
            assert_eq!(name.parse::<Mode>().unwrap().as_str(), *name);
        }
        for name in Abandon::ACCEPTED {
            assert_eq!(name.parse::<Abandon>().unwrap().as_str(), *name);
        }
        for name in OnStoreError::ACCEPTED {
            assert_eq!(name.parse::<OnStoreError>().unwrap().as_str(), *name);
        }
        for name in OnUnrecorded::ACCEPTED {
            assert_eq!(name.parse::<OnUnrecorded>().unwrap().as_str(), *name);
        }
    }

    #[test]
    fn serde_uses_the_same_names() {
        assert_eq!(serde_json::to_string(&Mode::Strong).unwrap(), "\"strong\"");
        assert_eq!(serde_json::from_str::<Abandon>("\"block\"").unwrap(), Abandon::Block);
        assert_eq!(serde_json::to_string(&OnStoreError::Run).unwrap(), "\"run\"");
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_alternatives() {
        let error = "Strong".parse::<Mode>().unwrap_err();
        assert_eq!(error.field(), "mode");
        assert_eq!(
            error.to_string(),
            r#"`mode` cannot be "Strong"; accepted: "reject", "strong" or "window""#
        );
    }
}
