//! Every server keeps the contract and equals the state table.

use idempotent_runtime::testing::{contract, differential};
use support::redis::{RedisSubject, binaries};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_keeps_the_contract() {
    for binary in binaries() {
        let subject = RedisSubject::start(&binary).await;
        println!("contract: {} ({})", subject.server_version(), binary.display());
        contract::all(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_equals_the_table() {
    for binary in binaries() {
        let subject = RedisSubject::start(&binary).await;
        println!("differential: {} ({})", subject.server_version(), binary.display());
        differential::check(&subject, 0..60).await;
    }
}
