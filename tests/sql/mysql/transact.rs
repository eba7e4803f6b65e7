//! Operations in transactions of their own.

use crate::exactly_once::exactly_once;
use idempotent_sql::MySqlStore;
use sqlx::mysql::MySqlPoolOptions;
use support::mariadb::shared_mariadb;

exactly_once!(
    sqlx::MySqlPool,
    "INSERT INTO ledger (entry, id) VALUES (?, ?)",
    "SELECT count(*) FROM ledger WHERE entry = ?"
);

pub(crate) async fn bench(connections: u32) -> Bench {
    let database = shared_mariadb().database();
    let store = MySqlStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let pool = MySqlPoolOptions::new().max_connections(connections);
    let pool = pool.connect(&database.url()).await.unwrap();
    let ledger = "CREATE TABLE ledger (number serial PRIMARY KEY, entry varchar(100), id bigint)";
    sqlx::query(ledger).execute(&pool).await.unwrap();
    Bench { idem, pool, bodies: Ledger::new(), kept: Mutex::default(), _site: Box::new(database) }
}
