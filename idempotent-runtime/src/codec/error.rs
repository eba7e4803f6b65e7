//! Error of encoding, decoding, sealing or opening a value.

use crate::causes::unsaid;
use std::{any::Any, error::Error, fmt};

type Source = Box<dyn Error + Send + Sync>;

/// Error of a value that could not be encoded, decoded, encrypted or decrypted.
///
/// Its text never quotes the value. Its [`source`](Error::source) may: errors of serde can contain
/// the text that did not fit.
pub struct CodecError {
    text: String,
    source: Option<Source>,
}

impl CodecError {
    /// Creates an error from a codec's own error or from a text, which becomes the source of the
    /// error that the caller sees.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        Self { text: error.to_string(), source: Some(error) }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), source: None }
    }

    pub(super) fn because(text: impl Into<String>, source: impl Into<Source>) -> Self {
        Self { text: text.into(), source: Some(source.into()) }
    }

    /// Creates an error from a panic in the user's `Serialize` or `Deserialize`, or in a codec.
    pub(super) fn panicked(doing: &str, codec: &str, payload: &(dyn Any + Send)) -> Self {
        let text = format!("{doing} as {codec} panicked");
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self { text, source: message.map(Source::from) }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CodecError {
    /// Same as `Display`, because a `Debug` of the source could show the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CodecError").field(&self.text).finish()
    }
}

impl Error for CodecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        unsaid(&self.text, self.source.as_deref().map(|source| source as _))
    }
}
