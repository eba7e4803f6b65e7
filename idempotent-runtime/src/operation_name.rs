//! The stable name of an operation.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The stable name of an operation. Cheap to clone where the attribute made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationName(Cow<'static, str>);

impl OperationName {
    #[cfg(feature = "metrics")]
    pub(crate) fn into_label(self) -> Cow<'static, str> {
        self.0
    }
}

impl<N: Into<Cow<'static, str>>> From<N> for OperationName {
    fn from(name: N) -> Self {
        Self(name.into())
    }
}

impl Deref for OperationName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}
