//! A master, two replicas, and three sentinels.

use super::redis::{RedisServer, TempDirectory, info, installed, until_replicated, until_role};
use super::until_async;
use ::redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Name of the master in the sentinels.
pub const MASTER: &str = "mymaster";

/// Silence after which impatient sentinels take a master for dead, in milliseconds.
const DOWN_AFTER: [u32; 3] = [600, 600, 4_000];

/// Speed at which sentinels act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Sentinels that find and follow quickly, and soon take a silent master for dead.
    Impatient,
    /// As they come: they tell each other every two seconds, and a master that was replaced that it
    /// is a replica after eight. Nobody takes a silent master for dead.
    Usual,
}

impl Pace {
    /// A machine that stalls does not make them doubt their clock, which would keep them from
    /// acting for half a minute.
    fn periods(self) -> [&'static str; 10] {
        let [publish, info, ask] = match self {
            Self::Impatient => ["100", "200", "100"],
            Self::Usual => ["2000", "10000", "1000"],
        };
        let periods = ["publish-period", publish, "info-period", info, "ask-period", ask];
        let [a, b, c, d, e, f] = periods;
        [a, b, c, d, e, f, "tilt-trigger", "60000", "tilt-period", "100"]
    }

    /// Silence after which a master counts as down, and time that a failover may take, in
    /// milliseconds. The third sentinel does not stand for election while the first two do, so that
    /// one of them has a majority.
    fn settings(self, sentinel: usize) -> [(&'static str, u32); 2] {
        let (down_after, timeout) = match self {
            Self::Impatient => (DOWN_AFTER[sentinel], 2_000),
            Self::Usual => (60_000, 20_000),
        };
        [("down-after-milliseconds", down_after), ("failover-timeout", timeout)]
    }
}

/// Time limit for sentinels to act on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes. The first server is the first master.
#[derive(Debug)]
pub struct Sentinels {
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<RedisServer>,
    _settings: TempDirectory,
}

impl Sentinels {
    /// Starts them, and waits until they know each other.
    pub async fn start() -> Self {
        let binary = installed();
        let fast = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let master = RedisServer::start_with(&binary, &fast);
        let port = master.port.to_string();
        let mut servers = vec![master];
        for _ in 0..2 {
            let replica = [&["--replicaof", "127.0.0.1", &port], &fast[..]].concat();
            servers.push(RedisServer::start_with(&binary, &replica));
        }
        let settings = TempDirectory::new();
        let mut sentinels = Vec::new();
        for (index, down_after) in DOWN_AFTER.into_iter().enumerate() {
            let file = settings.path().join(format!("{index}.conf"));
            let text = format!(
                "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} {down_after}\n\
                 sentinel failover-timeout {MASTER} 2000\n\
                 sentinel parallel-syncs {MASTER} 2\n"
            );
            std::fs::write(&file, text).unwrap();
            let arguments = [file.to_str().unwrap(), "--sentinel"];
            sentinels.push(RedisServer::start_with(&binary, &arguments));
        }
        let all = Self { servers, sentinels, _settings: settings };
        all.pace(Pace::Impatient).await;
        all.until_complete(0).await;
        all
    }

    /// Has all sentinels act as soon as this.
    pub async fn pace(&self, pace: Pace) {
        for (index, sentinel) in self.sentinels.iter().enumerate() {
            let mut connection = sentinel.connection().await;
            let mut command = ::redis::cmd("SENTINEL");
            command.arg("DEBUG").arg(&pace.periods()[..]);
            let () = command.query_async(&mut connection).await.unwrap();
            for (setting, value) in pace.settings(index) {
                let mut command = ::redis::cmd("SENTINEL");
                command.arg("SET").arg(MASTER).arg(setting).arg(value);
                let () = command.query_async(&mut connection).await.unwrap();
            }
        }
    }

    /// Asks the first sentinel to replace the master, as an operator does. At another pace than the
    /// usual one, the others may take its choice back before they hear of it.
    pub async fn fail_over(&self) {
        let mut connection = self.sentinels[0].connection().await;
        let mut command = ::redis::cmd("SENTINEL");
        let asked = command.arg("FAILOVER").arg(MASTER);
        let () = asked.query_async(&mut connection).await.unwrap();
    }

    /// Waits until the first of the sentinels names another server than this.
    pub async fn until_one_names_another(&self, than: usize) {
        let mut connections = Vec::new();
        for sentinel in &self.sentinels {
            connections.push(sentinel.connection().await);
        }
        let started = Instant::now();
        loop {
            for connection in &mut connections {
                let port = master_port(connection).await.expect("the sentinels are there");
                if port != self.servers[than].port {
                    return;
                }
            }
            assert!(started.elapsed() < PATIENCE, "the sentinels did not act");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until every sentinel knows all others and sees no fault in the master and its replicas,
    /// and the replicas have what the master writes.
    pub async fn until_complete(&self, master: usize) {
        for sentinel in &self.sentinels {
            until_async(|| async {
                let line = info(sentinel, "master0").await;
                line.contains("status=ok")
                    && line.ends_with("slaves=2,sentinels=3")
                    && replicas_are_well(sentinel).await
            })
            .await;
        }
        until_replicated(&self.servers[master], 2).await;
    }

    /// The addresses of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    /// The server that all running sentinels name as the master; `None` while they disagree.
    pub async fn master(&self) -> Option<usize> {
        let mut named = Vec::new();
        for sentinel in &self.sentinels {
            let Ok(client) = ::redis::Client::open(sentinel.url()) else { continue };
            let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
                continue;
            };
            let Some(port) = master_port(&mut connection).await else { continue };
            named.push(self.servers.iter().position(|server| server.port == port)?);
        }
        named.dedup();
        if let [one] = named[..] { Some(one) } else { None }
    }

    /// Waits until another server is the master, and takes writes.
    pub async fn until_failed_over(&self, from: usize) -> usize {
        let started = Instant::now();
        loop {
            if let Some(master) = self.master().await
                && master != from
            {
                until_role(&self.servers[master], "master").await;
                return master;
            }
            if started.elapsed() > PATIENCE {
                let logs = self.sentinels.iter().map(RedisServer::log).collect::<String>();
                panic!("the sentinels did not act:\n{logs}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The port of the server that a sentinel names.
async fn master_port(connection: &mut MultiplexedConnection) -> Option<u16> {
    let mut command = ::redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(MASTER);
    let named = command.query_async::<(String, u16)>(connection).await;
    named.ok().map(|(_, port)| port)
}

async fn replicas_are_well(sentinel: &RedisServer) -> bool {
    let mut connection = sentinel.connection().await;
    let mut command = ::redis::cmd("SENTINEL");
    command.arg("REPLICAS").arg(MASTER);
    let replicas: Vec<HashMap<String, String>> =
        command.query_async(&mut connection).await.unwrap();
    replicas
        .iter()
        .all(|replica| replica["flags"] == "slave" && replica["master-link-status"] == "ok")
}
