//! PostgreSQL behind a pooler. These tests need `pgbouncer`, and are left to `scripts/test-long databases`.

use support::pgbouncer::{PgBouncer, PoolMode};
use support::postgres::{psql, shared_postgres};

/// A setting as a second client sees it after a first one has changed it for its session.
fn seen_by_the_next_client(mode: PoolMode) -> String {
    let database = shared_postgres().database();
    let pooler = PgBouncer::start(shared_postgres().address(), mode);
    let url = database.url_through(pooler.port);
    psql(&url, "SET lock_timeout = '12345ms'");
    psql(&url, "SHOW lock_timeout")
}

#[test]
fn session_belongs_to_one_client_only_in_session_mode() {
    assert_eq!(seen_by_the_next_client(PoolMode::Session), "0");
    assert_eq!(seen_by_the_next_client(PoolMode::Transaction), "12345ms");
}
