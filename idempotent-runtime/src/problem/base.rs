//! Base addresses of problem types.
//!
//! The `type` of a problem is a URI that clients compare. It is a base and a code: by default
//! `urn:idempotent:problem:in-progress`, which belongs to no host; a service that publishes pages for
//! its clients sets an address of its own.

use super::ProblemType;
use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The base of types that no service has set.
const URN: &str = "urn:idempotent:problem:";

static PROCESS_WIDE: OnceLock<TypeBase> = OnceLock::new();

/// The base address of problem types: an absolute URI to which codes are appended.
///
/// It ends in `/`, `#`, `=` or `:`, so that the code is a part of its own.
///
/// ```
/// use idempotent_runtime::problem::{ProblemType, TypeBase};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let base: TypeBase = "https://shop.example/problems/".parse()?;
/// assert_eq!(base.uri(ProblemType::DUPLICATE), "https://shop.example/problems/duplicate");
/// assert!("https://shop.example/problems".parse::<TypeBase>().is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeBase(Arc<str>);

impl TypeBase {
    /// The base as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URI of a type under this base.
    pub fn uri(&self, kind: ProblemType) -> String {
        format!("{self}{}", kind.code())
    }
}

/// The URI of a type under the base of the process: that of [`set_base`], or
/// `urn:idempotent:problem:`.
pub(super) fn uri(kind: ProblemType) -> String {
    match PROCESS_WIDE.get() {
        Some(base) => base.uri(kind),
        None => format!("{URN}{}", kind.code()),
    }
}

/// Sets the base address of all problems of this process that have none of their own.
///
/// For the start of a service. It reaches what no layer is around: an [`Error`](crate::Error) that a
/// handler returns is a response by itself with the feature `axum`. Without it, types are names
/// such as `urn:idempotent:problem:in-progress`.
///
/// ```
/// use idempotent_runtime::problem;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// problem::set_base("https://shop.example/problems/".parse()?)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Another base was set before, which stays.
pub fn set_base(base: TypeBase) -> Result<(), BaseAlreadySet> {
    let known = PROCESS_WIDE.get_or_init(|| base.clone());
    if *known == base { Ok(()) } else { Err(BaseAlreadySet { known: known.clone() }) }
}

impl FromStr for TypeBase {
    type Err = InvalidTypeBase;

    fn from_str(text: &str) -> Result<Self, InvalidTypeBase> {
        let is_absolute = text.split_once(':').is_some_and(|(scheme, rest)| {
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            is_scheme && !rest.is_empty()
        });
        let is_written_as_uri =
            text.chars().all(|c| c.is_ascii_graphic() && !r#""<>\^`{|}"#.contains(c));
        if is_absolute && is_written_as_uri && text.ends_with(['/', '#', '=', ':']) {
            return Ok(Self(text.into()));
        }
        Err(InvalidTypeBase { text: text.to_owned() })
    }
}

impl fmt::Display for TypeBase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that is no base address of problem types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTypeBase {
    text: String,
}

impl fmt::Display for InvalidTypeBase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the base of problem types cannot be {:?}; accepted: an absolute URI that ends in `/`, \
             `#`, `=` or `:`, such as `https://shop.example/problems/`",
            self.text
        )
    }
}

impl Error for InvalidTypeBase {}

/// The refusal of a second base address for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseAlreadySet {
    known: TypeBase,
}

impl fmt::Display for BaseAlreadySet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the base of problem types is already set to {}", self.known)
    }
}

impl Error for BaseAlreadySet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_an_absolute_uri_that_ends_in_a_separator() {
        for text in [
            "https://shop.example/problems/",
            "https://shop.example/problems#",
            "https://shop.example/problems?code=",
            "urn:shop:problem:",
            "tag:shop.example,2026:",
            URN,
        ] {
            let base: TypeBase = text.parse().unwrap();
            assert_eq!(base.uri(ProblemType::IN_PROGRESS), format!("{text}in-progress"));
        }
        for text in [
            "",
            "/",
            ":",
            "/problems/",
            "//shop.example/",
            "shop.example/problems/",
            "https:",
            "https://shop.example/problems",
            "https://shop.example/the problems/",
            "https://shop.example/größe/",
            "https://shop.example/\n/",
            "https://shop.example/{code}/",
            "1st:problem:",
        ] {
            let error = text.parse::<TypeBase>().unwrap_err();
            assert!(error.to_string().contains(&format!("cannot be {text:?}; accepted: ")));
        }
    }
}
