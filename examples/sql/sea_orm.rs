//! How are the entities of an ORM committed together with their record?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example sea_orm
//! ```
//!
//! The module `adapter` has what SeaORM needs: a transaction that runs the statements of records, and
//! a pool that begins such transactions. Bodies write their entities in them. Sixteen callers send
//! each request at the same time: it gets one row, and all of its callers get the same order. The
//! database is a file, which is removed at the end.
#![allow(clippy::print_stdout)]

use adapter::{OrmPool, OrmTransaction};
use idempotent_runtime::{Error, Idempotency, Mode, idempotent};
use idempotent_sql::{Isolation, SqliteStore, TransactExt as _, TransactionPool as _};
use order::Entity as Orders;
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectOptions, Database};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinSet;

const CALLERS: usize = 16;
const REQUESTS: [&str; 4] = ["request-1", "request-2", "request-3", "request-4"];

/// An adapter to SeaORM on SQLite.
mod adapter {
    use idempotent_sql::client::{Cell, Database, Param, Row, SqlConnection, SqlError, Statement};
    use idempotent_sql::{Isolation, TransactionPool};
    use sea_orm::sqlx::{self, Row as _, TypeInfo as _, ValueRef as _};
    use sea_orm::{
        ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
        QueryResult, RuntimeErr, SqliteTransactionMode, TransactionOptions, TransactionTrait as _,
        Value,
    };

    /// A transaction. Entities go through its field: `order.insert(&tx.0)`.
    #[derive(Debug)]
    pub(crate) struct OrmTransaction(pub(crate) DatabaseTransaction);

    /// A pool that begins such transactions.
    #[derive(Clone, Debug)]
    pub(crate) struct OrmPool(pub(crate) DatabaseConnection);

    impl SqlConnection for OrmTransaction {
        fn database(&self) -> Database {
            Database::Sqlite
        }

        async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
            let values = statement.params.iter().map(|param| match *param {
                Param::Integer(value) => Value::from(value),
                Param::Bytes(value) => value.map(<[u8]>::to_vec).into(),
                Param::Text(value) => value.map(str::to_owned).into(),
            });
            // SeaORM prepares every statement, whatever `statement.preparation` says. That matters
            // behind a pooler of PostgreSQL only.
            let (backend, text) = (DbBackend::Sqlite, statement.text);
            let statement = sea_orm::Statement::from_sql_and_values(backend, text, values);
            let rows = self.0.query_all_raw(statement).await.map_err(sql_error)?;
            rows.iter().map(read).collect()
        }
    }

    impl TransactionPool for OrmPool {
        type Transaction = OrmTransaction;
        type Connection = OrmTransaction;

        fn database(&self) -> Database {
            Database::Sqlite
        }

        /// Takes the write lock of the file at once: it holds the key. SQLite has one isolation.
        async fn begin(&self, _: Isolation) -> Result<OrmTransaction, SqlError> {
            let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
            let options = TransactionOptions { sqlite_transaction_mode, ..Default::default() };
            self.0.begin_with_options(options).await.map(OrmTransaction).map_err(sql_error)
        }

        fn connection(transaction: &OrmTransaction) -> &OrmTransaction {
            transaction
        }

        fn connection_mut(transaction: &mut OrmTransaction) -> &mut OrmTransaction {
            transaction
        }

        async fn commit(&self, transaction: OrmTransaction) -> Result<(), SqlError> {
            transaction.0.commit().await.map_err(sql_error)
        }

        async fn roll_back(&self, transaction: OrmTransaction) {
            // One that fails is rolled back by the database.
            let _ = transaction.0.rollback().await;
        }
    }

    /// An error with a code was sent by the database. Any other leaves open what came of the
    /// statement, unless there was no connection to send it on.
    fn sql_error(error: DbErr) -> SqlError {
        match (code(&error), &error) {
            (Some(code), _) => SqlError::refused(code, error),
            (None, DbErr::ConnectionAcquire(_)) => SqlError::not_sent(error),
            (None, _) => SqlError::lost(error),
        }
    }

    /// The extended result code of SQLite, if the database sent the error. `code()` is right on
    /// PostgreSQL too; on MySQL, `number()` of `MySqlDatabaseError` is.
    fn code(error: &DbErr) -> Option<String> {
        let (DbErr::Conn(cause) | DbErr::Exec(cause) | DbErr::Query(cause)) = error else {
            return None;
        };
        let RuntimeErr::SqlxError(cause) = cause else { return None };
        Some(cause.as_database_error()?.code().unwrap_or_default().into_owned())
    }

    /// A row, by the types of its values. On PostgreSQL and MySQL, integers have several names.
    fn read(row: &QueryResult) -> Result<Row, SqlError> {
        let row = row.try_as_sqlite_row().ok_or_else(|| SqlError::unexpected("not SQLite"))?;
        let cell = |at: usize| -> Result<Cell, sqlx::Error> {
            let value = row.try_get_raw(at)?;
            Ok(match value.type_info().name() {
                _ if value.is_null() => Cell::Null,
                "INTEGER" => Cell::Integer(row.try_get(at)?),
                "BLOB" => Cell::Bytes(row.try_get(at)?),
                _ => Cell::Text(row.try_get(at)?),
            })
        };
        let cells: Result<_, _> = (0..row.len()).map(cell).collect();
        cells.map(Row::new).map_err(|error| SqlError::unexpected(error.to_string()))
    }
}

