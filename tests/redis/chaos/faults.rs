//! Faults of processes and servers.

use crate::foreign;
use crate::loading::load_slowly;
use crate::scene::{LEASE, Scene};
use rand::RngExt as _;
use rand::rngs::StdRng;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use support::journal::{What, now};
use support::redis::RedisServer;
use support::sentinel::{MASTER, Sentinels};
use support::until_async;
use support::worker::Reach;

/// The servers of a scene.
pub(crate) enum Servers {
    One(RedisServer),
    Replicated(Sentinels),
}

impl Servers {
    /// A master with replicas, and sentinels that act when they are asked to, also on a busy
    /// machine.
    pub(crate) async fn replicated() -> Self {
        let all = Sentinels::start().await;
        for sentinel in &all.sentinels {
            let mut connection = sentinel.connection().await;
            for name in ["down-after-milliseconds", "failover-timeout"] {
                send(&mut connection, &["SENTINEL", "SET", MASTER, name, "20000"]).await;
            }
            // Other sentinels make a promoted replica a replica again if the one that promoted it
            // does not see it as a master within four of these, and it looks once a second.
            send(&mut connection, &["SENTINEL", "DEBUG", "publish-period", "1000"]).await;
        }
        Self::Replicated(all)
    }

    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::One(server) => Reach::Url(server.url()),
            Self::Replicated(all) => {
                Reach::Sentinels { urls: all.urls(), replicas: all.servers.len() - 1 }
            }
        }
    }

    /// The server that takes writes.
    async fn master(&self) -> &RedisServer {
        match self {
            Self::One(server) => server,
            Self::Replicated(all) => loop {
                if let Some(master) = all.master().await {
                    return &all.servers[master];
                }
            },
        }
    }

    /// The number of records.
    pub(crate) async fn records(&self) -> usize {
        let mut connection = self.master().await.connection().await;
        redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
    }
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    KillProcess,
    PauseProcess,
    /// The server stands still for so many leases.
    StallServer(f64),
    RestartServer,
    /// The server answers with an error.
    Error(&'static Provoked),
    /// A script that does not end: the server answers nothing but that it is busy.
    Busy,
    /// Values of other programs are where records are to be.
    Foreign,
    /// The server is restarted, and reads its records slowly.
    Loading,
    /// Sentinels are asked to make another server the master.
    Failover,
}

/// A state of a server in which it answers with an error.
#[derive(Debug)]
pub(crate) struct Provoked {
    name: &'static str,
    /// A field of the server's figures that grows with each such error. Without one it lasts for a
    /// while.
    counted_as: Option<&'static str>,
    begin: &'static [&'static [&'static str]],
    end: &'static [&'static [&'static str]],
}

const DISCONNECT: &[&str] = &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];

const PROVOKED: [Provoked; 11] = [
    Provoked {
        name: "OOM",
        counted_as: Some("errorstat_OOM"),
        begin: &[&["CONFIG", "SET", "maxmemory", "1"]],
        end: &[&["CONFIG", "SET", "maxmemory", "0"]],
    },
    Provoked {
        name: "NOREPLICAS",
        counted_as: Some("errorstat_NOREPLICAS"),
        begin: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        end: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    },
    Provoked {
        name: "MISCONF",
        counted_as: Some("errorstat_MISCONF"),
        begin: &[&["CONFIG", "SET", "save", "3600 1"], &["BGSAVE", "SCHEDULE"]],
        end: &[&["CONFIG", "SET", "save", ""]],
    },
    Provoked {
        name: "READONLY",
        counted_as: Some("errorstat_READONLY"),
        // No server listens there, so nothing is replicated.
        begin: &[&["REPLICAOF", "127.0.0.1", "1"]],
        end: &[&["REPLICAOF", "NO", "ONE"]],
    },
    Provoked {
        name: "MASTERDOWN",
        counted_as: Some("errorstat_MASTERDOWN"),
        begin: &[
            &["CONFIG", "SET", "replica-serve-stale-data", "no"],
            &["REPLICAOF", "127.0.0.1", "1"],
        ],
        end: &[&["REPLICAOF", "NO", "ONE"], &["CONFIG", "SET", "replica-serve-stale-data", "yes"]],
    },
    Provoked {
        name: "NOPERM",
        counted_as: Some("errorstat_NOPERM"),
        begin: &[&["ACL", "SETUSER", "default", "-set", "-eval", "-evalsha"]],
        end: &[&["ACL", "SETUSER", "default", "+@all"]],
    },
    Provoked {
        name: "NOAUTH",
        counted_as: Some("errorstat_NOAUTH"),
        begin: &[&["CONFIG", "SET", "requirepass", "secret"], DISCONNECT],
        end: &[&["CONFIG", "SET", "requirepass", ""]],
    },
    Provoked {
        name: "maxclients",
        counted_as: Some("rejected_connections"),
        begin: &[&["CONFIG", "SET", "maxclients", "1"], DISCONNECT],
        end: &[&["CONFIG", "SET", "maxclients", "1000"]],
    },
    Provoked {
        name: "NOSCRIPT",
        counted_as: Some("errorstat_NOSCRIPT"),
        begin: &[&["SCRIPT", "FLUSH"]],
        end: &[],
    },
    Provoked {
        name: "connections killed",
        counted_as: Some("total_connections_received"),
        begin: &[DISCONNECT, &["CLIENT", "KILL", "TYPE", "pubsub"]],
        end: &[],
    },
    Provoked {
        name: "writes paused",
        counted_as: None,
        begin: &[&["CLIENT", "PAUSE", "600000", "WRITE"]],
        end: &[&["CLIENT", "UNPAUSE"]],
    },
];

impl Fault {
    /// The faults of a single server, in no order.
    pub(crate) fn on_one() -> Vec<Self> {
        let mut all: Vec<Self> = PROVOKED.iter().map(Self::Error).collect();
        all.extend([Self::KillProcess; 4]);
        // Calls are refused after one lease, and what they left is released for another one.
        all.extend([1.3, 2.0, 3.5].map(Self::StallServer));
        all.extend([Self::PauseProcess, Self::PauseProcess, Self::RestartServer]);
        all.extend([Self::Busy, Self::Foreign, Self::Loading]);
        all
    }

