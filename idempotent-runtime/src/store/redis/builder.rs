//! The builder of a [`RedisStore`].

use super::RedisStore;
use super::error::{Failure, classify, misconfigured};
use super::eviction::{Eviction, info_texts};
use super::features::{Features, ServerVersion, field};
use super::links::{Failed, Links};
use super::master::Master;
use super::replication::Replication;
use super::sentinel::Sentinel;
use super::server::{Publish, Server};
use super::target::{GivenConnection, Nodes, Target, Timeouts, Tls, connect_error, parse};
use super::wakes::Wakes;
use crate::store::StoreError;
use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionAddr, ConnectionInfo};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Builder of a [`RedisStore`]: its servers, the ways to reach them, and the demands on them.
///
/// ```no_run
/// use idempotent_runtime::store::RedisStore;
/// use std::time::Duration;
///
/// # async fn connect() -> Result<(), idempotent_runtime::store::StoreError> {
/// let store = RedisStore::builder("redis://app:secret@redis.internal/2")
///     .timeout(Duration::from_secs(1))
///     .replication(1, Duration::from_millis(200))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is connected until `connect`"]
pub struct RedisBuilder {
    place: Result<Place, StoreError>,
    login: Login,
    timeouts: Timeouts,
    replication: Option<Replication>,
    eviction: Eviction,
    tls: Tls,
}

/// The servers as the caller named them: by addresses, or by a connection.
enum Place {
    Single(ConnectionInfo),
    Cluster(Vec<ConnectionInfo>),
    Sentinel { master: String, sentinels: Vec<ConnectionInfo> },
    Given(Box<dyn GivenConnection>),
    GivenCluster(ClusterConnection),
}

/// Credentials and database, for addresses that do not name them.
#[derive(Default)]
struct Login {
    user: Option<String>,
    password: Option<String>,
    database: Option<i64>,
}

const TIMEOUT: Duration = Duration::from_secs(2);

impl RedisBuilder {
    fn new(place: Result<Place, StoreError>) -> Self {
        Self {
            place,
            login: Login::default(),
            timeouts: Timeouts { connect: TIMEOUT, response: TIMEOUT },
            replication: None,
            eviction: Eviction::Refused,
            tls: Tls::default(),
        }
    }

    pub(super) fn single(url: &str) -> Self {
        Self::new(parse(url).map(Place::Single))
    }

    pub(super) fn cluster<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Self {
        Self::new(parse_all(urls, "node").map(Place::Cluster))
    }

    pub(super) fn sentinel<U: AsRef<str>>(master: &str, urls: impl IntoIterator<Item = U>) -> Self {
        let master = master.to_owned();
        let sentinels = parse_all(urls, "sentinel");
        Self::new(sentinels.map(|sentinels| Place::Sentinel { master, sentinels }))
    }

    pub(super) fn given(connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> Self {
        // Told apart, since what is sent in one go reaches one slot only.
        let cluster = (&connection as &dyn Any).downcast_ref::<ClusterConnection>();
        Self::new(Ok(match cluster {
            Some(cluster) => Place::GivenCluster(cluster.clone()),
            None => Place::Given(Box::new(connection)),
        }))
    }

    /// The time that a server may take to answer, and to accept a connection. Two seconds by
    /// default.
    ///
    /// A command that was not answered in time may have taken effect all the same. The connection
    /// it was sent on is replaced. Leases should be three times as long: an instance warns of one
    /// that is shorter than this.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts = Timeouts { connect: timeout, response: timeout };
        self
    }

