//! A cluster of three masters with a replica each.

use super::redis::{RedisServer, age, connection, record_name, until_replicated, until_role};
use super::until_async;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::Slot;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{RedisStore, Store, StoreFuture};
use idempotent_runtime::testing::Subject;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// The nodes: masters first, then the replica of each.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts the nodes, joins them, and waits until all of them report a healthy cluster.
    pub async fn start(binary: &Path) -> Self {
        let arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let nodes = (0..2 * MASTERS).map(|_| RedisServer::start_with(binary, &arguments)).collect();
        let cluster = Self { nodes };
        cluster.join().await;
        cluster
    }

    /// One node that owns every slot, with more arguments and a password.
    pub async fn of_one(binary: &Path, arguments: &[&str], password: &str) -> RedisServer {
        let own = ["--cluster-enabled", "yes", "--requirepass", password];
        let arguments = [&own[..], arguments].concat();
        let node = RedisServer::start_with(binary, &arguments);
        let url = format!("unix://{}?pass={password}", node.socket().display());
        add_slots(&url, 0, SLOTS - 1).await;
        until_async(|| async {
            let mut connection = connection(&url).await;
            cluster_info(&mut connection).await.contains("cluster_state:ok")
        })
        .await;
        node
    }

    async fn join(&self) {
        let (masters, replicas) = self.nodes.split_at(MASTERS);
        for (index, master) in masters.iter().enumerate() {
            let mut connection = master.connection().await;
            let mut epoch = ::redis::cmd("CLUSTER");
            epoch.arg("SET-CONFIG-EPOCH").arg(index + 1);
            let () = epoch.query_async(&mut connection).await.unwrap();
            let (first, last) = slots_of(index);
            add_slots(&master.url(), first, last).await;
        }
        let mut first = masters[0].connection().await;
        for node in &self.nodes[1..] {
            let mut meet = ::redis::cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(node.port);
            let () = meet.query_async(&mut first).await.unwrap();
        }
        for (master, replica) in masters.iter().zip(replicas) {
            let id = self.id(master).await;
            until_async(|| async {
                let mut connection = replica.connection().await;
                let mut follow = ::redis::cmd("CLUSTER");
                follow.arg("REPLICATE").arg(&id);
                follow.query_async::<()>(&mut connection).await.is_ok()
            })
            .await;
        }
        for node in &self.nodes {
            until_async(|| async {
                let mut connection = node.connection().await;
                let text = cluster_info(&mut connection).await;
                text.contains("cluster_state:ok")
                    && text.contains("cluster_known_nodes:6")
                    && text.contains("cluster_size:3")
            })
            .await;
        }
        for master in masters {
            until_replicated(master, 1).await;
        }
        // A node tells others about its replica with its next ping.
        for node in &self.nodes {
            until_async(|| async { self.replicas_seen_by(node).await == MASTERS }).await;
        }
    }

    async fn replicas_seen_by(&self, node: &RedisServer) -> usize {
        let mut connection = node.connection().await;
        let mut command = ::redis::cmd("CLUSTER");
        let text: String = command.arg("NODES").query_async(&mut connection).await.unwrap();
        text.lines().filter(|line| line.contains("slave ") || line.contains("slave,")).count()
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// A connection for the test itself, without a timeout.
    pub async fn connection(&self) -> ClusterConnection {
        let client = ::redis::cluster::ClusterClientBuilder::new(self.urls())
            .connection_timeout(Duration::from_secs(30))
            .overall_response_timeout(Some(Duration::from_secs(30)))
            .build()
            .unwrap();
        client.get_async_connection().await.unwrap()
    }

    async fn id(&self, node: &RedisServer) -> String {
        let mut connection = node.connection().await;
        ::redis::cmd("CLUSTER").arg("MYID").query_async(&mut connection).await.unwrap()
    }

    /// Moves a slot with all its records from one master to another, as `redis-cli` does it.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to).await;
        self.end_move(slot, from, to).await;
    }

    /// Announces that a slot moves. Its records stay where they are.
    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let (source_id, target_id) = (self.id(source).await, self.id(target).await);
        set_slot(&mut target.connection().await, slot, "IMPORTING", &source_id).await;
        set_slot(&mut source.connection().await, slot, "MIGRATING", &target_id).await;
    }

    /// Moves the records of a slot whose move has begun, and then the slot.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let target_id = self.id(target).await;
        let mut at_source = source.connection().await;
        let mut at_target = target.connection().await;
        loop {
            let mut list = ::redis::cmd("CLUSTER");
            list.arg("GETKEYSINSLOT").arg(slot).arg(7);
            let names: Vec<Vec<u8>> = list.query_async(&mut at_source).await.unwrap();
            if names.is_empty() {
                break;
            }
            let mut migrate = ::redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(target.port).arg("").arg(0).arg(10_000).arg("KEYS");
            migrate.arg(names);
            let () = migrate.query_async(&mut at_source).await.unwrap();
        }
        // The target first, so that the nodes do not redirect callers in circles.
        set_slot(&mut at_target, slot, "NODE", &target_id).await;
        set_slot(&mut at_source, slot, "NODE", &target_id).await;
    }

    /// Removes a slot from the master that owns it, so that no node serves it. Its records stay.
    pub async fn unassign(&self, slot: u16) {
        let mut connection = self.nodes[owner_of(slot)].connection().await;
        let mut command = ::redis::cmd("CLUSTER");
        let () = command.arg("DELSLOTS").arg(slot).query_async(&mut connection).await.unwrap();
    }

    /// Gives an unassigned slot back to its first owner.
    pub async fn assign(&self, slot: u16) {
        add_slots(&self.nodes[owner_of(slot)].url(), slot, slot).await;
    }

    /// The slot of a key.
    pub async fn slot_of(&self, name: &str) -> u16 {
        let mut connection = self.nodes[0].connection().await;
        let mut command = ::redis::cmd("CLUSTER");
        command.arg("KEYSLOT").arg(name).query_async(&mut connection).await.unwrap()
    }

    /// Waits until a replica has taken the place of its master.
    pub async fn until_promoted(&self, replica: usize) {
        until_role(&self.nodes[replica], "master").await;
    }

    /// Number of records on a node.
    pub async fn records(&self, node: usize) -> usize {
        let mut connection = self.nodes[node].connection().await;
        ::redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
    }
}

