//! A master, two replicas, and three sentinels that watch over them.

use super::redis::{RedisServer, TempDirectory, info, installed, until_replicated, until_role};
use super::until_async;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What the sentinels call the master.
pub const MASTER: &str = "mymaster";

/// How long a master may be silent before it counts as down, in milliseconds. The third sentinel
/// does not stand for election while the first two do, so that one of them has a majority.
const DOWN_AFTER: [u32; 3] = [600, 600, 4_000];

/// Sentinels that find and follow quickly. A machine that stalls does not make them doubt their
/// clock, which would keep them from acting for half a minute.
const IMPATIENT: [&str; 10] = [
    "publish-period",
    "100",
    "info-period",
    "200",
    "ask-period",
    "100",
    "tilt-trigger",
    "60000",
    "tilt-period",
    "100",
];

/// How long sentinels may take to act on a busy machine.
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
        for sentinel in &sentinels {
            let mut connection = sentinel.connection().await;
            let mut command = ::redis::cmd("SENTINEL");
            command.arg("DEBUG").arg(&IMPATIENT[..]);
            let () = command.query_async(&mut connection).await.unwrap();
        }
        let all = Self { servers, sentinels, _settings: settings };
        all.until_complete(0).await;
        all
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

    /// Which server all sentinels that run name as the master; `None` while they do not agree.
    pub async fn master(&self) -> Option<usize> {
        let mut named = Vec::new();
        for sentinel in &self.sentinels {
            let Ok(client) = ::redis::Client::open(sentinel.url()) else { continue };
            let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
                continue;
            };
            let mut command = ::redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(MASTER);
            let Ok((_, port)) = command.query_async::<(String, u16)>(&mut connection).await else {
                continue;
            };
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
