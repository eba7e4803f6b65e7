//! Every server keeps the contract and equals the state table.

use super::subject::PostgresSubject;
use idempotent_runtime::testing::{contract, differential};
use support::postgres::{PostgresServer, binaries, shared_postgres};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_contract() {
    let database = shared_postgres().database();
    contract::all(&PostgresSubject::new(&database.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_equals_the_table() {
    let database = shared_postgres().database();
    differential::check(&PostgresSubject::new(&database.url()).await, 0..60).await;
}

/// Those that the environment names, beside the machine's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn further_servers_keep_the_contract_and_equal_the_table() {
    for folder in binaries().into_iter().skip(1) {
        let server = PostgresServer::start_with(&folder, &[]);
        let subject = PostgresSubject::new(&server.url("postgres")).await;
        println!("PostgreSQL {} ({})", subject.server_version(), folder.display());
        contract::all(&subject).await;
        differential::check(&subject, 0..60).await;
    }
}
