//! Grants and answers that count only when replicas have them.

use idempotent_runtime::Abandon;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    BeginRequest, Begun, Claim, Completed, IfGone, RedisBuilder, RedisStore, Store, StoreError,
    StoreErrorKind, Token,
};
use std::time::Duration;
use support::cluster::Cluster;
use support::redis::{RedisServer, binaries, installed, until_replicated};

const LENGTH: Duration = Duration::from_secs(60);

/// Nothing that replicas do not have is confirmed, also when it is sent again on another connection.
async fn waits_for_replicas(
    builder: RedisBuilder,
    masters: &[&RedisServer],
    replicas: &[&RedisServer],
) {
    let store = builder.replication(1, Duration::from_millis(100)).connect().await.unwrap();
    let key = RecordKey::from("replicated");
    let claim = Claim::Lease { lease: LENGTH, linger: LENGTH, abandon: Abandon::Retry };
    let token = Token::random();
    let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };

    replicas.iter().for_each(|replica| replica.pause());
    for _ in 0..3 {
        let error = answered(|| store.begin(&key, &request)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        assert_eq!(error.to_string(), "0 of 1 replicas confirmed the write in time");
        disconnect(masters).await;
    }
    replicas.iter().for_each(|replica| replica.go_on());
    for master in masters {
        until_replicated(master, 1).await;
    }
    let Begun::Fresh(attempt) = answered(|| store.begin(&key, &request)).await.unwrap() else {
        panic!("the same token is granted the same attempt");
    };

    replicas.iter().for_each(|replica| replica.pause());
    for _ in 0..3 {
        let complete = || store.complete(&key, &attempt, None, LENGTH, IfGone::Rewrite);
        let error = answered(complete).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        disconnect(masters).await;
    }
    replicas.iter().for_each(|replica| replica.go_on());
    for master in masters {
        until_replicated(master, 1).await;
    }
    let complete = || store.complete(&key, &attempt, None, LENGTH, IfGone::Rewrite);
    assert_eq!(answered(complete).await.unwrap(), Completed::Stored);
}

/// The answer, which may take a new connection.
async fn answered<'a, T: Unpin>(
    mut ask: impl FnMut() -> idempotent_runtime::store::Answer<'a, T>,
) -> Result<T, StoreError> {
    for _ in 0..100 {
        match ask().await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
    panic!("the store does not answer");
}

async fn disconnect(masters: &[&RedisServer]) {
    for master in masters {
        let mut connection = master.connection().await;
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal");
        let _: usize = kill.query_async(&mut connection).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_its_replica() {
    for binary in binaries() {
        let fast = ["--repl-diskless-sync-delay", "0"];
        let master = RedisServer::start_with(&binary, &fast);
        let port = master.port.to_string();
        let follow = [&["--replicaof", "127.0.0.1", &port], &fast[..]].concat();
        let replica = RedisServer::start_with(&binary, &follow);
        until_replicated(&master, 1).await;
        println!("replication: {}", binary.display());
        waits_for_replicas(RedisStore::builder(&master.url()), &[&master], &[&replica]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_waits_for_the_replica_of_the_record() {
    let cluster = Cluster::start(&installed()).await;
    let nodes: Vec<&RedisServer> = cluster.nodes.iter().collect();
    let (masters, replicas) = nodes.split_at(3);
    waits_for_replicas(RedisStore::cluster(cluster.urls()), masters, replicas).await;
}
