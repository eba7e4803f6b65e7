//! State machines on the rows of a table.

use super::decide::{Decision, Look, decide, state_named};
use super::statements::{Names, Statements, Values};
use super::{State, Transition, TransitionId, TransitionOutcome};
use crate::client::{Database, SqlConnection, SqlError};
use crate::entity::{EntityError, EntityKey, Identifier, not_unique, transaction};
use std::fmt;
use std::marker::PhantomData;

/// Changes the states of entities: rows of a table of the user's own.
///
/// As a constant, its names are checked when the program is compiled:
///
/// ```
/// use idempotent_sql::transitions::{StateMachine, Transitions};
///
/// #[derive(Transitions)]
/// #[transitions(publish: Draft => Public, withdraw: Public => Draft)]
/// enum Article {
///     Draft,
///     Public,
/// }
///
/// const ARTICLES: StateMachine<Article> = StateMachine::new("articles", "slug", "state");
/// ```
///
/// The key column is the primary key, or unique. The state column holds texts; in PostgreSQL and
/// MySQL it may be of an enum type. The rest of the table, and how rows get there, is the user's.
pub struct StateMachine<S> {
    pub(super) names: Names,
    states: PhantomData<fn() -> S>,
}

/// Attempts to see the entity as it is. Each further one means that another transaction has changed
/// it between two statements.
const ATTEMPTS: usize = 64;

impl<S> StateMachine<S> {
    /// The name of the log table by default.
    pub const LOG: &'static str = "idempotent_transitions";

    /// A state machine on this table, with this key column and this state column.
    ///
    /// # Panics
    ///
    /// Panics if a name is not one of a table or column: letters, digits and `_`, and a dot between
    /// a schema and its table. Names are quoted, so upper and lower case are kept.
    pub const fn new(
        table: &'static str,
        key_column: &'static str,
        state_column: &'static str,
    ) -> Self
    where
        S: State,
    {
        let names = Names {
            table: Identifier::new(table),
            key: Identifier::new(key_column),
            state: Identifier::new(state_column),
            log: Identifier::new(Self::LOG),
        };
        Self { names, states: PhantomData }
    }

    /// Keeps the log in this table instead of [`LOG`](Self::LOG). State machines of several tables
    /// can share one.
    ///
    /// # Panics
    ///
    /// Panics if it is not the name of a table.
    pub const fn log_table(self, name: &'static str) -> Self {
        let Names { table, key, state, .. } = self.names;
        let log = Identifier::new(name);
        Self { names: Names { table, key, state, log }, states: PhantomData }
    }
}

impl<S: State> StateMachine<S> {
    /// The name of the state machine in the log.
    pub(super) fn machine(&self) -> String {
        format!("{}.{}", self.names.table.as_str(), self.names.state.as_str())
    }

    /// Applies a transition to an entity, once for each id.
    ///
    /// Everything that belongs to the transition goes into the same transaction, and follows
    /// [`Applied`](TransitionOutcome::Applied) only.
    ///
    /// In PostgreSQL this is one statement. In SQLite and MySQL it takes several, and needs an open
    /// transaction, without which a transition is refused. A caller that meets another one of the
    /// same entity waits for the end of its transaction.
    ///
    /// # Errors
    ///
    /// * [`NoTransaction`](crate::entity::EntityErrorKind::NoTransaction): see above;
    /// * [`UnknownState`](crate::entity::EntityErrorKind::UnknownState): the row has a state that
    ///   `S` does not have;
    /// * [`NotUnique`](crate::entity::EntityErrorKind::NotUnique): several rows have this key;
    /// * [`Invalid`](crate::entity::EntityErrorKind::Invalid): the key or the id is empty, has more
    ///   than 700 bytes or contains NUL;
    /// * [`Sql`](crate::entity::EntityErrorKind::Sql): anything that the database reports, among
    ///   them transactions [to be repeated](EntityError::wants_new_transaction).
    ///
    /// After an error the transaction must be rolled back.
    pub async fn apply<'k, 'i, C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
        key: impl Into<EntityKey<'k>> + Send,
        transition: Transition<S>,
        id: impl Into<TransitionId<'i>> + Send,
    ) -> Result<TransitionOutcome<S>, EntityError> {
        let (key, id) = (key.into(), id.into());
        key.check()?;
        id.check()?;
        let (entity, machine) = (key.text(), self.machine());
        let call = Call {
            names: self.names,
            statements: Statements::new(connection.database(), self.names, transition)?,
            transition,
            values: Values {
                key: &key,
                entity: &entity,
                machine: &machine,
                event: transition.event(),
                id: id.as_str(),
            },
        };
        let answer = match connection.database() {
            Database::Postgres => call.in_one_statement(connection).await,
            Database::Sqlite => call.write_first(connection).await,
            Database::MySql => call.look_first(connection).await,
        };
        answer.map_err(|error| match self.is_log_missing(&error) {
            true => error.with_help("create the log with `StateMachine::migrate`"),
            false => error,
        })
    }

    fn is_log_missing(&self, error: &EntityError) -> bool {
        let (text, log) = (error.to_string(), self.names.log.as_str());
        let log = log.rsplit('.').next().unwrap_or(log);
        error.sql().is_some_and(|error| {
            let is_table = error.is("42P01") || error.is("1146");
            (is_table || text.contains("no such table")) && text.contains(log)
        })
    }
}

