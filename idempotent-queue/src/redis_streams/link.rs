//! A connection that is made again after it was lost.

use super::error::{ends_connection, is_unanswered};
use super::servers::{Connection, Servers};
use crate::settlement::Pauses;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ScriptInvocation, Value};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Pauses between attempts to connect, and to read.
pub(super) const PAUSES: Pauses =
    Pauses { first: Duration::from_millis(20), longest: Duration::from_secs(2) };

/// A connection that is made with the first request, and again after it was lost.
///
/// While no server can be reached, requests fail at once: one attempt to connect is made at a time,
/// with growing pauses between them.
pub(super) struct Link {
    servers: Servers,
    connect: Duration,
    answer: Duration,
    current: Mutex<Current>,
    /// Held while a connection is made.
    connecting: tokio::sync::Mutex<Attempts>,
}

#[derive(Default)]
struct Current {
    connection: Option<Connection>,
    /// The number of the connection, which tells it from those before and after it.
    number: u64,
}

#[derive(Default)]
struct Attempts {
    failures: u32,
    until: Option<Instant>,
    error: String,
}

/// A request to a server.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    Command(&'a Cmd),
    Script(&'a ScriptInvocation<'a>),
}

impl Link {
    /// A link whose server may take `answer` for a request. Nothing is connected yet.
    pub(super) fn new(servers: Servers, connect: Duration, answer: Duration) -> Self {
        let (current, connecting) = Default::default();
        Self { servers, connect, answer, current, connecting }
    }

    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Sends a request once.
    pub(super) async fn ask(&self, request: Request<'_>) -> RedisResult<Value> {
        let (mut connection, number) = self.connection().await?;
        let answer = match request {
            Request::Command(command) => command.query_async(&mut connection).await,
            Request::Script(script) => script.invoke_async(&mut connection).await,
        };
        answer.inspect_err(|error| {
            if ends_connection(error) {
                self.discard(number);
            }
        })
    }

    /// Sends a request, and once more on another connection if it was not answered. For those that may
    /// take effect twice.
    pub(super) async fn ask_again(&self, request: Request<'_>) -> RedisResult<Value> {
        match self.ask(request).await {
            Err(error) if is_unanswered(&error) => self.ask(request).await,
            answer => answer,
        }
    }

    async fn connection(&self) -> RedisResult<(Connection, u64)> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let mut attempts = self.connecting.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if attempts.until.is_some_and(|until| Instant::now() < until) {
            return Err((ErrorKind::Io, "not connected", attempts.error.clone()).into());
        }
        match self.servers.connect(self.connect, self.answer).await {
            Ok(connection) => {
                *attempts = Attempts::default();
                let mut current = self.lock();
                current.number += 1;
                current.connection = Some(connection.clone());
                Ok((connection, current.number))
            }
            Err(error) => {
                attempts.failures = attempts.failures.saturating_add(1);
                attempts.until = Some(Instant::now() + PAUSES.after(attempts.failures));
                attempts.error = RedisError::to_string(&error);
                Err(error)
            }
        }
    }

    fn current(&self) -> Option<(Connection, u64)> {
        let current = self.lock();
        current.connection.clone().map(|connection| (connection, current.number))
    }

    /// Forgets a connection, unless another one has taken its place.
    fn discard(&self, number: u64) {
        let mut current = self.lock();
        if current.number == number {
            current.connection = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.servers.fmt(formatter)
    }
}
