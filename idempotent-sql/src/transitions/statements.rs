//! The statements of a state machine, for each database.
//!
//! A transition is made in the same order everywhere: take the entity's row if its state allows the
//! event, write the log unless it has this transition, and change the state if the log was written.
//! The row comes first because it is what callers of one entity meet at; the log decides because
//! only it can tell a repeat from an event that happens for the second time.

mod log;

pub(super) use log::LogStatements;

use super::{State, Transition};
use crate::client::{Database, Param, Preparation, Row, SqlConnection, SqlError, Statement};
use crate::entity::{EntityError, EntityKey, Identifier};

/// Marks a place for a parameter in a text that is not finished. No name contains it.
const MARK: char = '\u{1}';

/// A parameter of the statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The key, in the type of its column.
    Key,
    /// The key as a text.
    Entity,
    Machine,
    Event,
    Id,
}

impl Slot {
    const ALL: [Self; 5] = [Self::Key, Self::Entity, Self::Machine, Self::Event, Self::Id];

    fn place(self) -> String {
        format!("{MARK}{}", self as usize)
    }
}

/// Values of the parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) key: &'a EntityKey<'a>,
    pub(super) entity: &'a str,
    pub(super) machine: &'a str,
    pub(super) event: &'a str,
    pub(super) id: &'a str,
}

impl<'a> Values<'a> {
    fn param(self, database: Database, slot: Slot) -> Param<'a> {
        let text = match slot {
            Slot::Key => return self.key.param(),
            Slot::Entity => self.entity,
            Slot::Machine => self.machine,
            Slot::Event => self.event,
            Slot::Id => self.id,
        };
        match database {
            // The columns are binary there: texts of MySQL are compared without case and blanks.
            Database::MySql => Param::Bytes(Some(text.as_bytes())),
            _ => Param::Text(Some(text)),
        }
    }
}

/// A text with places for parameters, and the parameters in the order of the places.
#[derive(Clone, Debug)]
pub(super) struct Text {
    text: String,
    slots: Vec<Slot>,
}

impl Text {
    fn new(database: Database, key: &EntityKey<'_>, unfinished: &str) -> Self {
        let mut parts = unfinished.split(MARK);
        let mut text = parts.next().unwrap_or_default().to_owned();
        let mut slots: Vec<Slot> = Vec::new();
        for part in parts {
            let (digit, rest) = part.split_at(1);
            let slot = Slot::ALL[digit.parse::<usize>().unwrap_or_default()];
            let known = slots.iter().position(|it| *it == slot);
            let number = match (database, known) {
                (Database::Postgres | Database::Sqlite, Some(known)) => known + 1,
                _ => {
                    slots.push(slot);
                    slots.len()
                }
            };
            match (database, slot) {
                (_, Slot::Key) => text.push_str(&key.placeholder(database, number)),
                (Database::Postgres, _) => text.push_str(&format!("${number}::text")),
                (Database::Sqlite, _) => text.push_str(&format!("?{number}")),
                (Database::MySql, _) => text.push('?'),
            }
            text.push_str(rest);
        }
        Self { text, slots }
    }

    /// Runs the statement.
    pub(super) async fn run<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
        values: Values<'_>,
    ) -> Result<Vec<Row>, SqlError> {
        let database = connection.database();
        let params: Vec<_> = self.slots.iter().map(|slot| values.param(database, *slot)).collect();
        let preparation = Preparation::Named;
        connection.query(Statement { text: &self.text, params: &params, preparation }).await
    }
}

/// The names of a state machine in statements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) table: Identifier,
    pub(super) key: Identifier,
    pub(super) state: Identifier,
    pub(super) log: Identifier,
}

/// The statements of one event.
#[derive(Debug)]
pub(super) struct Statements {
    database: Database,
    table: String,
    key_column: String,
    state: String,
    log: String,
    /// `'pending', 'paid'`
    sources: String,
    /// `WHEN 'pending' THEN 'paid'`
    cases: String,
}

impl Statements {
    pub(super) fn new<S: State>(
        database: Database,
        names: Names,
        transition: Transition<S>,
    ) -> Result<Self, EntityError> {
        let (mut sources, mut cases) = (Vec::new(), String::new());
        for edge in transition.edges() {
            let (from, to) = (literal(edge.from.as_str())?, literal(edge.to.as_str())?);
            cases.push_str(&format!(" WHEN {from} THEN {to}"));
            sources.push(from);
        }
        if sources.is_empty() {
            let event = transition.event();
            return Err(EntityError::invalid(format!("no transition is called `{event}`")));
        }
        Ok(Self {
            database,
            table: names.table.quoted(database),
            key_column: names.key.quoted(database),
            state: names.state.quoted(database),
            log: names.log.quoted(database),
            sources: sources.join(", "),
            cases,
        })
    }

    /// The log row of this entity, event and id.
    fn logged(&self) -> String {
        format!("{} AND id = {}", self.happened(), Slot::Id.place())
    }

    /// The log rows of this entity and event.
    fn happened(&self) -> String {
        format!(
            "FROM {} WHERE machine = {} AND entity = {} AND event = {}",
            self.log,
            Slot::Machine.place(),
            Slot::Entity.place(),
            Slot::Event.place()
        )
    }

    /// The row of this entity.
    fn entity(&self) -> String {
        format!("FROM {} WHERE {} = {}", self.table, self.key_column, Slot::Key.place())
    }

