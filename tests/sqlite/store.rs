//! The store keeps the contract and equals the state table.

use crate::subject::SqliteSubject;
use idempotent_runtime::testing::differential;

mod contract {
    use crate::subject::SqliteSubject;

    idempotent_runtime::contract_tests!(SqliteSubject::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_equals_the_table() {
    differential::check(&SqliteSubject::new(), 0..support::size(200, 5_000) as u64).await;
}
