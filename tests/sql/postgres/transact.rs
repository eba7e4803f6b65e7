//! Operations in transactions of their own.

use crate::exactly_once::exactly_once;
use idempotent_sql::PostgresStore;
use sqlx::postgres::PgPoolOptions;
use support::postgres::shared_postgres;

exactly_once!(
    sqlx::PgPool,
    "INSERT INTO ledger (entry, id) VALUES ($1, $2)",
    "SELECT count(*) FROM ledger WHERE entry = $1"
);

pub(crate) async fn bench(connections: u32) -> Bench {
    let database = shared_postgres().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let pool = PgPoolOptions::new().max_connections(connections);
    let pool = pool.connect(&database.url()).await.unwrap();
    let ledger = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text, id bigint)";
    sqlx::query(ledger).execute(&pool).await.unwrap();
    Bench { idem, pool, bodies: Ledger::new(), kept: Mutex::default(), _site: Box::new(database) }
}
