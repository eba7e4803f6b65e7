//! Looks at records, which share connections.
//!
//! A look waits for no row and no lock, so the next one can be sent behind it before it is answered.
//! The server then reads several at once, and neither side is woken for each of them. Everything else
//! that the store sends may wait for a transaction, and has a connection to itself.
//!
//! The first look takes a connection from the pool and opens it to others; the last one that is under
//! way on it gives it back. So one look after the other costs what it would cost alone, and no
//! connection is kept for looks. None joins while a statement waits for a connection: it would never get
//! one from a stream of looks that does not end.
//!
//! A look that was sent behind others and is lost with their connection, or waits for long, is sent
//! again by itself. So a connection that has died, or whose answers are held up by a caller who does
//! not take its own, fails no more calls than it would alone.

use super::errors::is_lost_connection;
use super::lock;
use super::pool::{Checkout, Pool};
use super::watchdog::TooLate;
use crate::client::{Param, Row, SqlError};
use idempotent_runtime::store::StoreError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The number of looks that are sent on one connection before another one is opened to them. A server
/// process answers one at a time: a higher number wakes both sides less often, a lower one leaves fewer
/// processors of the server idle.
const DEPTH: usize = 8;
/// The part of the time limit for which a look waits behind others.
const SHARED_PATIENCE: u32 = 4;

/// The connections of one runtime on which looks are under way.
#[derive(Default)]
pub(super) struct Looks {
    connections: Mutex<Vec<Weak<Shared>>>,
    /// The number of statements that wait for a connection. Relaxed: a look that misses one makes it
    /// wait for one look more.
    waiting: AtomicUsize,
}

/// A connection that looks share. It goes back to the pool with the last of them.
struct Shared {
    checkout: Checkout,
    statement: tokio_postgres::Statement,
    /// A look ended before its answer came: its caller went away.
    is_unanswered: AtomicBool,
    /// A look waited for long behind others: no more are sent.
    is_slow: AtomicBool,
    /// An answer did not come in time.
    is_silent: AtomicBool,
}

/// The error of a look.
pub(super) enum LookError {
    /// There was no connection to send it on.
    NotSent(StoreError),
    /// The server refused it, or did not answer.
    Sent(SqlError),
    /// The connection that it shared was lost or slow, which others may have caused.
    Shared,
}

impl Looks {
    /// Runs a statement that waits for nothing. All looks have the same text.
    pub(super) async fn look(
        &self,
        pool: &Pool,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, LookError> {
        if let Some(shared) = self.join() {
            return shared.look_behind(params).await;
        }
        let shared = self.open(pool, text).await?;
        let patience = shared.checkout.patience();
        match shared.look(params, patience).await {
            Ok(answer) => answer.map_err(LookError::Sent),
            Err(TooLate) => {
                shared.is_silent.store(true, Relaxed);
                Err(LookError::Sent(SqlError::lost("no answer in time")))
            }
        }
    }

    /// Takes note of a statement that waits for a connection until this is dropped.
    pub(super) fn make_way(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(&self.waiting)
    }

    /// A connection on which others are under way.
    fn join(&self) -> Option<Arc<Shared>> {
        if self.waiting.load(Relaxed) > 0 {
            return None;
        }
        let mut connections = lock(&self.connections);
        connections.retain(|shared| shared.strong_count() > 0);
        // A count may be outdated at once: the depth is not a limit. One that is dropped here goes back to
        // the pool, whose lock is taken after this one and never before.
        let shallow = connections.iter().filter(|shared| shared.strong_count() < DEPTH);
        shallow.filter_map(Weak::upgrade).find(|shared| shared.is_usable())
    }

    async fn open(&self, pool: &Pool, text: &str) -> Result<Arc<Shared>, LookError> {
        let mut checkout = pool.checkout().await.map_err(LookError::NotSent)?;
        let statement = checkout.prepare(text).await.map_err(LookError::Sent)?;
        let shared = Arc::new(Shared {
            checkout,
            statement,
            is_unanswered: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
        });
        lock(&self.connections).push(Arc::downgrade(&shared));
        Ok(shared)
    }
}

impl Shared {
    /// `false` if the connection is slow or closed, or about to be.
    fn is_usable(&self) -> bool {
        !self.is_slow.load(Relaxed) && !self.is_silent.load(Relaxed) && !self.checkout.is_closed()
    }

    async fn look(
        &self,
        params: &[Param<'_>],
        patience: Duration,
    ) -> Result<Result<Vec<Row>, SqlError>, TooLate> {
        let mut look = Look { shared: self, is_answered: false };
        let answer = self.checkout.query_shared(&self.statement, params, patience).await;
        look.is_answered = answer.is_ok();
        answer
    }

    /// Runs a look behind others, whose faults are not its own.
    async fn look_behind(&self, params: &[Param<'_>]) -> Result<Vec<Row>, LookError> {
        let patience = self.checkout.patience() / SHARED_PATIENCE;
        match self.look(params, patience).await {
            Ok(Err(error)) if is_lost_connection(&error) => Err(LookError::Shared),
            Ok(answer) => answer.map_err(LookError::Sent),
            Err(TooLate) => {
                self.is_slow.store(true, Relaxed);
                Err(LookError::Shared)
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last one to drop it has seen what the others stored: their counts were released before.
        if self.is_silent.load(Relaxed) {
            self.checkout.silent();
        } else if self.is_unanswered.load(Relaxed) {
            self.checkout.under_way();
        }
    }
}

/// A statement that waits for a connection.
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A look that is under way.
struct Look<'a> {
    shared: &'a Shared,
    is_answered: bool,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.shared.is_unanswered.store(true, Relaxed);
        }
    }
}
