//! A source at work: a task reads, another one claims and keeps, and deliveries come back.
//!
//! Two tasks, because a read waits in the server for entries to be added. Neither is aborted: the answer
//! to a read that is under way has entries, which nobody else gets before they are claimed. After the end
//! of the source the tasks end by themselves, and what they still got is offered to others at once.

use super::entry::Entry;
use super::error::queue_error;
use super::group::{Group, Keep, Kept};
use super::inbox::{Awake, Delivered, Inbox};
use super::link::PAUSES;
use crate::QueueError;
use redis::RedisError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Pages of pending entries that are looked through at once.
const MOST_PAGES: usize = 100;
/// The longest time between two looks at pending entries.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time between two looks at the consumers of the group.
const TIDY: Duration = Duration::from_secs(600);
/// The shortest time between two looks.
const SOONEST: Duration = Duration::from_millis(20);
/// The time for which a read waits for others to be settled while some are in hand: one read for each would cost a
/// message more than anything else.
const GATHERS: Duration = Duration::from_millis(1);
/// The longest pause, for which a clock always has room.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A source at work.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) group: Group,
    runtime: Handle,
    inbox: Mutex<Inbox>,
    /// The error of the last read, until a consumer has heard of it.
    failure: Mutex<Option<RedisError>>,
    /// There is something for the consumer.
    arrived: Notify,
    /// There is something to do for the task that reads.
    reads: Notify,
    /// There is something to do for the task that claims and keeps.
    claims: Notify,
}

impl Source {
    /// A source on the current runtime. Its tasks are not started.
    pub(super) fn new(group: Group, prefetch: usize) -> Arc<Self> {
        let (failure, arrived, reads, claims) = Default::default();
        let (runtime, inbox) = (Handle::current(), Mutex::new(Inbox::new(prefetch)));
        Arc::new(Self { group, runtime, inbox, failure, arrived, reads, claims })
    }

    pub(super) fn start(self: &Arc<Self>) {
        self.runtime.spawn(read(Arc::clone(self)));
        self.runtime.spawn(claim(Arc::clone(self)));
    }

    /// Waits for an entry. Nothing is lost if the future is dropped: tasks fetch.
    pub(super) async fn next(self: &Arc<Self>) -> Result<Entry, QueueError> {
        loop {
            if let Some(entry) = self.inbox().next() {
                return Ok(entry);
            }
            if let Some(error) = self.failure().take() {
                return Err(queue_error(&error));
            }
            let _asked = Asked::of(self);
            self.arrived.notified().await;
        }
    }

    /// Makes room for another delivery.
    pub(super) fn leave(&self) {
        let awake = {
            let mut inbox = self.inbox();
            inbox.leave();
            inbox.awake()
        };
        self.wake(awake);
    }

    fn wake(&self, awake: Awake) {
        if awake.reader {
            self.reads.notify_one();
        }
        if awake.claimer {
            self.claims.notify_one();
        }
    }

    /// Delivers an entry again after a pause.
    pub(super) fn wait(self: &Arc<Self>, delivered: Delivered, pause: Duration) {
        let due = Instant::now() + pause.min(LONGEST);
        let is_known = self.inbox().wait(delivered, due, pause > self.group.claim_after);
        if is_known {
            self.claims.notify_one();
        }
    }

    /// Delivers an entry again at once: here, or to any consumer if this source has ended or cannot
    /// keep more of them.
    pub(super) fn put_back(self: &Arc<Self>, delivered: Delivered) {
        let is_known = self.inbox().wait(delivered.clone(), Instant::now(), false);
        match is_known {
            true => self.claims.notify_one(),
            false => self.offer(vec![delivered]),
        }
    }

    /// Ends the tasks. Entries that could be delivered at once are offered to others.
    pub(super) fn end(self: &Arc<Self>) {
        let left = self.inbox().end(Instant::now());
        self.reads.notify_one();
        self.claims.notify_one();
        self.offer(left);
    }

    /// Lets every consumer claim entries, in the background. If that fails, they are claimed later.
    fn offer(self: &Arc<Self>, entries: Vec<Delivered>) {
        if entries.is_empty() {
            return;
        }
        let source = Arc::clone(self);
        self.runtime.spawn(async move {
            let entries: Vec<_> = entries.into_iter().map(|entry| (entry, Keep::Not)).collect();
            if let Err(error) = source.group.keep(&entries).await {
                tracing::debug!(target: "idempotent", %error, "entries wait until they are claimed");
            }
        });
    }

