//! State machines, locks and versions, as every database must keep them.
//!
//! Each database brings an [`Area`]; the promises are the same functions for all.

pub(crate) mod import;
pub(crate) mod lost_update;
pub(crate) mod machine;
pub(crate) mod stock;

use idempotent_sql::client::{Cell, Param, Preparation, Row, SqlConnection, SqlError, Statement};
use idempotent_sql::{StateMachine, Transitions};
use std::future::Future;

/// A database with tables of one test.
pub(crate) trait Area: Clone + Send + Sync + 'static {
    type Transaction: SqlConnection + 'static;
    type Connection: SqlConnection + 'static;

    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, SqlError>> + Send;

    fn commit(
        &self,
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), SqlError>> + Send;

    /// A connection without a transaction.
    fn connection(&self) -> impl Future<Output = Self::Connection> + Send;
}

/// An area on a pool of sqlx.
macro_rules! sqlx_area {
    ($name:ident, $database:ident) => {
        #[derive(Clone)]
        pub(crate) struct $name {
            pub(crate) pool: sqlx::Pool<sqlx::$database>,
            pub(crate) begin: &'static str,
        }

        impl crate::scenarios::Area for $name {
            type Transaction = sqlx::Transaction<'static, sqlx::$database>;
            type Connection = sqlx::pool::PoolConnection<sqlx::$database>;

            async fn begin(&self) -> Result<Self::Transaction, idempotent_sql::client::SqlError> {
                self.pool.begin_with(self.begin).await.map_err(crate::scenarios::sql_error)
            }

            async fn commit(
                &self,
                transaction: Self::Transaction,
            ) -> Result<(), idempotent_sql::client::SqlError> {
                transaction.commit().await.map_err(crate::scenarios::sql_error)
            }

            async fn connection(&self) -> Self::Connection {
                self.pool.acquire().await.unwrap()
            }
        }
    };
}
pub(crate) use sqlx_area;

/// The error of a BEGIN or a COMMIT, with its code.
pub(crate) fn sql_error(error: sqlx::Error) -> SqlError {
    let code = error.as_database_error().and_then(|it| it.code()).unwrap_or_default().into_owned();
    SqlError::refused(code, error)
}

/// Tables of every test: texts and integers that the three databases read alike.
pub(crate) const TABLES: [&str; 3] = [
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, status VARCHAR(32) NOT NULL)",
    "CREATE TABLE effects (id BIGINT NOT NULL, what VARCHAR(64) NOT NULL)",
    "CREATE TABLE counters (name VARCHAR(32) PRIMARY KEY, value BIGINT NOT NULL, \
     version BIGINT NOT NULL)",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Transitions)]
#[transitions(
    pay: Pending => Paid,
    ship: Paid => Shipped,
    cancel: Pending | Paid => Cancelled,
    undo: Paid => Pending,
    undo: Shipped => Paid,
)]
pub(crate) enum OrderStatus {
    Pending,
    Paid,
    Shipped,
    Cancelled,
}

pub(crate) const ORDERS: StateMachine<OrderStatus> = StateMachine::new("orders", "id", "status");

/// Creates the tables, with one order and one counter.
pub(crate) async fn prepare(area: &impl Area) {
    let mut connection = area.connection().await;
    for table in TABLES {
        run(&mut connection, table).await;
    }
    run(&mut connection, "INSERT INTO orders VALUES (1, 'pending')").await;
    run(&mut connection, "INSERT INTO counters VALUES ('visits', 0, 1)").await;
    ORDERS.migrate(&mut connection).await.unwrap();
    // The second time there is nothing to do.
    ORDERS.migrate(&mut connection).await.unwrap();
}

pub(crate) async fn run(connection: &mut impl SqlConnection, text: &str) -> Vec<Row> {
    try_run(connection, text, &[]).await.unwrap()
}

