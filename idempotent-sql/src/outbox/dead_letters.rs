//! Dead letters and the backlog, for operators.

use super::relay::read_message;
use super::statements::Statements;
use super::{Outbox, OutboxError, OutboxMessage};
use crate::client::{Param, SqlConnection, SqlError};
use std::time::{Duration, SystemTime};

/// A message that is not sent any more, until an operator has decided about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message.
    pub message: OutboxMessage,
    /// The time of its last failure, by the clock of the database.
    pub dead_since: SystemTime,
    /// The error of its last delivery.
    pub last_error: String,
    /// The place in the listing: [`Outbox::dead_letters`] continues after it.
    pub number: i64,
}

/// The messages that are in an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Messages that are to be sent.
    pub waiting: u64,
    /// Dead letters.
    pub dead: u64,
    /// The age of the oldest message that is to be sent.
    pub oldest: Option<Duration>,
}

impl Outbox {
    /// Lists dead letters in the order in which they were sent, at most `limit`, after the one with
    /// this [number](DeadLetter::number); 0 for the first page.
    ///
    /// # Errors
    ///
    /// Fails if the database refuses, or does not answer.
    pub async fn dead_letters<C>(
        &self,
        connection: &mut C,
        after: i64,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let text = Statements::new(self.table, connection.database()).dead_letters();
        let params = [Param::from(after), Param::from(i64::from(limit))];
        let mut letters = Vec::new();
        for mut row in self.run(connection, &text, &params).await? {
            let number = row.integer()?.ok_or_else(missing)?;
            let (mut message, _) = read_message(&mut row)?;
            let attempts = row.integer()?.unwrap_or_default();
            message.failures = u32::try_from(attempts).unwrap_or(u32::MAX);
            let since = u64::try_from(row.integer()?.unwrap_or_default()).unwrap_or_default();
            let dead_since = SystemTime::UNIX_EPOCH + Duration::from_millis(since);
            let last_error = row.text()?.unwrap_or_default();
            letters.push(DeadLetter { message, dead_since, last_error, number });
        }
        Ok(letters)
    }

    /// Sends a dead letter again, with as many attempts as a fresh message has. Returns `false` if no
    /// dead letter has this id.
    ///
    /// Relays find it when they next look. Later messages of its key may have been delivered before, if
    /// dead letters are [skipped](super::DeadLetterPolicy::Skip).
    ///
    /// # Errors
    ///
    /// Fails if the database refuses, or does not answer.
    pub async fn retry_dead_letter<C>(
        &self,
        connection: &mut C,
        id: &str,
    ) -> Result<bool, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let text = Statements::new(self.table, connection.database()).revive();
        self.change_dead(connection, id, &text).await
    }

    /// Deletes a dead letter: it is never sent, and the messages behind it are. Returns `false` if no
    /// dead letter has this id.
    ///
    /// # Errors
    ///
    /// Fails if the database refuses, or does not answer.
    pub async fn discard_dead_letter<C>(
        &self,
        connection: &mut C,
        id: &str,
    ) -> Result<bool, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let text = Statements::new(self.table, connection.database()).discard();
        self.change_dead(connection, id, &text).await
    }

    async fn change_dead<C>(
        &self,
        connection: &mut C,
        id: &str,
        text: &str,
    ) -> Result<bool, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let find = Statements::new(self.table, connection.database()).find_dead();
        let found = self.run(connection, &find, &[Param::from(id)]).await?;
        let Some(mut row) = found.into_iter().next() else { return Ok(false) };
        let number = row.integer()?.ok_or_else(missing)?;
        self.run(connection, text, &[Param::from(number)]).await?;
        Ok(true)
    }

    /// Counts the messages. This reads the whole table.
    ///
    /// # Errors
    ///
    /// Fails if the database refuses, or does not answer.
    pub async fn backlog<C>(&self, connection: &mut C) -> Result<Backlog, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let text = Statements::new(self.table, connection.database()).backlog();
        let rows = self.run(connection, &text, &[]).await?;
        let mut row = rows.into_iter().next().ok_or_else(missing)?;
        let mut count = || -> Result<u64, SqlError> {
            Ok(u64::try_from(row.integer()?.unwrap_or_default()).unwrap_or_default())
        };
        let (all, dead) = (count()?, count()?);
        let age = row.integer()?.map(|age| u64::try_from(age).unwrap_or_default());
        Ok(Backlog {
            waiting: all.saturating_sub(dead),
            dead,
            oldest: age.map(Duration::from_millis),
        })
    }
}

fn missing() -> SqlError {
    SqlError::unexpected("a value is missing")
}
