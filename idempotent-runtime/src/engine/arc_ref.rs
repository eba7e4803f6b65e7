//! Shared ownership that is taken only where a value outlives its caller.

use std::ops::Deref;
use std::sync::Arc;

/// An `Arc`, borrowed or owned.
///
/// A call that stays with its caller borrows, so that calls on many threads do not write to one
/// reference count.
#[derive(Debug)]
pub(crate) enum ArcRef<'a, T> {
    Borrowed(&'a Arc<T>),
    Owned(Arc<T>),
}

impl<'a, T> ArcRef<'a, T> {
    /// A part of the value that is shared by itself.
    pub(crate) fn map<U>(&self, part: impl FnOnce(&T) -> &Arc<U>) -> ArcRef<'a, U> {
        match self {
            Self::Borrowed(shared) => ArcRef::Borrowed(part(shared)),
            Self::Owned(shared) => ArcRef::Owned(Arc::clone(part(shared))),
        }
    }
}

impl<T> Deref for ArcRef<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        match self {
            Self::Borrowed(shared) => shared,
            Self::Owned(shared) => shared,
        }
    }
}
