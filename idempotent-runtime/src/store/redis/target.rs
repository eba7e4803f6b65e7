//! Addresses of the servers, and connections to them.

use super::error::{misconfigured, store_error};
use super::master::Generation;
use super::packed::Packed;
use super::sentinel::Sentinel;
use super::turned_away::turned_away;
use crate::store::{StoreError, StoreErrorKind};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    ProtocolVersion, PushInfo, RedisError, RedisFuture, Value,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The servers to connect to, or the connection that the caller handed in.
#[derive(Clone)]
pub(super) enum Target {
    Single(Client),
    Sentinel(Sentinel),
    Cluster(Nodes),
    Given(Box<dyn GivenConnection>),
    GivenCluster(ClusterConnection),
}

/// Some nodes of a cluster.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) tls: Tls,
}

/// The times to wait for a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
}

/// Certificates beyond those of the system.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    #[cfg(feature = "redis-tls")]
    pub(super) certificates: Option<redis::TlsCertificates>,
}

impl Tls {
    pub(super) fn client(&self, info: ConnectionInfo) -> Result<Client, StoreError> {
        #[cfg(feature = "redis-tls")]
        {
            install_crypto();
            if let Some(certificates) = self.certificates.clone() {
                return Client::build_with_tls(info, certificates).map_err(connect_error);
            }
        }
        Client::open(info).map_err(connect_error)
    }

    fn cluster(&self, builder: ClusterClientBuilder) -> ClusterClientBuilder {
        #[cfg(feature = "redis-tls")]
        {
            install_crypto();
            if let Some(certificates) = self.certificates.clone() {
                return builder.certs(certificates);
            }
        }
        builder
    }
}

/// The client panics without one. An application's own choice is left alone.
#[cfg(feature = "redis-tls")]
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Callback for the messages that a server pushes, and for the end of its connection.
pub(super) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// A connection of the caller's own, whatever its type.
pub(super) trait GivenConnection: Send + Sync {
    fn another(&self) -> Box<dyn GivenConnection>;
    fn like(&mut self) -> &mut (dyn ConnectionLike + Send);
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> GivenConnection for C {
    fn another(&self) -> Box<dyn GivenConnection> {
        Box::new(self.clone())
    }

    fn like(&mut self) -> &mut (dyn ConnectionLike + Send) {
        self
    }
}

impl Clone for Box<dyn GivenConnection> {
    fn clone(&self) -> Self {
        (**self).another()
    }
}

/// A connection, to be cloned for each use.
#[derive(Clone)]
pub(super) enum Connection {
    Single(Packed),
    Cluster(ClusterConnection),
    Given(Box<dyn GivenConnection>),
}

impl Connection {
    pub(super) fn command(
        &mut self,
        command: Cmd,
    ) -> impl Future<Output = Result<Value, RedisError>> {
        self.command_to(None, command)
    }

    /// One command, in a cluster to the master of a slot if one is named, and otherwise to that of
    /// its key.
    pub(super) async fn command_to(
        &mut self,
        slot: Option<u16>,
        command: Cmd,
    ) -> Result<Value, RedisError> {
        match (self, slot) {
            (Self::Single(connection), _) => connection.command(command).await,
            (Self::Cluster(connection), None) => connection.req_packed_command(&command).await,
            (Self::Cluster(connection), Some(slot)) => {
                let node = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
                let sent = connection.route_command(command, RoutingInfo::SingleNode(node));
                Box::pin(sent).await
            }
            (Self::Given(connection), _) => connection.like().req_packed_command(&command).await,
        }
        .and_then(Value::extract_error)
    }

    /// Many commands in one go. In a cluster all of them concern one slot.
    pub(super) async fn pipeline(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let count = pipeline.len();
        let sent: RedisFuture<'_, Vec<Value>> = match self {
            Self::Single(connection) => {
                let mut connection = connection.connection();
                Box::pin(async move { connection.send_packed_commands(pipeline, 0, count).await })
            }
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, 0, count),
            Self::Given(connection) => connection.like().req_packed_commands(pipeline, 0, count),
        };
        sent.await
    }
}

/// A connection that was made.
pub(super) struct Connected {
    pub(super) connection: Connection,
    /// Of the master that it leads to; always the same without sentinels.
    pub(super) generation: Generation,
}

