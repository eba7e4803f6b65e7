//! Callers that wait for an attempt to end.
//!
//! The writer wakes those of this process itself. Attempts that end in other processes are noticed
//! by the reader thread: while anybody waits, it asks every few milliseconds whether another
//! connection has written at all, which costs next to nothing, and only then looks at the records
//! that are waited for.

use super::file::File;
use super::records::look;
use crate::columns::KeyColumns;
use crate::store_parts::lock;
use idempotent_runtime::store::{State, Token, Watch};
use rusqlite::{Connection, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

/// Watches by the names of their keys.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<Vec<u8>, Watched>>);

#[derive(Debug)]
struct Watched {
    notify: Weak<Notify>,
    /// The attempt that is waited for, once the reader thread has seen it.
    token: Option<Token>,
}

impl Watches {
    /// Watches a record from now on.
    pub(super) fn watch(&self, key: &KeyColumns<'_>) -> Watch {
        let notify = self.notify(&key.name);
        let mut notified = Box::pin(Arc::clone(&notify).notified_owned());
        notified.as_mut().enable();
        Watch::new(async move {
            notified.await;
            // Until then it is what keeps the key watched.
            drop(notify);
        })
    }

    fn notify(&self, name: &[u8]) -> Arc<Notify> {
        let mut watched = lock(&self.0);
        if let Some(notify) = watched.get(name).and_then(|it| it.notify.upgrade()) {
            return notify;
        }
        let notify = Arc::new(Notify::new());
        let entry = Watched { notify: Arc::downgrade(&notify), token: None };
        watched.insert(name.to_vec(), entry);
        notify
    }

    /// Wakes those that wait for a record.
    pub(super) fn ended(&self, key: &KeyColumns<'_>) {
        self.wake(&key.name);
    }

    fn wake(&self, name: &[u8]) {
        let gone = lock(&self.0).remove(name);
        if let Some(notify) = gone.and_then(|gone| gone.notify.upgrade()) {
            notify.notify_waiters();
        }
    }

    /// `true` if anybody waits. Forgets those that do not any more.
    pub(super) fn are_any(&self) -> bool {
        let mut watched = lock(&self.0);
        watched.retain(|_, it| it.notify.strong_count() > 0);
        !watched.is_empty()
    }

    /// Looks at the records that are waited for, and wakes those that wait for one whose attempt
    /// has ended. Unless others have written, only at those that were never looked at.
    pub(super) fn look_at_all(
        &self,
        connection: &Connection,
        file: &File,
        others_wrote: bool,
    ) -> Result<(), Error> {
        let is_due = |it: &Watched| others_wrote || it.token.is_none();
        let due: Vec<(Vec<u8>, Option<Token>)> = {
            let watched = lock(&self.0);
            let due = watched.iter().filter(|(_, it)| is_due(it));
            due.map(|(name, it)| (name.clone(), it.token)).collect()
        };
        for (name, known) in due {
            let now = file.clock.now();
            // The waiter finds out about one that cannot be read.
            let found = look(connection, file, &name, &now)?.ok().flatten();
            let running = found.filter(|found| found.head.state == State::Processing);
            let token = running.map(|found| found.head.attempt.token);
            match (token, known) {
                (Some(token), None) => {
                    if let Some(it) = lock(&self.0).get_mut(&name) {
                        it.token = Some(token);
                    }
                }
                (Some(token), Some(known)) if token == known => {}
                _ => self.wake(&name),
            }
        }
        Ok(())
    }
}