/// One transition of one entity.
struct Call<'a, S> {
    names: Names,
    statements: Statements,
    transition: Transition<S>,
    values: Values<'a>,
}

impl<S: State> Call<'_, S> {
    /// PostgreSQL. A statement that has waited for another caller has an old look: the next one
    /// sees what that caller committed.
    async fn in_one_statement<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
    ) -> Result<TransitionOutcome<S>, EntityError> {
        let text = self.statements.apply_in_one(self.values.key);
        for _ in 0..ATTEMPTS {
            let mut row = first(text.run(connection, self.values).await?)?;
            let changed = row.integer()?.unwrap_or_default();
            let (from, to) = (row.text()?, row.text()?);
            match (changed, &from) {
                (0, None) => {}
                (1, Some(_)) => return applied(from, to),
                // A trigger has kept the row as it was, or a policy does not let it be changed.
                (0, Some(_)) => return Err(unchanged()),
                (..) => return Err(self.not_unique()),
            }
            if let Some(answer) = self.answer(Look::read(&mut row)?)? {
                return Ok(answer);
            }
        }
        Err(restless())
    }

    /// SQLite. The first statement is a write: a transaction that begins with it waits for the
    /// writer before it, where one that has read would have to be repeated. From then on there is
    /// no other writer.
    async fn write_first<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
    ) -> Result<TransitionOutcome<S>, EntityError> {
        transaction::require(connection, "apply").await?;
        let written = self.statements.write_log(self.values.key);
        let written = written.run(connection, self.values).await?;
        let Some(mut states) = written.into_iter().next() else {
            let look = self.statements.look(self.values.key);
            let mut look = first(look.run(connection, self.values).await?)?;
            return self.answer(Look::read(&mut look)?)?.ok_or_else(restless);
        };
        let (from, to) = (states.text()?, states.text()?);
        self.change_state(connection).await?;
        applied(from, to)
    }

    /// MySQL. The first statement is a look without locks: a locking one would keep the gap of an
    /// entity that is not there, and so block the inserts of others.
    async fn look_first<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
    ) -> Result<TransitionOutcome<S>, EntityError> {
        let look = self.statements.look(self.values.key);
        let look_at_newest = self.statements.look_at_newest(self.values.key);
        for attempt in 0..ATTEMPTS {
            // Under REPEATABLE READ every look is the same, and the third one takes locks.
            let look = if attempt < 2 { &look } else { &look_at_newest };
            let mut row = first(look.run(connection, self.values).await?)?;
            if let Some(answer) = self.answer(Look::read(&mut row)?)? {
                return Ok(answer);
            }
            if attempt == 0 {
                transaction::require(connection, "apply").await?;
            }
            self.statements.write_log(self.values.key).run(connection, self.values).await?;
            let written = self.statements.written(self.values.key);
            let written = written.run(connection, self.values).await?.into_iter().next();
            let Some(mut states) = written else { continue };
            if states.integer()? == Some(1) {
                let (from, to) = (states.text()?, states.text()?);
                self.change_state(connection).await?;
                return applied(from, to);
            }
        }
        Err(restless())
    }

    async fn change_state<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
    ) -> Result<(), EntityError> {
        let change = self.statements.change_state(self.values.key);
        let changed = change.run(connection, self.values).await?;
        match (connection.database(), changed.len()) {
            (Database::Sqlite, 0) => Err(unchanged()),
            (Database::Sqlite, 2..) => Err(self.not_unique()),
            // In MySQL the look has counted the rows.
            _ => Ok(()),
        }
    }

    /// The answer that a look gives; none if the state allows the event.
    fn answer(&self, look: Look) -> Result<Option<TransitionOutcome<S>>, EntityError> {
        match decide(look, self.transition)? {
            Decision::Answer(answer) => Ok(Some(answer)),
            Decision::Allowed => Ok(None),
            Decision::NotUnique => Err(self.not_unique()),
        }
    }

    fn not_unique(&self) -> EntityError {
        not_unique(self.names.table, self.names.key)
    }
}

fn applied<S: State>(
    from: Option<String>,
    to: Option<String>,
) -> Result<TransitionOutcome<S>, EntityError> {
    let (from, to) = (state_named(from.as_deref())?, state_named(to.as_deref())?);
    Ok(TransitionOutcome::Applied { from, to })
}

fn first<T>(rows: Vec<T>) -> Result<T, SqlError> {
    rows.into_iter().next().ok_or_else(|| SqlError::unexpected("a row was expected"))
}

fn unchanged() -> EntityError {
    SqlError::unexpected(
        "the state was not changed, though the row was locked: a trigger or a policy prevents it\n\
         help: roll back",
    )
    .into()
}

fn restless() -> EntityError {
    SqlError::unexpected("the entity changes between one statement and the next\nhelp: roll back")
        .into()
}

impl<S> Clone for StateMachine<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for StateMachine<S> {}

impl<S> fmt::Debug for StateMachine<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StateMachine").field("names", &self.names).finish()
    }
}