impl Target {
    /// Connects on the current runtime.
    pub(super) async fn connect(
        &self,
        timeouts: Timeouts,
        on_push: OnPush,
    ) -> Result<Connected, StoreError> {
        let mut generation = Generation::default();
        let connection = match self {
            Self::Single(client) => {
                Connection::Single(Packed::new(single(client, timeouts, on_push).await?))
            }
            Self::Sentinel(sentinel) => {
                let (master, of) = sentinel.connect(timeouts, on_push).await?;
                generation = of;
                Connection::Single(Packed::new(master))
            }
            Self::Cluster(nodes) => {
                let client = nodes.client(timeouts, on_push)?;
                let connected = client.get_async_connection().await;
                Connection::Cluster(connected.map_err(|error| nodes.unreachable(error))?)
            }
            Self::Given(connection) => Connection::Given(connection.clone()),
            Self::GivenCluster(connection) => Connection::Cluster(connection.clone()),
        };
        Ok(Connected { connection, generation })
    }

    /// The sentinels that name the master.
    pub(super) fn sentinel(&self) -> Option<&Sentinel> {
        match self {
            Self::Sentinel(sentinel) => Some(sentinel),
            _ => None,
        }
    }

    /// `true` if all connections lead to one address.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::GivenCluster(_))
    }

    /// `true` if a command is sent no more than once. The client of a cluster sends again by itself
    /// after an I/O error, and what a connection of the caller's own does is not known.
    pub(super) fn sends_once(&self) -> bool {
        matches!(self, Self::Single(_) | Self::Sentinel(_))
    }

    /// `true` if a connection can be made that receives what the servers publish.
    pub(super) fn can_be_heard(&self) -> bool {
        !matches!(self, Self::Given(_) | Self::GivenCluster(_))
    }

    /// `true` if all that is published arrives while a connection is there. The nodes of a cluster forward
    /// messages to each other on a best-effort basis, and its client subscribes again by itself.
    pub(super) fn tells_all_freed(&self) -> bool {
        matches!(self, Self::Single(_) | Self::Sentinel(_))
    }
}

pub(super) async fn single(
    client: &Client,
    timeouts: Timeouts,
    on_push: OnPush,
) -> Result<MultiplexedConnection, StoreError> {
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeouts.connect))
        .set_response_timeout(Some(timeouts.response));
    if client.get_connection_info().redis_settings().protocol() != ProtocolVersion::RESP2 {
        config = config.set_push_sender(move |info| {
            on_push(info);
            Ok::<_, std::convert::Infallible>(())
        });
    }
    let error = match client.get_multiplexed_async_connection_with_config(&config).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    let address = client.get_connection_info().addr();
    if error.is_connection_dropped()
        && !error.is_connection_refusal()
        && let Some(error) = turned_away(address).await
    {
        return Err(store_error(error));
    }
    Err(unreachable(address, error))
}

impl Nodes {
    fn client(&self, timeouts: Timeouts, on_push: OnPush) -> Result<ClusterClient, StoreError> {
        let [shortest, longest] = retry_waits(timeouts.response);
        // Only the whole of a call is bounded: a part that times out would be sent again.
        let builder = ClusterClientBuilder::new(self.nodes.clone())
            .connection_timeout(timeouts.connect)
            .overall_response_timeout(Some(timeouts.response))
            .retries(CLUSTER_RETRIES)
            .min_retry_wait(shortest)
            .max_retry_wait(longest)
            .connection_concurrency_limit(CLUSTER_CONCURRENCY)
            .tcp_settings(TcpSettings::default().set_nodelay(true))
            .use_protocol(ProtocolVersion::RESP3)
            .push_sender(move |info| {
                on_push(info);
                Ok::<_, std::convert::Infallible>(())
            });
        self.tls.cluster(builder).build().map_err(connect_error)
    }

    /// The client tells apart only in words why none of the nodes can be used.
    fn unreachable(&self, error: RedisError) -> StoreError {
        let text = error.to_string();
        match self.nodes.first() {
            Some(node) if !text.contains("NOAUTH") && !text.contains("WRONGPASS") => {
                unreachable(node.addr(), error)
            }
            _ => connect_error(error),
        }
    }
}

/// The number of times that the client of a cluster sends a command again: after a redirection, a
/// lost connection, or an answer that asks for patience, such as CLUSTERDOWN and TRYAGAIN.
const CLUSTER_RETRIES: u32 = 16;

/// The shortest and the longest pause before a command that was answered so is sent again, in
/// milliseconds. All of them together take half of the time for a call: the caller is then told
/// what the cluster answered. With the client's own pauses, of more than a second each, the time
/// would be over first, and nobody would learn why.
fn retry_waits(response: Duration) -> [u64; 2] {
    let longest = response.as_millis() / (2 * u128::from(CLUSTER_RETRIES));
    let longest = u64::try_from(longest).unwrap_or(u64::MAX).max(2);
    [longest / 2, longest]
}

