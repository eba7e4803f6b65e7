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

use super::lock;
use super::pool::{Checkout, Pool};
use super::watchdog::TooLate;
use crate::client::{Param, Row, SqlError};
use idempotent_runtime::store::StoreError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// The number of looks that are sent on one connection before another one is opened to them. A server
/// process answers one at a time: a higher number wakes both sides less often, a lower one leaves fewer
/// processors of the server idle.
const DEPTH: usize = 8;

/// The connections of one runtime on which looks are under way.
#[derive(Default)]
pub(super) struct Looks(Mutex<Vec<Weak<Shared>>>);

/// A connection that looks share. It goes back to the pool with the last of them.
struct Shared {
    checkout: Checkout,
    statement: tokio_postgres::Statement,
    /// A look ended before its answer came: its caller went away.
    is_unanswered: AtomicBool,
    /// An answer did not come in time.
    is_silent: AtomicBool,
}

/// The error of a look.
pub(super) enum LookError {
    /// There was no connection to send it on.
    NotSent(StoreError),
    /// The server refused it, or did not answer.
    Sent(SqlError),
}

impl Looks {
    /// Runs a statement that waits for nothing. All looks have the same text.
    pub(super) async fn look(
        &self,
        pool: &Pool,
        may_join: bool,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, LookError> {
        let joined = if may_join { self.join() } else { None };
        let shared = match joined {
            Some(shared) => shared,
            None => self.open(pool, text).await?,
        };
        let mut look = Look { shared: &shared, is_answered: false };
        let answer = shared.checkout.query_shared(&shared.statement, params).await;
        look.is_answered = true;
        match answer {
            Ok(answer) => answer.map_err(LookError::Sent),
            Err(TooLate) => {
                shared.is_silent.store(true, Relaxed);
                Err(LookError::Sent(SqlError::lost("no answer in time")))
            }
        }
    }

    /// A connection on which others are under way.
    fn join(&self) -> Option<Arc<Shared>> {
        let mut connections = lock(&self.0);
        connections.retain(|shared| shared.strong_count() > 0);
        // A count may be outdated at once: the depth is not a limit. One that is dropped here goes back to
        // the pool, whose lock is taken after this one and never before.
        let shallow = connections.iter().filter(|shared| shared.strong_count() < DEPTH);
        shallow.filter_map(Weak::upgrade).find(|shared| shared.is_usable())
    }

    async fn open(&self, pool: &Pool, text: &str) -> Result<Arc<Shared>, LookError> {
        let mut checkout = pool.checkout().await.map_err(LookError::NotSent)?;
        let statement = checkout.prepare(text).await.map_err(LookError::Sent)?;
        let (is_unanswered, is_silent) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { checkout, statement, is_unanswered, is_silent });
        lock(&self.0).push(Arc::downgrade(&shared));
        Ok(shared)
    }
}

impl Shared {
    /// `false` if the connection is closed, or about to be.
    fn is_usable(&self) -> bool {
        !self.is_silent.load(Relaxed) && !self.checkout.is_closed()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever drops it last has seen what the others stored: their counts were released before.
        if self.is_silent.load(Relaxed) {
            self.checkout.silent();
        } else if self.is_unanswered.load(Relaxed) {
            self.checkout.under_way();
        }
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