/// An entity, which knows nothing of idempotency.
mod order {
    use sea_orm::entity::prelude::*;
    use serde::{Deserialize, Serialize};

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize, Deserialize)]
    #[sea_orm(table_name = "orders")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub request: String,
        pub item: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

#[derive(Debug)]
enum OrderError {
    Declined,
    Database(DbErr),
    Refused(Error),
}

impl From<DbErr> for OrderError {
    fn from(error: DbErr) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => formatter.write_str("the card was declined"),
            Self::Database(error) => error.fmt(formatter),
            Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for OrderError {}

type Failure = Box<dyn std::error::Error + Send + Sync>;

static BODIES: AtomicUsize = AtomicUsize::new(0);

/// Writes the row of an order, and fails after that if the card is declined.
async fn insert(
    tx: &OrmTransaction,
    request: &str,
    declined: bool,
) -> Result<order::Model, OrderError> {
    BODIES.fetch_add(1, Relaxed);
    let (request, item) = (Set(request.to_owned()), Set("lamp".to_owned()));
    let order = order::ActiveModel { request, item, ..Default::default() }.insert(&tx.0).await?;
    if declined { Err(OrderError::Declined) } else { Ok(order) }
}

/// Creates an order, once per request, in a transaction of its own.
async fn create_order(
    idem: &Idempotency,
    pool: &OrmPool,
    request: &str,
    declined: bool,
) -> Result<order::Model, OrderError> {
    idem.operation("orders.create")
        .key(request)
        .mode(Mode::Strong)
        .wait(Duration::from_secs(10))
        .transact(pool, async |tx| insert(&tx, request, declined).await)
        .await
}

/// The same in a transaction of the caller's, which may do more in it.
#[idempotent(key = "request", mode = "strong", transaction = "tx")]
async fn create_order_in(
    tx: &mut OrmTransaction,
    request: &str,
) -> Result<order::Model, OrderError> {
    insert(tx, request, false).await
}

async fn rows(pool: &OrmPool, request: &str) -> Result<u64, DbErr> {
    Orders::find().filter(order::Column::Request.eq(request)).count(&pool.0).await
}

/// Sends each request sixteen times at once.
async fn crowd(idem: &Idempotency, pool: &OrmPool) -> Result<(), Failure> {
    let mut callers = JoinSet::new();
    for request in REQUESTS.into_iter().cycle().take(CALLERS * REQUESTS.len()) {
        let (idem, pool) = (idem.clone(), pool.clone());
        callers.spawn(async move { create_order(&idem, &pool, request, false).await });
    }
    let mut answers = BTreeMap::<String, Vec<i64>>::new();
    while let Some(answer) = callers.join_next().await {
        let order = answer??;
        answers.entry(order.request).or_default().push(order.id);
    }
    for (request, ids) in answers {
        assert_eq!(ids, [ids[0]; CALLERS], "callers of {request} got different orders");
        assert_eq!(rows(pool, &request).await?, 1);
        println!("{request}: {} callers, one row, order {}", ids.len(), ids[0]);
    }
    assert_eq!(BODIES.load(Relaxed), REQUESTS.len(), "a body ran again");
    Ok(())
}

async fn run(file: &Path) -> Result<(), Failure> {
    // Orders and records are in one file.
    let idem = Idempotency::builder().store(SqliteStore::open(file)?).build()?;
    idem.install()?;
    let mut options = ConnectOptions::new(format!("sqlite://{}", file.display()));
    options.max_connections(4);
    let pool = OrmPool(Database::connect(options).await?);
    pool.0.get_schema_builder().register(Orders).apply(&pool.0).await?;

    crowd(&idem, &pool).await?;

    let declined = create_order(&idem, &pool, "request-5", true).await;
    assert!(matches!(declined, Err(OrderError::Declined)), "{declined:?}");
    assert_eq!(rows(&pool, "request-5").await?, 0);
    let order = create_order(&idem, &pool, "request-5", false).await?;
    assert_eq!(rows(&pool, "request-5").await?, 1);
    println!("request-5: declined and undone, then order {}", order.id);

    // The caller rolls back, and takes the record with it.
    let mut tx = pool.begin(Isolation::Default).await?;
    create_order_in(&mut tx, "request-6").await?;
    pool.roll_back(tx).await;
    assert_eq!(rows(&pool, "request-6").await?, 0);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut tx = pool.begin(Isolation::Default).await?;
        ids.push(create_order_in(&mut tx, "request-6").await?.id);
        pool.commit(tx).await?;
    }
    assert_eq!((ids[0], rows(&pool, "request-6").await?), (ids[1], 1));
    println!("request-6: rolled back by its caller, then order {}, and again {}", ids[0], ids[1]);

    pool.0.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("sea_orm-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let done = run(&folder.join("shop.db")).await;
    std::fs::remove_dir_all(&folder)?;
    done
}
