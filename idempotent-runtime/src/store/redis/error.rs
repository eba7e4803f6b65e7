//! What a failure of Redis means for a verb.

use crate::store::{StoreError, StoreErrorKind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What a failed command says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer, or a connection that leads nowhere: another one is needed.
    Disconnected,
    /// It answers, but takes no writes: a replica, or a master without enough replicas.
    WritesRefused,
    /// It has no room. The command had no effect.
    Full,
    /// The script is not there. The command had no effect.
    NoScript,
    /// It does not know the command or an option of it. The command had no effect.
    UnknownCommand,
    /// The name is in use for something that is not a record.
    WrongType,
    /// The user may not do this. The command had no effect.
    Forbidden,
    Other,
}

pub(super) fn classify(error: &RedisError) -> Failure {
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        return Failure::Disconnected;
    }
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::AuthenticationFailed => return Failure::Forbidden,
        ErrorKind::Server(ServerErrorKind::NoScript) => return Failure::NoScript,
        ErrorKind::Server(ServerErrorKind::NoPerm) => return Failure::Forbidden,
        ErrorKind::Server(ServerErrorKind::ReadOnly) => return Failure::WritesRefused,
        ErrorKind::Server(
            ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain,
        )
        | ErrorKind::ClusterConnectionNotFound => return Failure::Disconnected,
        _ => {}
    }
    match error.code() {
        Some("OOM") => Failure::Full,
        Some("NOREPLICAS") => Failure::WritesRefused,
        Some("WRONGTYPE") => Failure::WrongType,
        Some("NOAUTH" | "WRONGPASS") => Failure::Forbidden,
        // What a script ran into is quoted in its error.
        _ if detail.contains("OOM command not allowed") => Failure::Full,
        _ if detail.contains("READONLY You can't write") => Failure::WritesRefused,
        _ if detail.contains("WRONGTYPE Operation") => Failure::WrongType,
        _ if detail.contains("syntax error") || detail.contains("unknown command") => {
            Failure::UnknownCommand
        }
        _ => Failure::Other,
    }
}

pub(super) fn store_error(error: RedisError) -> StoreError {
    let kind = match classify(&error) {
        Failure::Disconnected | Failure::Other => StoreErrorKind::Unavailable,
        Failure::WritesRefused if error.code() == Some("NOREPLICAS") => {
            StoreErrorKind::NotReplicated
        }
        Failure::WritesRefused => StoreErrorKind::Unavailable,
        Failure::Full => StoreErrorKind::Full,
        Failure::WrongType => StoreErrorKind::Undecodable,
        Failure::NoScript | Failure::UnknownCommand | Failure::Forbidden => {
            StoreErrorKind::Misconfigured
        }
    };
    let text = match kind {
        StoreErrorKind::Undecodable => {
            "the key is in use for something that is not a record".into()
        }
        _ => format!("redis: {error}"),
    };
    StoreError::new(kind, text).with_source(error)
}

pub(super) fn misconfigured(text: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

pub(super) fn unexpected(command: &str) -> StoreError {
    let text = format!("redis: an answer to {command} that no server gives");
    StoreError::new(StoreErrorKind::Unavailable, text)
}
