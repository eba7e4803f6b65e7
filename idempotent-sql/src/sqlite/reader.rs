//! Reads: connections that never wait for the writer.
//!
//! With a write-ahead log, readers see the last commit and hold no writer up. A look at one record is
//! done where it is asked for, on one of a few connections: it takes some microseconds, less than it
//! takes to hand it to another thread and back. Longer work, and work that meets a lock, is done by
//! the reader thread, which also [watches](super::watches) for other processes.

use super::errors::{ended, is_busy, store_error};
use super::file::File;
use super::watches::Watches;
use crate::store_parts::lock;
use idempotent_runtime::store::StoreError;
use rusqlite::{Connection, Error};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The most connections for looks.
const LOOKS: usize = 8;
/// The pause between two questions whether others have written.
const POLL: Duration = Duration::from_millis(5);

/// Connections that look at single records.
pub(super) struct Looks {
    file: Arc<File>,
    slots: Box<[Mutex<Option<Connection>>]>,
    next: AtomicUsize,
}

impl Looks {
    pub(super) fn new(file: Arc<File>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (0..threads.clamp(1, LOOKS)).map(|_| Mutex::new(None)).collect();
        Self { file, slots, next: AtomicUsize::new(0) }
    }

    /// Runs `look` on a connection.
    pub(super) fn with<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut slot = self.free_slot();
        let connection = match &mut *slot {
            Some(connection) => connection,
            empty => empty.insert(self.file.connect_to_read()?),
        };
        look(connection)
    }

    fn free_slot(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        for slot in &self.slots {
            match slot.try_lock() {
                Ok(slot) => return slot,
                Err(TryLockError::Poisoned(slot)) => return slot.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        // All are in use, for some microseconds.
        let next = self.next.fetch_add(1, Relaxed) % self.slots.len();
        lock(&self.slots[next])
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Looks").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

type Errand = Box<dyn FnOnce(&Connection, &File) + Send>;

/// The way to the reader thread, which ends with the last of them.
pub(super) struct Reader {
    errands: Sender<Errand>,
    is_polling: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn start(
        file: Arc<File>,
        connection: Connection,
        watches: Arc<Watches>,
    ) -> std::io::Result<Self> {
        let (errands, received) = channel();
        let is_polling = Arc::new(AtomicBool::new(false));
        let polling = Arc::clone(&is_polling);
        let thread = std::thread::Builder::new().name("idempotent-sqlite-reader".to_owned());
        thread.spawn(move || run(&file, &connection, &watches, &received, &polling))?;
        Ok(Self { errands, is_polling })
    }

    /// Has the thread read something, again and again while it meets a lock.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        mut read: impl FnMut(&Connection, &File) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let errand: Errand = Box::new(move |connection, file| {
            // A caller that no longer waits need not know.
            let _ = answer.send(file.patiently(|| read(connection, file)));
        });
        self.errands.send(errand).map_err(|_| ended().without_effect())?;
        answered.await.unwrap_or_else(|_| Err(ended().without_effect()))
    }

    /// Sees to it that the thread polls, after a caller has begun to wait.
    pub(super) fn poll(&self) {
        // SeqCst: of this and of the thread's last look for watches, one sees the other.
        if !self.is_polling.swap(true, SeqCst) {
            let _ = self.errands.send(Box::new(|_, _| {}));
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_polling = self.is_polling.load(Relaxed);
        formatter.debug_struct("Reader").field("polls", &is_polling).finish_non_exhaustive()
    }
}

fn run(
    file: &File,
    connection: &Connection,
    watches: &Watches,
    errands: &Receiver<Errand>,
    is_polling: &AtomicBool,
) {
    let mut version = None;
    let mut pause = POLL;
    loop {
        let polls = is_polling.load(SeqCst);
        let errand = if polls {
            errands.recv_timeout(pause)
        } else {
            errands.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match errand {
            Ok(errand) => errand(connection, file),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begun = Instant::now();
                match poll(file, connection, watches, &mut version) {
                    // In the way of nobody: at most a tenth of the time.
                    Ok(()) => pause = POLL.max(begun.elapsed() * 10),
                    Err(error) if is_busy(&error) => {}
                    Err(error) => {
                        let error = store_error(error, file);
                        tracing::debug!(target: "idempotent", %error, "waiters are not woken");
                        pause = Duration::from_secs(1);
                    }
                }
                if !watches.are_any() {
                    is_polling.store(false, SeqCst);
                    // A caller may have come in between, and not have sent anything.
                    if watches.are_any() {
                        is_polling.store(true, SeqCst);
                    }
                }
            }
        }
    }
}

fn poll(
    file: &File,
    connection: &Connection,
    watches: &Watches,
    known: &mut Option<i64>,
) -> Result<(), Error> {
    let version = connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get::<_, i64>(0))?;
    let others_wrote = known.replace(version) != Some(version);
    watches.look_at_all(connection, file, others_wrote)
}
