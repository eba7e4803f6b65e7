//! The servers of a stream, and connections to them.

use crate::QueueError;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::Slot;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisFuture,
    RedisResult, Value,
};
use std::fmt;
use std::time::Duration;

/// The servers of a stream.
#[derive(Clone)]
pub(super) enum Servers {
    Single(Box<Client>),
    Cluster(Vec<ConnectionInfo>),
}

impl Servers {
    pub(super) fn single(url: &str) -> Result<Self, QueueError> {
        install_crypto();
        Client::open(parse(url)?)
            .map(|client| Self::Single(Box::new(client)))
            .map_err(|error| wrong_address(url, &error))
    }

    pub(super) fn cluster<U: AsRef<str>>(
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<Self, QueueError> {
        install_crypto();
        let nodes: Vec<_> =
            nodes.into_iter().map(|url| parse(url.as_ref())).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            let text =
                "no node of the cluster is named\nhelp: cluster([\"redis://10.0.0.1:7000\"])";
            return Err(QueueError::new(text));
        }
        Ok(Self::Cluster(nodes))
    }

    /// Connects on the current runtime. `answer` is the time that a command may take.
    pub(super) async fn connect(
        &self,
        connect: Duration,
        answer: Duration,
    ) -> RedisResult<Connection> {
        match self {
            Self::Single(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(connect))
                    .set_response_timeout(Some(answer));
                let connected = client.get_multiplexed_async_connection_with_config(&config).await;
                connected.map(Connection::Single)
            }
            Self::Cluster(nodes) => {
                let client = ClusterClientBuilder::new(nodes.iter().cloned())
                    .connection_timeout(connect)
                    .response_timeout(answer)
                    .build()?;
                client.get_async_connection().await.map(Connection::Cluster)
            }
        }
    }

    /// Tells whether one script can write both keys.
    pub(super) fn are_together(&self, one: &str, other: &str) -> bool {
        matches!(self, Self::Single(_)) || Slot::for_key(one) == Slot::for_key(other)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(client) => {
                write!(formatter, "Single({})", client.get_connection_info().addr())
            }
            Self::Cluster(nodes) => write!(formatter, "Cluster({} nodes)", nodes.len()),
        }
    }
}

fn parse(url: &str) -> Result<ConnectionInfo, QueueError> {
    url.into_connection_info().map_err(|error| wrong_address(url, &error))
}

/// The error for an address, which it shows without user and password.
fn wrong_address(url: &str, error: &redis::RedisError) -> QueueError {
    let shown = match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => {
            format!("{}***{}", &url[..scheme + 3], &url[at..])
        }
        _ => url.to_owned(),
    };
    QueueError::new(format!(
        "`{shown}` is not the address of a redis server: {error}\nhelp: redis://user:password@host:6379/0"
    ))
}

/// The client panics without one. An application's own choice is left alone.
fn install_crypto() {
    #[cfg(feature = "redis-streams-tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A connection, to be cloned for each use.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_named_without_its_password() {
        let text = Servers::single("http://user:secret@host/").unwrap_err().to_string();
        assert!(text.contains("`http://***@host/`") && !text.contains("secret"), "{text}");
        assert!(Servers::cluster(["nowhere"]).is_err());
        assert!(Servers::cluster([""; 0]).is_err());
    }

    #[test]
    fn keys_of_a_cluster_are_together_in_one_slot() {
        let cluster = Servers::cluster(["redis://h"]).unwrap();
        assert!(cluster.are_together("{orders}", "{orders}:dead"));
        assert!(!cluster.are_together("orders", "orders:dead"));
        assert!(Servers::single("redis://h").unwrap().are_together("orders", "orders:dead"));
    }
}