    /// The columns of a [`Look`](super::decide::Look). `lock` follows each part of it.
    fn look_columns(&self, lock: &str) -> String {
        let Self { state, .. } = self;
        let (logged, happened, entity) = (self.logged(), self.happened(), self.entity());
        // An enum of PostgreSQL is no text.
        let state = match self.database {
            Database::Postgres => format!("{state}::text"),
            _ => state.clone(),
        };
        format!(
            "(SELECT count(*) {logged}{lock}), (SELECT count(*) {entity}{lock}), \
             (SELECT {state} {entity} LIMIT 1{lock}), \
             (SELECT id {happened} ORDER BY number DESC LIMIT 1{lock})"
        )
    }

    /// Shows the entity and its log.
    pub(super) fn look(&self, key: &EntityKey<'_>) -> Text {
        Text::new(self.database, key, &format!("SELECT {}", self.look_columns("")))
    }

    /// Shows the entity and its log as they were committed last. A transaction of MySQL under
    /// REPEATABLE READ otherwise sees them as they were at its first statement.
    pub(super) fn look_at_newest(&self, key: &EntityKey<'_>) -> Text {
        let lock = if self.database == Database::MySql { " LOCK IN SHARE MODE" } else { "" };
        Text::new(self.database, key, &format!("SELECT {}", self.look_columns(lock)))
    }

    /// PostgreSQL: everything in one statement. Shows the number of rows that were changed, the
    /// states before and after, and a look at what the statement found.
    ///
    /// The statement sees what was committed when it began, except `held`, which waits for another
    /// caller of the same entity and then has the newest row. If that row no longer allows the
    /// event nothing is held, and the look, which is older, says that it is allowed: the caller
    /// asks again. If the row allows the event again, since it has gone round in a circle, the log
    /// has the row of the repeat by now, and `logged` is empty.
    pub(super) fn apply_in_one(&self, key: &EntityKey<'_>) -> Text {
        let Self { table, key_column, state, log, sources, cases, .. } = self;
        let [entity, machine, event, id] =
            [Slot::Entity, Slot::Machine, Slot::Event, Slot::Id].map(Slot::place);
        let text = format!(
            "WITH held AS (\
               SELECT {state}::text AS state {the_entity} AND {state} IN ({sources}) \
               AND NOT EXISTS (SELECT {logged}) FOR NO KEY UPDATE\
             ), logged AS (\
               INSERT INTO {log} (machine, entity, event, id, from_state, to_state) \
               SELECT {machine}, {entity}, {event}, {id}, held.state, CASE held.state{cases} END \
               FROM held ON CONFLICT DO NOTHING RETURNING from_state, to_state\
             ), moved AS (\
               UPDATE {table} AS moving \
               SET {state} = CASE moving.{state}{cases} ELSE moving.{state} END \
               FROM logged WHERE moving.{key_column} = {key} RETURNING 1\
             ) SELECT (SELECT count(*) FROM moved), (SELECT from_state FROM logged), \
             (SELECT to_state FROM logged), {look}",
            the_entity = self.entity(),
            logged = self.logged(),
            key = Slot::Key.place(),
            look = self.look_columns(""),
        );
        Text::new(self.database, key, &text)
    }

    /// SQLite, MySQL: takes the entity's row if its state allows the event, and writes the log
    /// unless it has this transition. SQLite shows the states before and after.
    pub(super) fn write_log(&self, key: &EntityKey<'_>) -> Text {
        let Self { table, key_column, state, log, sources, cases, .. } = self;
        let [key_place, entity, machine, event, id] = Slot::ALL.map(Slot::place);
        let (insert, now, rest) = match self.database {
            Database::MySql => ("INSERT IGNORE", "UTC_TIMESTAMP(6)", "FOR UPDATE"),
            _ => (
                "INSERT",
                "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
                "ON CONFLICT DO NOTHING RETURNING from_state, to_state",
            ),
        };
        let text = format!(
            "{insert} INTO {log} (machine, entity, event, id, from_state, to_state, happened_at) \
             SELECT {machine}, {entity}, {event}, {id}, taken.{state}, \
             CASE taken.{state}{cases} END, {now} FROM {table} AS taken \
             WHERE taken.{key_column} = {key_place} AND taken.{state} IN ({sources}) {rest}"
        );
        Text::new(self.database, key, &text)
    }

    /// MySQL: the states before and after, if the statement before this one has written the log.
    pub(super) fn written(&self, key: &EntityKey<'_>) -> Text {
        let text = format!("SELECT ROW_COUNT(), from_state, to_state {}", self.logged());
        Text::new(self.database, key, &text)
    }

    /// SQLite, MySQL: changes the state of a row that this transaction has taken. SQLite shows a row
    /// for each that was changed.
    pub(super) fn change_state(&self, key: &EntityKey<'_>) -> Text {
        let Self { table, key_column, state, cases, .. } = self;
        let text = format!(
            "UPDATE {table} SET {state} = CASE {state}{cases} ELSE {state} END \
             WHERE {key_column} = {}{}",
            Slot::Key.place(),
            if self.database == Database::Sqlite { " RETURNING 1" } else { "" },
        );
        Text::new(self.database, key, &text)
    }
}

/// The name of a state in a statement: a literal, which is also one of an enum type.
fn literal(name: &str) -> Result<String, EntityError> {
    if name.contains(|it: char| matches!(it, '\'' | '"' | '\\' | '`') || it.is_control()) {
        return Err(EntityError::invalid(format!("`{name}` cannot be stored as a state")));
    }
    Ok(format!("'{name}'"))
}
