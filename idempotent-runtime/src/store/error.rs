//! Errors of stores.

use crate::causes::unsaid;
use std::error::Error as StdError;
use std::fmt;

/// Error of a store that could not answer a verb.
#[derive(Debug)]
pub struct StoreError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: StoreErrorKind,
    text: String,
    without_effect: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It did not answer, or not in time. The verb may or may not have taken effect, unless the
    /// error [says that it has not](StoreError::without_effect).
    Unavailable,
    /// It has no room for another record. The verb had no effect.
    Full,
    /// It lost a race against another caller. The verb had no effect; asking again at once is fine.
    Contended,
    /// It took effect, but on fewer replicas than demanded.
    NotReplicated,
    /// The record holds something this version cannot read. The verb had no effect.
    Undecodable,
    /// It is misconfigured: an address, a password, a permission. The verb had no effect.
    Misconfigured,
}

impl StoreErrorKind {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Full => "full",
            Self::Contended => "contended",
            Self::NotReplicated => "not_replicated",
            Self::Undecodable => "undecodable",
            Self::Misconfigured => "misconfigured",
        }
    }

    /// `true` if an error of this kind means that the verb had no effect, whatever else is known.
    fn rules_out_an_effect(self) -> bool {
        match self {
            Self::Full | Self::Contended | Self::Undecodable | Self::Misconfigured => true,
            Self::Unavailable | Self::NotReplicated => false,
        }
    }
}

impl StoreError {
    /// An error of `kind`, with what happened in a few words: lower case, no full stop.
    pub fn new(kind: StoreErrorKind, text: impl Into<String>) -> Self {
        let without_effect = kind.rules_out_an_effect();
        Self(Box::new(Inner { kind, text: text.into(), without_effect, source: None }))
    }

    /// Says that the verb had no effect and will have none: it was never sent, or the server
    /// refused it before it did anything.
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.0.without_effect = true;
        self
    }

    /// Adds what caused it. A cause whose text is part of this error's own is not repeated by
    /// [`source`](StdError::source).
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// `true` if the verb may have taken effect, or may do so later. A verb that cannot have had an
    /// effect need not be taken back.
    pub fn may_have_taken_effect(&self) -> bool {
        !self.0.without_effect
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.text)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        unsaid(&self.0.text, self.0.source.as_deref().map(|source| source as _))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_may_have_had_an_effect_unless_its_kind_or_its_maker_rules_that_out() {
        let error = |kind| StoreError::new(kind, "text");
        assert!(error(StoreErrorKind::Unavailable).may_have_taken_effect());
        assert!(error(StoreErrorKind::NotReplicated).may_have_taken_effect());
        assert!(!error(StoreErrorKind::Full).may_have_taken_effect());
        assert!(!error(StoreErrorKind::Contended).may_have_taken_effect());
        assert!(!error(StoreErrorKind::Undecodable).may_have_taken_effect());
        assert!(!error(StoreErrorKind::Misconfigured).may_have_taken_effect());
        assert!(!error(StoreErrorKind::Unavailable).without_effect().may_have_taken_effect());
    }
}
