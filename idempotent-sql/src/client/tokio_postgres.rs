//! Connections and transactions of tokio-postgres.

use super::{Cell, Database, Param, Preparation, Row, SqlConnection, SqlError, Statement};
use bytes::BytesMut;
use futures_util::future::join_all;
use std::error::Error as StdError;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, GenericClient, Transaction};

/// A client with the statements that it has prepared.
#[derive(Debug)]
pub(crate) struct PostgresClient {
    pub(crate) client: Arc<Client>,
    /// The task that drives the connection. It waits for the answers to what was sent, also when the
    /// client is dropped.
    driver: AbortHandle,
    /// By their texts. There are few, and most differ in length: to compare them is quicker than to
    /// compute a hash of a long text.
    prepared: Vec<(String, tokio_postgres::Statement)>,
}

impl PostgresClient {
    pub(crate) fn new(client: Client, driver: AbortHandle) -> Self {
        Self { client: Arc::new(client), driver, prepared: Vec::new() }
    }

    /// Closes the connection at once, whatever is under way on it.
    pub(crate) fn close(self) {
        self.driver.abort();
    }

    /// Closes the connection after the answers to what was sent, and returns a handle that closes it
    /// before they come.
    pub(crate) fn finish(self) -> AbortHandle {
        self.driver
    }

    /// Prepares a statement, if that has not been done on this connection.
    pub(crate) async fn prepare(
        &mut self,
        text: &str,
    ) -> Result<tokio_postgres::Statement, SqlError> {
        if let Some((_, prepared)) = self.prepared.iter().find(|(known, _)| known == text) {
            return Ok(prepared.clone());
        }
        let prepared = self.client.prepare(text).await.map_err(sql_error)?;
        self.prepared.push((text.to_owned(), prepared.clone()));
        Ok(prepared)
    }

    /// A prepared statement with its parameters, to be sent when it is polled for the first time, and
    /// waited for beside other statements.
    pub(crate) async fn later(
        &mut self,
        statement: Statement<'_>,
    ) -> Result<impl Future<Output = Result<(), SqlError>> + Send + use<>, SqlError> {
        let prepared = self.prepare(statement.text).await?;
        let params: Vec<Cell> = statement.params.iter().map(Cell::from).collect();
        let client = Arc::clone(&self.client);
        Ok(async move {
            let params: Vec<_> = params.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
            client.query(&prepared, &params).await.map(drop).map_err(sql_error)
        })
    }

    /// The form in which a statement is run. Behind a pooler, one that was prepared before is on another
    /// connection.
    async fn form(
        &mut self,
        statement: &Statement<'_>,
    ) -> Result<Option<tokio_postgres::Statement>, SqlError> {
        match statement.preparation {
            Preparation::Named => self.prepare(statement.text).await.map(Some),
            Preparation::Unnamed => Ok(None),
        }
    }

    async fn run(
        &self,
        statement: Statement<'_>,
        prepared: Option<tokio_postgres::Statement>,
    ) -> Result<Vec<Row>, SqlError> {
        match prepared {
            Some(prepared) => self.run_prepared(&prepared, statement.params).await,
            None => unnamed(&*self.client, statement).await,
        }
    }

    /// Runs a prepared statement. Others can be sent before it is answered.
    pub(crate) async fn run_prepared(
        &self,
        prepared: &tokio_postgres::Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, SqlError> {
        let params: Vec<_> = params.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
        let rows = self.client.query(prepared, &params).await.map_err(sql_error)?;
        rows.iter().map(row).collect()
    }
}

impl SqlConnection for PostgresClient {
    fn database(&self) -> Database {
        Database::Postgres
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
        let prepared = self.form(&statement).await?;
        self.run(statement, prepared).await
    }

    // Sent without waiting for the answers in between.
    async fn query_each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, SqlError> {
        let mut forms = Vec::with_capacity(statements.len());
        for statement in statements {
            forms.push((*statement, self.form(statement).await?));
        }
        let runs = forms.into_iter().map(|(statement, prepared)| self.run(statement, prepared));
        in_order(join_all(runs).await)
    }
}

impl SqlConnection for Transaction<'_> {
    fn database(&self) -> Database {
        Database::Postgres
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, SqlError> {
        unnamed(self, statement).await
    }

    async fn query_each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, SqlError> {
        let transaction = &*self;
        let answers =
            join_all(statements.iter().map(|statement| unnamed(transaction, *statement))).await;
        in_order(answers)
    }
}

/// The answers to statements that were sent together, or the error of the first that failed. Those
/// behind it are refused because of it, and their errors do not say why.
fn in_order(answers: Vec<Result<Vec<Row>, SqlError>>) -> Result<Vec<Vec<Row>>, SqlError> {
    answers.into_iter().collect()
}

/// Parses, binds and runs a statement in one round trip.
async fn unnamed(
    client: &impl GenericClient,
    statement: Statement<'_>,
) -> Result<Vec<Row>, SqlError> {
    let params: Vec<_> =
        statement.params.iter().map(|it| (it as &(dyn ToSql + Sync), type_of(it))).collect();
    let rows = client.query_typed(statement.text, &params).await.map_err(sql_error)?;
    rows.iter().map(row).collect()
}

fn type_of(param: &Param<'_>) -> Type {
    match param {
        Param::Integer(_) => Type::INT8,
        Param::Bytes(_) => Type::BYTEA,
        Param::Text(_) => Type::TEXT,
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, SqlError> {
    let cells: Result<Vec<_>, _> = (0..row.len()).map(|at| row.try_get::<_, Cell>(at)).collect();
    cells.map(Row::new).map_err(|error| SqlError::unexpected(error.to_string()))
}

pub(crate) fn sql_error(error: Error) -> SqlError {
    match error.code() {
        Some(code) => SqlError::refused(code.code().to_owned(), error),
        None => SqlError::lost(error),
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        column: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Param::Integer(value) => value.to_sql(column, out),
            Param::Bytes(value) => value.to_sql(column, out),
            Param::Text(value) => value.to_sql(column, out),
        }
    }

    fn accepts(column: &Type) -> bool {
        [Type::INT8, Type::BYTEA, Type::TEXT].contains(column)
    }

    to_sql_checked!();
}

/// For statements that outlive their caller.
impl ToSql for Cell {
    fn to_sql(
        &self,
        column: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) => value.to_sql(column, out),
            Self::Bytes(value) => value.to_sql(column, out),
            Self::Text(value) => value.to_sql(column, out),
        }
    }

    fn accepts(column: &Type) -> bool {
        <Param<'_> as ToSql>::accepts(column)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(column: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(match *column {
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            Type::INT8 => Self::Integer(i64::from_sql(column, raw)?),
            Type::INT4 => Self::Integer(i32::from_sql(column, raw)?.into()),
            Type::BOOL => Self::Integer(bool::from_sql(column, raw)?.into()),
            _ => Self::Text(String::from_sql(column, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(column: &Type) -> bool {
        matches!(*column, Type::BYTEA | Type::INT8 | Type::INT4 | Type::BOOL)
            || <String as FromSql<'_>>::accepts(column)
    }
}
