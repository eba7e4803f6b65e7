//! Chains of causes in which no text is repeated.

use std::error::Error as StdError;

/// The first cause whose text is not part of `said`.
///
/// Reports print an error and all its causes in a row. An error whose text includes that of its
/// cause leaves that cause out of its chain, so that no text is printed twice.
pub(crate) fn unsaid<'a>(
    said: &str,
    cause: Option<&'a (dyn StdError + 'static)>,
) -> Option<&'a (dyn StdError + 'static)> {
    std::iter::successors(cause, |&cause| cause.source())
        .find(|cause| !said.contains(&cause.to_string()))
}
