//! Why a store could not answer.

use std::error::Error as StdError;
use std::fmt;

/// Why a store could not answer.
#[derive(Debug)]
pub struct StoreError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: StoreErrorKind,
    text: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of trouble a store is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It did not answer, or not in time. The verb may or may not have taken effect.
    Unavailable,
    /// It has no room for another record. The verb had no effect.
    Full,
    /// It lost a race against another caller. The verb had no effect; asking again at once is fine.
    Contended,
    /// It took effect, but on fewer replicas than demanded.
    NotReplicated,
    /// The record holds something this version cannot read. The verb had no effect.
    Undecodable,
    /// It is set up wrongly: an address, a password, a permission. The verb had no effect.
    Misconfigured,
}

impl StoreError {
    /// An error of `kind`, with what happened in a few words: lower case, no full stop.
    pub fn new(kind: StoreErrorKind, text: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, text: text.into(), source: None }))
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.text)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