fn slots_of(master: usize) -> (u16, u16) {
    let border = |index: usize| u16::try_from(usize::from(SLOTS) * index / MASTERS).unwrap();
    (border(master), border(master + 1) - 1)
}

/// The master that owns a slot when a cluster starts.
pub fn owner_of(slot: u16) -> usize {
    let owns = |master: &usize| slot <= slots_of(*master).1;
    (0..MASTERS).find(owns).unwrap()
}

async fn add_slots(url: &str, first: u16, last: u16) {
    let mut connection = connection(url).await;
    // One by one, because not every server supports ranges.
    let mut command = ::redis::cmd("CLUSTER");
    command.arg("ADDSLOTS").arg((first..=last).collect::<Vec<_>>());
    let () = command.query_async(&mut connection).await.unwrap();
}

async fn set_slot(
    connection: &mut ::redis::aio::MultiplexedConnection,
    slot: u16,
    state: &str,
    node: &str,
) {
    let mut command = ::redis::cmd("CLUSTER");
    command.arg("SETSLOT").arg(slot).arg(state).arg(node);
    let () = command.query_async(connection).await.unwrap();
}

async fn cluster_info(connection: &mut ::redis::aio::MultiplexedConnection) -> String {
    ::redis::cmd("CLUSTER").arg("INFO").query_async(connection).await.unwrap()
}

/// Returns `true` if a record is in one of these slots.
pub fn lies_in(mut slots: Range<u16>, key: &RecordKey) -> bool {
    let slot = Slot::for_key(record_name(key));
    slots.any(|one| Slot::new(one) == Some(slot))
}

/// A store on a cluster under test.
#[allow(missing_debug_implementations)]
pub struct ClusterSubject {
    store: Arc<RedisStore>,
    connection: ClusterConnection,
    _cluster: Cluster,
}

impl ClusterSubject {
    pub async fn start(binary: &Path) -> Self {
        let cluster = Cluster::start(binary).await;
        let store = RedisStore::cluster(cluster.urls()).connect().await.unwrap();
        let connection = cluster.connection().await;
        Self { store: Arc::new(store), connection, _cluster: cluster }
    }

    pub fn server_version(&self) -> &str {
        self.store.server_version()
    }
}

impl Subject for ClusterSubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        let mut connection = self.connection.clone();
        StoreFuture::new(async move {
            for key in keys {
                age(&mut connection, &record_name(key), by).await;
            }
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }
}
