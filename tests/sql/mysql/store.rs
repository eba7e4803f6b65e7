//! The server keeps the contract and equals the state table.

use super::subject::MySqlSubject;
use idempotent_runtime::testing::{contract, differential};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_keeps_the_contract() {
    contract::all(&MySqlSubject::patient().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_equals_the_table() {
    differential::check(&MySqlSubject::patient().await, 0..60).await;
}