/// Maximum number of commands of one runtime that are under way to a node at once. More would only
/// queue there.
const CLUSTER_CONCURRENCY: usize = 256;

/// Reads a URL, and sets what this crate needs.
pub(super) fn parse(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|error| {
        let shown = without_password(url);
        let text = if error.to_string().contains("TLS") {
            format!("`{shown}` needs TLS\nhelp: enable the feature `redis-tls`")
        } else {
            format!(
                "`{shown}` is not the address of a redis server\n\
                 help: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path"
            )
        };
        misconfigured(text).with_source(error)
    })?;
    // With the third version of the protocol a server can say that a connection ends.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Ok(info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => {
            format!("{}***{}", &url[..scheme + 3], &url[at..])
        }
        _ => url.to_owned(),
    }
}

/// The error for a connection to `place` that could not be made.
fn unreachable(place: impl fmt::Display, error: RedisError) -> StoreError {
    let text = match error.kind() {
        ErrorKind::Parse => {
            format!("{place} does not speak redis's protocol\nhelp: check host and port")
        }
        _ if error.to_string().contains("invalid peer certificate") => {
            format!("{place} is not trusted: {error}\nhelp: root_certificate(pem)")
        }
        _ if error.to_string().contains("CertificateRequired") => {
            format!("{place} asks for a certificate\nhelp: client_certificate(certificate, key)")
        }
        ErrorKind::Io => {
            let text = format!("{place} cannot be reached: {error}");
            return StoreError::new(StoreErrorKind::Unavailable, text).with_source(error);
        }
        _ => return connect_error(error),
    };
    misconfigured(text).with_source(error)
}

/// The error for a server that cannot be used.
pub(super) fn connect_error(error: RedisError) -> StoreError {
    let text = error.to_string();
    let says = |word: &str| text.contains(word);
    let text = match error.kind() {
        _ if says("NOAUTH") => {
            "the server asks for a password\nhelp: redis://user:password@host, or login()"
                .to_owned()
        }
        _ if says("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed => {
            "the server does not take this user and password\nhelp: check user and password"
                .to_owned()
        }
        _ if says("NOPERM") || error.code() == Some("NOPERM") => {
            format!("{text}\nhelp: let the user run the command")
        }
        ErrorKind::RESP3NotSupported => "the server is too old: it does not know HELLO\n\
             help: use Redis 6.2 or later, or Valkey"
            .to_owned(),
        ErrorKind::InvalidClientConfig => format!("{text}\nhelp: check the address"),
        _ if says("refused to switch database") => {
            "the server does not have this database\nhelp: check its number".to_owned()
        }
        _ if says("cluster support disabled") => {
            "the server is not in a cluster\nhelp: RedisStore::connect(url)".to_owned()
        }
        _ if says("unknown command 'SENTINEL'") || says("unknown command `SENTINEL`") => {
            "the server is not a sentinel\nhelp: give the addresses of sentinels".to_owned()
        }
        _ => return store_error(error),
    };
    misconfigured(text).with_source(error)
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(client) => {
                write!(formatter, "Single({})", client.get_connection_info().addr())
            }
            Self::Sentinel(sentinel) => write!(formatter, "Sentinel({})", sentinel.name),
            Self::Cluster(Nodes { nodes, .. }) => {
                write!(formatter, "Cluster({} nodes)", nodes.len())
            }
            Self::Given(_) | Self::GivenCluster(_) => formatter.write_str("Given"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_named_without_its_password() {
        let error = parse("http://user:secret@host/").unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let text = error.to_string();
        assert!(text.contains("`http://***@host/`"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(parse("not an address").is_err());
    }

    #[test]
    fn only_a_server_of_our_own_connections_tells_of_all_that_is_freed() {
        let info = parse("redis://h/").unwrap();
        assert!(Target::Single(Client::open(info.clone()).unwrap()).tells_all_freed());
        let cluster = Nodes { nodes: vec![info], tls: Tls::default() };
        assert!(!Target::Cluster(cluster).tells_all_freed());
    }

    #[test]
    fn every_kind_of_address_is_read() {
        for url in ["redis://h/", "redis://u:p@h:1/2", "unix:///tmp/s?db=3", "valkey://h"] {
            parse(url).unwrap();
        }
        let info = parse("redis://u:p@h:1/2").unwrap();
        let settings = info.redis_settings();
        assert_eq!((settings.username(), settings.db()), (Some("u"), 2));
    }
}
