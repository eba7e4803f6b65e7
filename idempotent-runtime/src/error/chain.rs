//! Errors inside other errors: conversions, and the search for a refusal among causes.

use super::Error;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

impl From<Error> for io::Error {
    /// An [`io::Error`] of the kind [`Other`](io::ErrorKind::Other) around this one, which
    /// [`get_ref`](io::Error::get_ref) gives back. Other kinds have meanings for those who read and
    /// write: some of them make a loop try again at once.
    ///
    /// ```
    /// use idempotent_runtime::{Error, ErrorKind};
    ///
    /// fn kind(error: &std::io::Error) -> Option<ErrorKind> {
    ///     Some(error.get_ref()?.downcast_ref::<Error>()?.kind())
    /// }
    /// # let _ = kind;
    /// ```
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl From<Error> for String {
    /// The text alone, for programs whose errors are texts. Kind and `retry_after` are lost.
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

impl Error {
    /// The refusal in a chain of causes: `error` itself, one of its
    /// [sources](StdError::source), or the content of one.
    ///
    /// ```
    /// use idempotent_runtime::Error;
    ///
    /// fn retry_after(error: &(dyn std::error::Error + 'static)) -> Option<std::time::Duration> {
    ///     Error::find_in(error)?.retry_after()
    /// }
    /// # let _ = retry_after;
    /// ```
    pub fn find_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |&cause| cause.source()).find_map(Self::directly_in)
    }

    /// The refusal that `cause` is or wraps. These wrappers start their chain behind their content.
    fn directly_in<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        let content = |io: &'a io::Error| io.get_ref().and_then(|inner| Self::find_in(inner));
        pointed_at(cause).or_else(|| pointed_at(cause).and_then(content))
    }
}

/// `cause` as an error of this type, or the one that it points at.
fn pointed_at<'a, E: StdError + 'static>(cause: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    cause
        .downcast_ref()
        .or_else(|| cause.downcast_ref::<Box<E>>().map(|boxed| &**boxed))
        .or_else(|| cause.downcast_ref::<Arc<E>>().map(|shared| &**shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::fmt;

    #[derive(Debug)]
    struct Outer<E>(E);

    impl<E: fmt::Debug> fmt::Display for Outer<E> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("outer")
        }
    }

    impl<E: StdError + 'static> StdError for Outer<E> {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    fn refusal() -> Error {
        Error::new(ErrorKind::StoreFull, &"o".into())
    }

    fn kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
        Error::find_in(error).map(Error::kind)
    }

    #[test]
    fn a_refusal_is_found_wherever_it_is_in_the_chain() {
        let found = Some(ErrorKind::StoreFull);
        assert_eq!(kind(&refusal()), found);
        assert_eq!(kind(&Outer(Outer(refusal()))), found);
        assert_eq!(kind(&Outer(Box::new(refusal()))), found);
        assert_eq!(kind(&Outer(Arc::new(refusal()))), found);
        assert_eq!(kind(&io::Error::from(refusal())), found);
        assert_eq!(kind(&Outer(io::Error::other(Outer(refusal())))), found);
        assert_eq!(kind(&Outer(Arc::new(io::Error::from(refusal())))), found);
        assert_eq!(kind(&Outer(Box::new(io::Error::from(refusal())))), found);
        assert_eq!(kind(&Outer(io::Error::other("disk"))), None);
    }

    #[test]
    fn a_text_tells_what_was_refused() {
        let text = String::from(refusal());
        assert_eq!(text, "o: the store is full (the body did not run; may be retried)");
    }
}