    /// The user and password of the master behind sentinels, or of the nodes of a cluster, where
    /// the addresses do not name them.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login.user = Some(user.into());
        self.login.password = Some(password.into());
        self
    }

    /// The number of the database; 0 if neither this nor the address says another.
    pub fn database(mut self, database: i64) -> Self {
        self.login.database = Some(database);
        self
    }

    /// A grant, a renewal and an answer count only when so many replicas have them. A grant that
    /// does not count is refused with `NotReplicated`: its body does not run, and the key is
    /// released.
    ///
    /// With as many as may be promoted, a failover loses nothing; calls are refused while one of
    /// them is down. With fewer it narrows the window in which a failover forgets, and does not
    /// close it: the replica that is promoted need not be one of those that confirmed. It costs the
    /// time that replicas need, on the connection that all callers of a runtime share.
    pub fn replication(mut self, replicas: usize, timeout: Duration) -> Self {
        self.replication = (replicas > 0).then_some(Replication { replicas, timeout });
        self
    }

    /// Accepts servers that evict records when they are full. Evicted records are forgotten: bodies
    /// whose answers are evicted run again. Without this, such a server is refused whenever a
    /// connection to it is made.
    pub fn allow_eviction(mut self) -> Self {
        self.eviction = Eviction::Allowed;
        self
    }

    /// Trusts this certificate authority, in PEM, rather than those of the system.
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        let client_tls = self.tls.certificates.take().and_then(|it| it.client_tls);
        let root_cert = Some(pem.into());
        self.tls.certificates = Some(redis::TlsCertificates { client_tls, root_cert });
        self
    }

    /// Shows this certificate and key, in PEM, to servers that ask for one.
    #[cfg(feature = "redis-tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        let root_cert = self.tls.certificates.take().and_then(|it| it.root_cert);
        let client_tls = Some(redis::ClientTlsConfig {
            client_cert: certificate.into(),
            client_key: key.into(),
        });
        self.tls.certificates = Some(redis::TlsCertificates { client_tls, root_cert });
        self
    }

    /// Connects, inspects the server, and chooses commands that it supports.
    ///
    /// # Errors
    /// [`StoreErrorKind::Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if it can
    /// never work like this: a wrong address, password or protocol, a server that is too old or
    /// evicts records. [`Unavailable`](crate::store::StoreErrorKind::Unavailable) if nobody answers.
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let Self { place, login, timeouts, replication, eviction, tls } = self;
        let links = Links::new(target(place?, &login, tls)?, timeouts, eviction);
        let infos = infos(&links).await?;
        let info = &infos[0];
        let server = ServerVersion::parse(info)?;
        let features = Features::of(&server);
        check_alone(&links, info).await?;
        check_scripts(&links).await?;
        eviction.warn(&infos);
        warn_without_persistence(&links, info).await;
        if replication.is_none() {
            warn_without_protection(&infos);
        }
        let publish = match features.sharded_pubsub && links.target().is_cluster() {
            true => Publish::ByName,
            false => Publish::OneChannel,
        };
        tracing::debug!(target: "idempotent", %server, ?features, "connected");
        let wakes = Wakes::new(Arc::clone(&links), publish);
        let server_version = server.to_string();
        let server = Server { links, features, replication, publish };
        Ok(RedisStore::new(server, wakes, server_version))
    }
}

fn parse_all<U: AsRef<str>>(
    urls: impl IntoIterator<Item = U>,
    what: &str,
) -> Result<Vec<ConnectionInfo>, StoreError> {
    let all: Vec<_> = urls.into_iter().map(|url| parse(url.as_ref())).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(misconfigured(format!("no {what} was given\nhelp: name at least one"))),
        false => Ok(all),
    }
}

fn target(place: Place, login: &Login, tls: Tls) -> Result<Target, StoreError> {
    match place {
        Place::Single(info) => Ok(Target::Single(tls.client(login.apply(info))?)),
        Place::Cluster(nodes) => {
            let nodes = nodes.into_iter().map(|node| login.apply(node)).collect();
            Ok(Target::Cluster(Nodes { nodes, tls }))
        }
        Place::Sentinel { master, sentinels } => {
            // The master is reached as the sentinels are; who logs in is said apart.
            let address = sentinels.first().map(|info| info.addr().clone());
            let settings = match address {
                Some(address @ ConnectionAddr::TcpTls { .. }) => {
                    parse("redis://master")?.set_addr(address)
                }
                _ => parse("redis://master")?,
            };
            let settings = login.apply(settings);
            let sentinels: Result<_, _> =
                sentinels.into_iter().map(|info| tls.client(info)).collect();
            let (name, sentinels, first) = (master, sentinels?, Arc::default());
            let master = Arc::new(Master::new());
            Ok(Target::Sentinel(Sentinel { name, sentinels, settings, tls, first, master }))
        }
        Place::Given(connection) => Ok(Target::Given(connection)),
        Place::GivenCluster(connection) => Ok(Target::GivenCluster(connection)),
    }
}

