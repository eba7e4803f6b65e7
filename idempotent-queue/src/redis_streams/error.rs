//! Errors of Redis, as a consumer and a sender see them.

use crate::{PublishError, QueueError};
use redis::{ErrorKind, RedisError};

/// Errors after which another connection may lead to a server that is better off.
const ELSEWHERE: [&str; 4] = ["LOADING", "MASTERDOWN", "MOVED", "READONLY"];

/// Errors of a server that takes nothing at the moment, whatever the message.
const NOT_NOW: [&str; 10] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "READONLY",
    "TRYAGAIN",
];

/// Tells whether an error has this code. Servers before 7.0 quote the error that a script ran into.
pub(super) fn says(error: &RedisError, code: &str) -> bool {
    let is_quoted = || {
        let detail = error.detail().unwrap_or_default();
        detail.starts_with("Error running script") && detail.contains(code)
    };
    error.code() == Some(code) || is_quoted()
}

/// Tells whether the server has not answered, or not in a way that can be read.
pub(super) fn is_unanswered(error: &RedisError) -> bool {
    error.code().is_none() && error.kind() != ErrorKind::AuthenticationFailed
}

/// Tells whether the server cannot be reached, or takes nothing at the moment.
pub(super) fn is_passing(error: &RedisError) -> bool {
    is_unanswered(error) || NOT_NOW.iter().any(|code| says(error, code))
}

/// Tells whether the connection is of no more use.
pub(super) fn ends_connection(error: &RedisError) -> bool {
    is_unanswered(error) || ELSEWHERE.iter().any(|code| says(error, code))
}

/// Tells whether the group, or the stream with it, is gone.
pub(super) fn is_group_missing(error: &RedisError) -> bool {
    says(error, "NOGROUP") || says(error, "UNBLOCKED")
}

/// A remedy that can be typed; empty if there is none.
fn help(error: &RedisError) -> &'static str {
    let table = [
        ("WRONGTYPE", "\nhelp: name a key that is a stream, or that does not exist"),
        ("NOAUTH", "\nhelp: redis://user:password@host"),
        ("WRONGPASS", "\nhelp: check user and password in the address"),
        ("NOPERM", "\nhelp: ACL SETUSER user +@stream +@scripting +info +type ~*"),
        ("MOVED", "\nhelp: use `cluster`, with the addresses of some nodes"),
        ("OOM", "\nhelp: CONFIG SET maxmemory, or trim streams"),
    ];
    let is_meant = |code| match code {
        // The client has read the code.
        "WRONGPASS" => says(error, code) || error.kind() == ErrorKind::AuthenticationFailed,
        _ => says(error, code),
    };
    table.iter().find(|(code, _)| is_meant(code)).map_or("", |(_, help)| help)
}

/// The error for a consumer.
pub(super) fn queue_error(error: &RedisError) -> QueueError {
    QueueError::new(format!("redis: {error}{}", help(error)))
}

/// The error for a sender.
pub(super) fn publish_error(error: &RedisError) -> PublishError {
    let text = format!("redis: {error}{}", help(error));
    if says(error, "WRONGTYPE") {
        PublishError::permanent(text)
    } else if is_passing(error) {
        PublishError::unavailable(text)
    } else {
        PublishError::retryable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PublishErrorKind;

    /// An error as a server sends it.
    fn error(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn an_error_in_a_script_is_that_of_its_command() {
        let quoted = "ERR Error running script (call to f_1): @user_script:3: NOGROUP No such key";
        assert!(is_group_missing(&error(quoted)));
        assert!(is_group_missing(&error("NOGROUP No such key")));
        assert!(is_group_missing(&error("UNBLOCKED the stream key no longer exists")));
        assert!(!is_group_missing(&error("ERR something else")));
    }

    #[test]
    fn a_message_counts_as_failed_only_if_the_server_refused_it() {
        use PublishErrorKind::{Permanent, Retryable, Unavailable};
        let refused = [
            ("WRONGTYPE Operation against a key", Permanent),
            ("OOM command not allowed", Retryable),
            ("NOPERM this user", Retryable),
            ("ERR unknown", Retryable),
            ("LOADING Redis is loading", Unavailable),
            ("READONLY You can't write", Unavailable),
            ("MISCONF Redis is configured", Unavailable),
            ("CLUSTERDOWN The cluster is down", Unavailable),
        ];
        for (line, kind) in refused {
            assert_eq!(publish_error(&error(line)).kind(), kind, "{line}");
        }
        let dropped = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(publish_error(&dropped).kind(), Unavailable);
    }

    #[test]
    fn a_connection_is_kept_after_a_refusal() {
        assert!(!ends_connection(&error("OOM command not allowed")));
        assert!(ends_connection(&error("READONLY You can't write")));
    }
}