pub(crate) async fn try_run(
    connection: &mut impl SqlConnection,
    text: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, SqlError> {
    connection.query(Statement { text, params, preparation: Preparation::Named }).await
}

/// The number that a statement shows.
pub(crate) async fn number(connection: &mut impl SqlConnection, text: &str) -> i64 {
    let [number] = integers(connection, text).await;
    number
}

/// The numbers in the row that a statement shows.
pub(crate) async fn integers<const N: usize>(
    connection: &mut impl SqlConnection,
    text: &str,
) -> [i64; N] {
    let row = run(connection, text).await.into_iter().next().expect("a row");
    let cells = row.into_iter().map(|cell| match cell {
        Cell::Integer(value) => value,
        other => panic!("{text}: {other:?}"),
    });
    cells.collect::<Vec<_>>().try_into().expect("as many columns as numbers")
}

/// Runs a transaction until the database does not give it up in favour of another one. The body may
/// use `?` for errors of type `EntityError`.
macro_rules! in_transaction {
    ($area:expr, |$transaction:ident| $body:expr) => {
        loop {
            let attempt = async {
                let mut $transaction = $area.begin().await?;
                let value = $body;
                $area.commit($transaction).await?;
                Ok::<_, idempotent_sql::entity::EntityError>(value)
            };
            match attempt.await {
                Ok(value) => break value,
                Err(error) if error.wants_new_transaction() => tokio::task::yield_now().await,
                Err(error) => panic!("{error} ({:?})", error.kind()),
            }
        }
    };
}
pub(crate) use in_transaction;

/// Runs `callers` at the same time, and returns their answers.
pub(crate) async fn together<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    callers: usize,
    call: impl Fn(usize) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..callers).map(|caller| tokio::spawn(call(caller))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

/// A test of each promise. The module around it has a macro `promise`, which makes a test of it in
/// `every` isolation level, or in `one` of them where no other differs; `$bytes` is the type of columns
/// with bytes.
macro_rules! promises {
    ($bytes:literal) => {
        promise!(one_of_16_applies in every, machine::one_of_many_applies, 16);
        promise!(one_of_64_applies in every, machine::one_of_many_applies, 64);
        promise!(look_then_write_applies_many_times in one, machine::look_then_write_applies_many_times, 16);
        promise!(repeats_are_recognised in every, machine::repeats_are_recognised_after_later_transitions);
        promise!(events_may_happen_again in one, machine::events_may_happen_again_in_a_circle);
        promise!(circles_keep_the_log in every, machine::circles_keep_the_log, 16);
        promise!(rollback_leaves_nothing in one, machine::rollback_leaves_nothing);
        promise!(everything_else_is_told in one, machine::everything_else_is_told);
        promise!(forgotten_entities_begin_again in one, machine::forgotten_entities_begin_again);
        promise!(keys_are_texts_and_bytes in one, machine::keys_are_texts_and_bytes, $bytes);
        promise!(ambiguous_keys_are_refused in one, machine::ambiguous_keys_are_refused);
        promise!(missing_log_is_explained in one, machine::missing_log_is_explained);
        promise!(naive_increments_are_lost in one, lost_update::naive_increments_are_lost, 16);
        promise!(locked_increments_are_kept_16 in every, lost_update::locked_increments_are_kept, 16);
        promise!(locked_increments_are_kept_64 in every, lost_update::locked_increments_are_kept, 64);
        promise!(versioned_increments_are_kept_16 in every, lost_update::versioned_increments_are_kept, 16);
        promise!(versioned_increments_are_kept_64 in one, lost_update::versioned_increments_are_kept, 64);
        promise!(stale_values_are_not_saved in one, lost_update::stale_values_are_not_saved);
        promise!(lock_needs_a_transaction_and_a_row in one, lost_update::lock_needs_a_transaction_and_a_row);
        promise!(naive_callers_sell_too_much in one, stock::naive_callers_sell_too_much, 16);
        promise!(locked_stock_is_sold_once_16 in every, stock::locked_stock_is_sold_once, 16);
        promise!(locked_stock_is_sold_once_64 in every, stock::locked_stock_is_sold_once, 64);
        promise!(versioned_stock_is_sold_once_16 in every, stock::versioned_stock_is_sold_once, 16);
        promise!(versioned_stock_is_sold_once_64 in one, stock::versioned_stock_is_sold_once, 64);
        promise!(every_row_counts_once_16 in every, import::every_row_counts_once, 16);
        promise!(every_row_counts_once_64 in one, import::every_row_counts_once, 64);
        promise!(look_then_insert_counts_many_times in one, import::look_then_insert_counts_many_times, 16);
    };
}
pub(crate) use promises;
