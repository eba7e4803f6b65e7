//! Errors, kinds and runs of bodies in formats of serde.
//!
//! An error is a struct of five fields, all of them present:
//!
//! | field | content |
//! | --- | --- |
//! | `kind` | [`ErrorKind::as_str`] |
//! | `operation` | the operation that was refused |
//! | `message` | the text for the rejected caller; empty for the description of the kind |
//! | `retry_after_ms` | whole milliseconds, rounded up, or null |
//! | `body` | `did_not_run`, `ran` or `unknown` |
//!
//! The key and the causes are left out. Fields and names are only added, and names that this version
//! does not know are read as unknown ones.

use super::{BodyRun, Error, ErrorKind, Inner};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// The number of kinds of errors that this thread has serialized. An error serializes its kind.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
}

/// Runs `write`, and returns with its output whether it serialized an [`Error`] or an [`ErrorKind`].
pub(crate) fn watch<R>(write: impl FnOnce() -> R) -> (R, bool) {
    let before = WRITTEN.get();
    let output = write();
    (output, WRITTEN.get() != before)
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    kind: ErrorKind,
    #[serde(default)]
    operation: Cow<'a, str>,
    #[serde(default)]
    message: Cow<'a, str>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default = "unknown")]
    body: BodyRun,
}

fn unknown() -> BodyRun {
    BodyRun::Unknown
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Inner { kind, operation, message, retry_after, body, .. } = &*self.0;
        let millis = |after: Duration| after.as_nanos().div_ceil(1_000_000);
        let retry_after_ms =
            retry_after.map(|after| u64::try_from(millis(after)).unwrap_or(u64::MAX));
        Wire {
            kind: *kind,
            operation: Cow::Borrowed(operation),
            message: Cow::Borrowed(message),
            retry_after_ms,
            body: *body,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { kind, operation, message, retry_after_ms, body } =
            Wire::deserialize(deserializer)?;
        Ok(Self(Box::new(Inner {
            kind,
            operation: operation.into_owned().into(),
            key: None,
            message: message.into_owned(),
            retry_after: retry_after_ms.map(Duration::from_millis),
            body,
            source: None,
        })))
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITTEN.set(WRITTEN.get().wrapping_add(1));
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for BodyRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

macro_rules! read_by_name {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::named(&Cow::<'de, str>::deserialize(deserializer)?))
            }
        }
    )*};
}

read_by_name! { ErrorKind, BodyRun }

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Error {
        Error::new(ErrorKind::InProgress, &"orders.create".into())
            .with_key("p|orders.create|\"ada@example.com\"".to_owned())
            .with_message("please wait")
            .with_retry_after(Duration::from_micros(1_499_500))
            .with_source(std::io::Error::other("ada@example.com"))
    }

    #[test]
    fn the_wire_form_is_frozen_and_shows_no_key() {
        assert_eq!(
            serde_json::to_string(&refused()).unwrap(),
            r#"{"kind":"in_progress","operation":"orders.create","message":"please wait","retry_after_ms":1500,"body":"did_not_run"}"#
        );
        let bare = Error::new(ErrorKind::Superseded, &"o".into());
        assert_eq!(
            serde_json::to_string(&bare).unwrap(),
            r#"{"kind":"superseded","operation":"o","message":"","retry_after_ms":null,"body":"ran"}"#
        );
    }

    #[test]
    fn an_error_reads_back_as_it_was_told() {
        let text = serde_json::to_string(&refused()).unwrap();
        let read: Error = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read.to_string(),
            "orders.create: in progress: please wait (the body did not run; retry after 1500 ms)"
        );
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[cfg(feature = "msgpack")]
    #[test]
    fn an_error_reads_back_from_message_pack() {
        let bytes = rmp_serde::to_vec(&refused()).unwrap();
        let read: Error = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(read.kind(), ErrorKind::InProgress);
        assert_eq!(read.retry_after(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn all_names_read_back() {
        for kind in ErrorKind::ALL.into_iter().chain([ErrorKind::Unknown]) {
            assert_eq!(ErrorKind::named(kind.as_str()), kind);
        }
        for body in [BodyRun::DidNotRun, BodyRun::Ran, BodyRun::Unknown] {
            assert_eq!(BodyRun::named(body.as_str()), body);
        }
    }

    #[test]
    fn a_newer_version_s_refusal_is_said_to_be_unknown() {
        let text = r#"{"kind":"quarantined","operation":"o","body":"paused","since":7}"#;
        let read: Error = serde_json::from_str(text).unwrap();
        assert_eq!((read.kind(), read.body()), (ErrorKind::Unknown, BodyRun::Unknown));
        assert_eq!(
            read.to_string(),
            "o: refused for a reason that this version does not know \
             (it is unknown whether the body ran; a retry with this key does not help)"
        );
    }

    #[test]
    fn what_serializes_an_error_is_noticed() {
        assert!(watch(|| serde_json::to_string(&[refused()])).1);
        assert!(watch(|| serde_json::to_string(&[ErrorKind::InProgress])).1);
        assert!(!watch(|| serde_json::to_string(&BodyRun::Ran)).1);
        assert!(!watch(|| serde_json::to_string("in_progress")).1);
    }
}
