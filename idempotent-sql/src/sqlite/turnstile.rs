//! Turns of processes at the write lock.
//!
//! SQLite lets in the process that asks at the right moment: one that writes without a break is asking
//! when its own lock is free, and others are asleep between two tries. So processes queue up before
//! they ask, at two locks of files beside the database. A process takes the first lock, then the
//! second, then lets go of the first, and holds the second while it writes. One that has just written
//! finds the first lock taken by the process that waits for the second, and gets behind it, however
//! slowly that process wakes up.
//!
//! The locks only order those that ask. A process that is stopped while it holds one is passed after
//! a while, and connections that are not the store's do not take part. One whose wait has timed out waits
//! for a moment only until it gets in again: a stopped process holds others up once, and not each time.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time for which a process waits at a turnstile at which it has timed out before. A queue that
/// moves lets it in within a few commits.
const STALLED: Duration = Duration::from_millis(20);

/// The locks; none where the files cannot be made.
#[derive(Debug)]
pub(super) struct Turnstile(Option<Locks>);

#[derive(Debug)]
struct Locks {
    queue: File,
    turn: File,
    /// The last wait timed out. Relaxed: one thread enters, and nothing else is read through it.
    is_stalled: AtomicBool,
}

impl Turnstile {
    /// The turnstile of a database.
    pub(super) fn beside(database: &Path) -> Self {
        let open = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()
        };
        let files = open("-queue").zip(open("-turn"));
        Self(files.map(|(queue, turn)| Locks { queue, turn, is_stalled: AtomicBool::new(false) }))
    }

    /// Waits for a turn, until `give_up` at the longest.
    pub(super) fn enter(&self, give_up: Instant) -> Turn<'_> {
        let Some(locks) = &self.0 else { return Turn(None) };
        let give_up = match locks.is_stalled.load(Relaxed) {
            true => give_up.min(Instant::now() + STALLED),
            false => give_up,
        };
        let has_turn = locks.enter(give_up);
        locks.is_stalled.store(!has_turn, Relaxed);
        Turn(has_turn.then_some(&locks.turn))
    }
}

impl Locks {
    /// `true` if the turn is this process's.
    fn enter(&self, give_up: Instant) -> bool {
        if !lock(&self.queue, give_up) {
            return false;
        }
        let has_turn = lock(&self.turn, give_up);
        let _ = self.queue.unlock();
        has_turn
    }
}

/// Tries to lock a file now and then. `false` if that did not succeed in time.
fn lock(file: &File, give_up: Instant) -> bool {
    loop {
        match file.try_lock() {
            Ok(()) => return true,
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < give_up => {
                std::thread::sleep(super::file::TRY_AGAIN);
            }
            Err(_) => return false,
        }
    }
}

/// A turn, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(Option<&'a File>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            let _ = turn.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn database() -> std::path::PathBuf {
        let name = format!("turnstile-{}-{:?}", std::process::id(), std::thread::current().id());
        std::env::temp_dir().join(name)
    }

    fn remove(database: &Path) {
        for suffix in ["-queue", "-turn"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
        }
    }

    #[test]
    fn one_that_asks_again_at_once_does_not_overtake_one_that_waits() {
        let path = database();
        let taken = [const { AtomicUsize::new(0) }; 2];
        std::thread::scope(|scope| {
            for own in &taken {
                let (path, taken) = (&path, &taken);
                scope.spawn(move || {
                    let turnstile = Turnstile::beside(path);
                    while taken.iter().map(|it| it.load(SeqCst)).sum::<usize>() < 200 {
                        let turn = turnstile.enter(Instant::now() + Duration::from_secs(60));
                        own.fetch_add(1, SeqCst);
                        std::thread::sleep(Duration::from_micros(100));
                        drop(turn);
                    }
                });
            }
        });
        remove(&path);
        let [one, two] = taken.map(AtomicUsize::into_inner);
        assert!(one.abs_diff(two) <= 100, "{one} and {two}");
    }

    /// It stands in the queue, and nobody can see that it does not run.
    #[test]
    fn one_that_is_stopped_while_it_waits_holds_others_up_once() {
        let path = database();
        let (stopped, other) = (Turnstile::beside(&path), Turnstile::beside(&path));
        let queue = &stopped.0.as_ref().unwrap().queue;
        queue.try_lock().unwrap();
        assert!(other.enter(Instant::now()).0.is_none());
        let began = Instant::now();
        for _ in 0..3 {
            assert!(other.enter(began + Duration::from_secs(60)).0.is_none());
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        // It goes on, and others wait for their turn again.
        queue.unlock().unwrap();
        assert!(other.enter(Instant::now()).0.is_some());
        queue.try_lock().unwrap();
        std::thread::scope(|scope| {
            let waits =
                scope.spawn(|| other.enter(Instant::now() + Duration::from_secs(60)).0.is_some());
            std::thread::sleep(STALLED * 3);
            queue.unlock().unwrap();
            assert!(waits.join().unwrap(), "it did not wait");
        });
        remove(&path);
    }

    #[test]
    fn one_that_is_stopped_is_passed() {
        let path = database();
        let (stopped, other) = (Turnstile::beside(&path), Turnstile::beside(&path));
        let turn = stopped.enter(Instant::now());
        assert!(turn.0.is_some());
        assert!(other.enter(Instant::now()).0.is_none());
        drop(turn);
        assert!(other.enter(Instant::now()).0.is_some());
        remove(&path);
    }
}
