//! Servers that evict records are refused, whenever a connection to them is made.
//!
//! A failover, or a node that has taken another one's place, may lead to a server with other
//! settings than the one that was there at connect.

use super::error::misconfigured;
use super::features::field;
use super::target::{Connection, connect_error};
use crate::store::StoreError;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, RedisError, Value};
use std::collections::HashMap;

/// Treatment of servers that evict records when they are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    Refused,
    Allowed,
}

impl Eviction {
    /// Asks every primary that a connection leads to; nothing where eviction is allowed.
    pub(super) async fn check(self, connection: &mut Connection) -> Result<(), StoreError> {
        if self == Self::Allowed {
            return Ok(());
        }
        let answers = match connection {
            Connection::Cluster(cluster) => ask_primaries(cluster).await.map_err(connect_error)?,
            _ => vec![connection.command(info()).await],
        };
        check_answers(answers)
    }

    /// Says once that what was allowed is what the servers do.
    pub(super) fn warn(self, infos: &[String]) {
        let evicts = infos.iter().find_map(|info| evicting(info));
        if let (Self::Allowed, Some(policy)) = (self, evicts) {
            tracing::warn!(
                target: "idempotent", policy,
                "the server evicts records when it is full: what it evicts runs again"
            );
        }
    }
}

fn info() -> Cmd {
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    info
}

/// The policy, if it evicts.
fn evicting(info: &str) -> Option<&str> {
    field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction")
}

/// A primary that does not answer cannot be sent anything else either, and keeps no call from using
/// the others. That none of them answers is an error.
fn check_answers(answers: Vec<Result<Value, RedisError>>) -> Result<(), StoreError> {
    let mut failed = None;
    let mut answered = false;
    for answer in answers {
        match answer {
            Ok(answer) => {
                answered = true;
                info_texts(answer).iter().try_for_each(|info| refuse(info))?;
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if !answered => Err(connect_error(error)),
        _ => Ok(()),
    }
}

fn refuse(info: &str) -> Result<(), StoreError> {
    match evicting(info) {
        None => Ok(()),
        Some(policy) => Err(misconfigured(format!(
            "the server evicts records when it is full (maxmemory-policy is {policy}), and what it \
             evicts runs again\nhelp: CONFIG SET maxmemory-policy noeviction, or allow_eviction()"
        ))),
    }
}

/// Asks each by itself: an answer of all of them at once fails with the first that does not give
/// one.
async fn ask_primaries(
    cluster: &mut ClusterConnection,
) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
    let slots = redis::cmd("CLUSTER").arg("SLOTS").query_async(cluster).await?;
    let each = primaries(slots).into_values().map(|slot| {
        let mut cluster = cluster.clone();
        async move {
            let route = Route::new(slot, SlotAddr::Master);
            let node = SingleNodeRoutingInfo::SpecificNode(route);
            cluster.route_command(info(), RoutingInfo::SingleNode(node)).await
        }
    });
    Ok(super::join(each).await)
}

/// One slot of every primary, by its address.
pub(super) fn primaries(ranges: Vec<Vec<Value>>) -> HashMap<(String, u16), u16> {
    let primary = |range: Vec<Value>| {
        let mut range = range.into_iter();
        let first: u16 = redis::from_redis_value(range.next()?).ok()?;
        // The last slot of the range; then the primary, then its replicas.
        let Value::Array(primary) = range.nth(1)? else { return None };
        let mut primary = primary.into_iter();
        let host: String = redis::from_redis_value(primary.next()?).unwrap_or_default();
        let port: u16 = redis::from_redis_value(primary.next()?).ok()?;
        Some(((host, port), first))
    };
    ranges.into_iter().filter_map(primary).collect()
}

/// The texts in an answer to `INFO`: one of a server, one of each primary of a cluster.
pub(super) fn info_texts(answer: Value) -> Vec<String> {
    match answer {
        Value::BulkString(bytes) => String::from_utf8(bytes).into_iter().collect(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => vec![text],
        Value::Map(nodes) => nodes.into_iter().flat_map(|(_, answer)| info_texts(answer)).collect(),
        _ => Vec::new(),
    }
}