impl Login {
    fn apply(&self, info: ConnectionInfo) -> ConnectionInfo {
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database);
        }
        info.set_redis_settings(settings)
    }
}

/// The answers to `INFO`: one of a server, one of each primary of a cluster; never none.
async fn infos(links: &Arc<Links>) -> Result<Vec<String>, StoreError> {
    let answer = match links.command(redis::cmd("INFO")).await {
        Ok(answer) => answer,
        Err(Failed::NotSent(error) | Failed::Answered(error)) => return Err(error),
        Err(Failed::Sent(error) | Failed::Resent(error)) => return Err(connect_error(error)),
    };
    match info_texts(answer) {
        none if none.is_empty() => {
            Err(misconfigured("the server does not answer INFO with a text"))
        }
        infos => Ok(infos),
    }
}

/// Says that a failover can lose records, where servers have replicas and nothing holds back writes
/// that those do not have.
fn warn_without_protection(infos: &[String]) {
    let unprotected = |info: &&String| {
        // The second is there while `min-replicas-to-write` is on. Not everybody may ask for that.
        field(info, "connected_slaves").is_some_and(|replicas| replicas != "0")
            && field(info, "min_slaves_good_slaves").is_none()
    };
    if let Some(info) = infos.iter().find(unprotected) {
        tracing::warn!(
            target: "idempotent", replicas = field(info, "connected_slaves"),
            "a failover can lose records: set min-replicas-to-write, or replication()"
        );
    }
}

/// One node of a cluster has a part of the records.
async fn check_alone(links: &Arc<Links>, info: &str) -> Result<(), StoreError> {
    if links.target().is_cluster() || field(info, "cluster_enabled") != Some("1") {
        return Ok(());
    }
    // Not everybody may ask.
    let Ok(answer) = links.command(redis::cmd("CLUSTER").arg("INFO").to_owned()).await else {
        return Ok(());
    };
    let cluster = info_texts(answer).pop().unwrap_or_default();
    match field(&cluster, "cluster_size") {
        None | Some("0" | "1") => Ok(()),
        Some(_) => Err(misconfigured(
            "the server is one node of a cluster\nhelp: RedisStore::cluster([url]).connect()",
        )),
    }
}

/// A call that is first refused when it records its answer has run its body.
async fn check_scripts(links: &Arc<Links>) -> Result<(), StoreError> {
    let mut by_text = redis::cmd("EVAL");
    by_text.arg("return 1").arg(0);
    let mut by_hash = redis::cmd("EVALSHA");
    by_hash.arg("0".repeat(40)).arg(0);
    for command in [by_text, by_hash] {
        match links.command(command).await {
            Err(Failed::Sent(error) | Failed::Resent(error))
                if classify(&error) == Failure::Forbidden =>
            {
                return Err(connect_error(error));
            }
            // What it answers does not matter: nobody has that script.
            _ => {}
        }
    }
    Ok(())
}

async fn warn_without_persistence(links: &Arc<Links>, info: &str) {
    if field(info, "aof_enabled") == Some("1") {
        return;
    }
    let mut command: Cmd = redis::cmd("CONFIG");
    command.arg("GET").arg("save");
    // Not everybody may ask.
    let Ok(answer) = links.command(command).await else { return };
    let saves: Vec<(String, String)> = redis::from_redis_value(answer).unwrap_or_default();
    if saves.iter().any(|(name, value)| name == "save" && value.is_empty()) {
        tracing::warn!(
            target: "idempotent",
            "the server keeps nothing on disk: a restart forgets every record"
        );
    }
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RedisBuilder")
            .field("timeouts", &self.timeouts)
            .field("replication", &self.replication)
            .finish_non_exhaustive()
    }
}
