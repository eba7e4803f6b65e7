//! The look at a server before the first delivery.

use super::error::{is_passing, queue_error, says};
use super::group::Group;
use super::settings::Settings;
use crate::{PrepareError, QueueError};
use redis::{RedisError, Value, cmd};

/// The oldest server with what scripts here ask for: an exclusive start of `XPENDING`, and idle times.
const OLDEST: (u32, u32) = (6, 2);

/// Looks at the server and at the keys, and creates the group.
pub(super) async fn check(group: &Group) -> Result<(), PrepareError> {
    let Settings { stream, dead_letters, parked, begin, .. } = &group.settings;
    match group.look(&cmd("INFO")).await {
        Ok(info) => {
            for info in texts(info) {
                check_info(&info, stream).map_err(PrepareError::Refused)?;
            }
        }
        Err(error) if says(&error, "NOPERM") => {
            tracing::debug!(target: "idempotent", %error, "the server is not checked");
        }
        Err(error) => return Err(prepare_error(&error)),
    }
    for key in [stream, dead_letters, parked] {
        let answer =
            group.look(cmd("TYPE").arg(key)).await.map_err(|error| prepare_error(&error))?;
        let kind: String = redis::from_redis_value(answer).unwrap_or_default();
        if !["none", "stream"].contains(&&*kind) {
            return Err(PrepareError::Refused(QueueError::new(format!(
                "the key `{key}` is a {kind}, not a stream\n\
                 help: name another key, or look at it with TYPE {key}"
            ))));
        }
    }
    group.create(begin).await.map_err(|error| prepare_error(&error))
}

fn prepare_error(error: &RedisError) -> PrepareError {
    match is_passing(error) && !says(error, "MOVED") {
        true => PrepareError::Unavailable(queue_error(error)),
        false => PrepareError::Refused(queue_error(error)),
    }
}

/// Refuses a server that is too old, and warns of one that may evict the stream.
fn check_info(info: &str, stream: &str) -> Result<(), QueueError> {
    let version = field(info, "redis_version").unwrap_or_default();
    if let Some(number) = number(version)
        && number < OLDEST
    {
        let (major, minor) = OLDEST;
        return Err(QueueError::new(format!(
            "the server is redis {version}, which is too old\n\
             help: use Redis {major}.{minor} or later, or Valkey"
        )));
    }
    let policy = field(info, "maxmemory_policy").unwrap_or_default();
    if policy.starts_with("allkeys-") && field(info, "maxmemory") != Some("0") {
        tracing::warn!(
            target: "idempotent", stream, policy,
            "the server evicts streams when it is full: set maxmemory-policy to noeviction"
        );
    }
    Ok(())
}

/// The first two numbers of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The texts in an answer to `INFO`: one of a server, one of each primary of a cluster.
fn texts(answer: Value) -> Vec<String> {
    match answer {
        Value::BulkString(bytes) => String::from_utf8(bytes).into_iter().collect(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => vec![text],
        Value::Map(nodes) => nodes.into_iter().flat_map(|(_, answer)| texts(answer)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_the_commands_is_refused() {
        for version in ["5.0.14", "6.0.16", "3.2.1"] {
            let text = check_info(&format!("redis_version:{version}\r\n"), "orders").unwrap_err();
            let text = text.to_string();
            assert!(text.contains(version) && text.contains("help: use Redis 6.2"), "{text}");
        }
        for version in ["6.2.0", "7.2.4", "10.0.1", "unstable"] {
            check_info(&format!("redis_version:{version}\r\n"), "orders").unwrap();
        }
    }
}