    /// The faults of a replicated one.
    pub(crate) fn on_sentinels() -> Vec<Self> {
        let killed = PROVOKED.iter().filter(|it| it.name == "connections killed");
        let mut all: Vec<Self> = killed.map(Self::Error).collect();
        all.extend([Self::Failover; 3]);
        all.extend([Self::KillProcess, Self::PauseProcess]);
        all
    }

    /// Lets it happen, and returns when it is over.
    pub(crate) async fn strike(self, scene: &mut Scene, servers: &mut Servers, rng: &mut StdRng) {
        let from = now();
        let by = match self {
            Self::KillProcess => {
                scene.kill_one(rng);
                return;
            }
            Self::PauseProcess => {
                let length = LEASE.mul_f64(rng.random_range(1.2..2.0));
                scene.pause_one(length, rng).await;
                return;
            }
            Self::StallServer(leases) => {
                let server = servers.master().await;
                server.pause();
                tokio::time::sleep(LEASE.mul_f64(leases)).await;
                server.go_on();
                "the server stalled"
            }
            Self::RestartServer => {
                let Servers::One(server) = servers else { return };
                scene.journal.note(What::ServerRestarted);
                server.restart();
                "the server was restarted"
            }
            Self::Error(provoked) => {
                provoked.provoke(servers.master().await).await;
                provoked.name
            }
            Self::Busy => {
                be_busy(servers.master().await).await;
                "BUSY"
            }
            Self::Foreign => {
                let keys = foreign::keys(rng);
                let connection = servers.master().await.connection().await;
                let refused = async || count(&connection, "errorstat_WRONGTYPE").await;
                foreign::be_in_the_way(&connection, &keys, refused).await;
                for key in keys {
                    let what = What::Foreign { key, for_nanos: now() - from };
                    scene.journal.note_at(from, 0, what);
                }
                "WRONGTYPE"
            }
            Self::Loading => {
                let Servers::One(server) = servers else { return };
                scene.journal.note(What::ServerRestarted);
                load_slowly(server).await;
                "LOADING"
            }
            Self::Failover => {
                let Servers::Replicated(all) = servers else { return };
                fail_over(all).await;
                "a planned failover"
            }
        };
        let what = What::Disturbed { by: by.to_owned(), for_nanos: now() - from };
        scene.journal.note_at(from, 0, what);
    }
}

impl Provoked {
    /// Brings a server into this state, until it has answered a few times with the error.
    async fn provoke(&self, server: &RedisServer) {
        let mut connection = server.connection().await;
        // A script that is missing is missed once by each process, and so is a connection.
        let often = if self.end.is_empty() { 1 } else { 5 };
        let before = match self.counted_as {
            Some(field) => count(&connection, field).await,
            None => 0,
        };
        for words in self.begin {
            send(&mut connection, words).await;
        }
        match self.counted_as {
            Some(field) => {
                until_async(|| async { count(&connection, field).await >= before + often }).await;
            }
            None => tokio::time::sleep(LEASE / 2).await,
        }
        for words in self.end {
            send(&mut connection, words).await;
        }
    }
}

/// The number of times that a server has seen something, by its own figures.
pub(crate) async fn count(connection: &MultiplexedConnection, field: &str) -> u64 {
    let mut command = redis::cmd("INFO");
    let text = command.arg("everything").query_async::<String>(&mut connection.clone()).await;
    let text = text.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().trim_start_matches("count=").trim().parse().unwrap_or(0)
}

pub(crate) async fn send(connection: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    let sent = command.arg(&words[1..]).query_async::<redis::Value>(connection).await;
    sent.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

/// Keeps a server busy for longer than it takes to say so.
async fn be_busy(server: &RedisServer) {
    let (mut busy, mut kills) = (server.connection().await, server.connection().await);
    let script = tokio::spawn(async move {
        let mut command = redis::cmd("EVAL");
        command.arg("while true do end").arg(0);
        command.query_async::<redis::Value>(&mut busy).await
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    until_async(|| {
        let mut kills = kills.clone();
        async move {
            let mut command = redis::cmd("SCRIPT");
            command.arg("KILL").query_async::<redis::Value>(&mut kills).await.is_ok()
        }
    })
    .await;
    assert!(script.await.unwrap().is_err(), "the script ended by itself");
    send(&mut kills, &["PING"]).await;
}

/// Asks for another master, and waits until it is one and has its replicas.
async fn fail_over(all: &Sentinels) {
    let before = loop {
        if let Some(master) = all.master().await {
            break master;
        }
    };
    // Asked for again: sentinels refuse at times, and give up on a replica that is slow.
    let master = loop {
        let mut connection = all.sentinels[0].connection().await;
        let mut command = redis::cmd("SENTINEL");
        let asked = command.arg("FAILOVER").arg(MASTER).query_async::<()>(&mut connection).await;
        let patience = Duration::from_secs(if asked.is_ok() { 5 } else { 1 });
        if let Ok(master) = tokio::time::timeout(patience, all.until_failed_over(before)).await {
            break master;
        }
    };
    all.until_complete(master).await;
}