    /// Takes entries that were fetched.
    fn arrive(self: &Arc<Self>, entries: Vec<Entry>) {
        let too_many = self.inbox().arrive(entries);
        self.offer(too_many.iter().map(Delivered::of).collect());
        self.arrived.notify_one();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<RedisError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A consumer that waits for an entry.
struct Asked<'a>(&'a Source);

impl<'a> Asked<'a> {
    fn of(source: &'a Source) -> Self {
        let awake = {
            let mut inbox = source.inbox();
            inbox.ask(true);
            inbox.awake()
        };
        source.wake(awake);
        Self(source)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.inbox().ask(false);
    }
}

/// Waits until entries are wanted, and a moment longer until they are worth a read. `None` at the end of the source.
async fn wanted(source: &Source) -> Option<usize> {
    let mut has_gathered = false;
    loop {
        let wanted = {
            let mut inbox = source.inbox();
            if inbox.has_ended() {
                return None;
            }
            let (wanted, enough) = (inbox.wanted(), inbox.enough());
            if wanted >= enough || (wanted > 0 && has_gathered) {
                return Some(wanted);
            }
            inbox.reader_waits_for(if wanted == 0 { 1 } else { enough });
            wanted
        };
        let more = source.reads.notified();
        has_gathered = wanted > 0;
        if has_gathered {
            let _ = timeout(GATHERS, more).await;
        } else {
            more.await;
        }
    }
}

/// Reads entries while a consumer asks for them, until the end of the source.
async fn read(source: Arc<Source>) {
    let mut failures = 0;
    while let Some(wanted) = wanted(&source).await {
        match source.group.read(wanted).await {
            Ok(entries) => {
                failures = 0;
                source.failure().take();
                if !entries.is_empty() {
                    source.arrive(entries);
                }
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(target: "idempotent", %error, failures, "entries not read");
                // A connection that was lost is made again. Only if that fails, too, does the consumer pause.
                if failures > 1 {
                    *source.failure() = Some(error);
                    source.arrived.notify_one();
                }
                sleep(PAUSES.after(failures)).await;
            }
        }
    }
}

/// Takes entries whose time has come, claims those that others have left, and keeps from others those that
/// wait here, until the end of the source.
async fn claim(source: Arc<Source>) {
    let claim_after = source.group.claim_after;
    let look = (claim_after / 4).clamp(SOONEST, LOOK);
    // Like heartbeats: one or two may be late.
    let keep = (claim_after / 3).max(SOONEST);
    let tidy = (source.group.settings.forget_after / 4).clamp(SOONEST, TIDY);
    let started = Instant::now();
    let (mut look_at, mut keep_at, mut tidy_at) = (started, started + keep, started + tidy);
    let mut from = None;
    loop {
        let (has_ended, is_wanted, due_at) = {
            let mut inbox = source.inbox();
            let is_wanted = inbox.wanted() > 0;
            if !is_wanted {
                inbox.claimer_waits();
            }
            (inbox.has_ended(), is_wanted, inbox.earliest())
        };
        if has_ended {
            return;
        }
        let mut next = keep_at.min(tidy_at);
        if is_wanted {
            next = next.min(look_at).min(due_at.unwrap_or(look_at));
        }
        tokio::select! {
            () = source.claims.notified() => {}
            () = sleep_until(next) => {}
        }
        let now = Instant::now();
        redeliver(&source, now).await;
        if now >= look_at && source.inbox().wanted() > 0 {
            from = look_through(&source, from).await;
            look_at = Instant::now() + look;
        }
        if now >= keep_at {
            keep_from_others(&source, now).await;
            keep_at = Instant::now() + keep;
        }
        if now >= tidy_at {
            if let Err(error) = source.group.tidy().await {
                tracing::debug!(target: "idempotent", %error, "consumers not checked");
            }
            tidy_at = Instant::now() + tidy;
        }
    }
}

/// Takes entries whose time has come.
async fn redeliver(source: &Arc<Source>, now: Instant) {
    let due = {
        let mut inbox = source.inbox();
        let wanted = inbox.wanted();
        inbox.due(now, wanted)
    };
    if due.is_empty() {
        return;
    }
    match source.group.redeliver(&due).await {
        Ok(entries) if entries.is_empty() => {}
        Ok(entries) => source.arrive(entries),
        Err(error) => {
            tracing::debug!(target: "idempotent", %error, "entries not delivered again yet");
            due.into_iter().for_each(|delivered| source.wait(delivered, PAUSES.first));
        }
    }
}

/// Claims entries that others have left, from where the last look ended. Returns where this one did.
async fn look_through(source: &Arc<Source>, mut from: Option<String>) -> Option<String> {
    for _ in 0..MOST_PAGES {
        let wanted = source.inbox().wanted();
        if wanted == 0 {
            break;
        }
        match source.group.claim(from.as_deref(), wanted).await {
            Ok((entries, last)) => {
                if !entries.is_empty() {
                    source.arrive(entries);
                }
                from = last;
                if from.is_none() {
                    break;
                }
            }
            Err(error) => {
                tracing::debug!(target: "idempotent", %error, "pending entries not checked");
                break;
            }
        }
    }
    from
}

/// Keeps from others what waits here, and forgets what they have claimed all the same.
async fn keep_from_others(source: &Arc<Source>, now: Instant) {
    let kept: Vec<_> = {
        let inbox = source.inbox();
        let each = inbox.kept(now).into_iter();
        each.map(|(delivered, pause)| (delivered, pause.map_or(Keep::Whole, Keep::For))).collect()
    };
    if kept.is_empty() {
        return;
    }
    match source.group.keep(&kept).await {
        Ok(answers) => {
            let lost = kept.into_iter().zip(answers).filter(|(_, kept)| *kept != Kept::Yes);
            let lost: Vec<_> = lost.map(|((delivered, _), _)| delivered).collect();
            source.inbox().forget(&lost);
        }
        Err(error) => tracing::debug!(target: "idempotent", %error, "entries not kept"),
    }
}
