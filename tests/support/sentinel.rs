//! A master, two replicas, and three sentinels that watch over them.

use super::redis::{
    RedisServer, TempDirectory, info, installed, until_replicated, until_role,
};
use super::until_async;

/// What the sentinels call the master.
pub const MASTER: &str = "mymaster";

/// How long a master may be silent before it counts as down, in milliseconds.
const DOWN_AFTER: &str = "600";

/// Sentinels that find and follow quickly. A machine that stalls does not make them doubt their
/// clock, which would keep them from acting for half a minute.
const IMPATIENT: [&str; 12] = [
    "publish-period",
    "100",
    "info-period",
    "200",
    "ping-period",
    "100",
    "ask-period",
    "100",
    "tilt-trigger",
    "60000",
    "tilt-period",
    "100",
];

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
        for index in 0..3 {
            let file = settings.path().join(format!("{index}.conf"));
            let text = format!(
                "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}\n\
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
        all.until_complete().await;
        all
    }

    /// Every sentinel knows both replicas and both other sentinels, and the replicas follow.
    async fn until_complete(&self) {
        for sentinel in &self.sentinels {
            until_async(|| async {
                info(sentinel, "master0").await.ends_with("slaves=2,sentinels=3")
            })
            .await;
        }
        until_replicated(&self.servers[0], 2).await;
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
        until_async(|| async { self.master().await.is_some_and(|master| master != from) }).await;
        let master = self.master().await.unwrap();
        until_role(&self.servers[master], "master").await;
        master
    }
}
