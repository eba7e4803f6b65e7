//! Releases keys whose bodies never start.
//!
//! A `begin` that was not answered may take effect at any time: its caller is refused, and a server
//! that stalled executes what lies in its buffers once it goes on. So a release is repeated until the
//! store has acknowledged one and a lease has passed. What cannot have had an effect is not released
//! at all. An `arm` that arrives after a release finds nothing to arm.

use super::backlog::{Answer, Release};
use super::backoff::Backoff;
use super::core::Core;
use super::keeper::Job;
use super::lease::Lease;
use super::place::Place;
use super::settle::{Handoff, RETRY_PAUSE};
use super::slots::Sent;
use crate::key::RecordKey;
use crate::observe::StoreTimer;
use crate::protocol::{Begun, Binding, StoreExt as _};
use crate::race::{First, race};
use crate::store::{AttemptId, Claim, Verb};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The longest time for which something that was sent is expected to arrive late.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The longest that a shutdown waits for the first try of a release, which saves others one lease.
const WORTH_WAITING_FOR: Duration = Duration::from_secs(2);

/// An attempt whose body never starts.
#[derive(Debug)]
pub(crate) struct Unused {
    pub(crate) key: RecordKey,
    pub(crate) attempt: AttemptId,
    /// The retention of the record if the attempt is not the first.
    pub(crate) retention: Duration,
    /// The payload that may follow in that case.
    pub(crate) binding: Binding,
    pub(crate) copies: Copies,
    pub(crate) at_stake: AtStake,
}

/// What is lost if an attempt is never released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtStake {
    /// The rest of a lease.
    Lease,
    /// The key: it may be armed, and would block although its body never started.
    Key,
}

/// Copies of the `begin` of an attempt that may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// All were answered, or had no effect.
    Answered,
    /// A `begin` was not answered, and may take effect at any time.
    Unanswered,
}

/// Releases a `begin` whose caller has gone, or was refused.
pub(crate) fn release_sent(core: &Arc<Core>, key: RecordKey, sent: Sent) {
    spawn(core, Source::Sent(key, Box::new(sent)));
}

/// Releases an attempt that was granted and is not used. The callers in this process that wait for
/// its key ask again when a release was tried.
pub(crate) fn release_unused(core: &Arc<Core>, unused: Unused, place: Option<Box<Place>>) {
    spawn(core, Source::Granted(unused, place));
}

/// As [`release_sent`], and resolves when the `begin` has been answered and its release tried.
///
/// If this future is dropped, the keeper finishes it. The token cannot be handed on from here: a
/// release that was sent may take effect at any time, and would end an attempt that used it again.
pub(crate) async fn release_first(core: &Arc<Core>, key: &RecordKey, sent: Sent) {
    let (for_job, source) = (Arc::clone(core), Source::Sent(key.clone(), Box::new(sent)));
    let job = async move {
        let Some((unused, tried)) = source.first_try(&for_job).await else { return };
        if tried == Tried::Failed || unused.copies == Copies::Unanswered {
            release_unused(&for_job, unused, None);
        }
    };
    Handoff::new(Arc::clone(core), job).await;
}

/// A key to release: a grant, or a `begin` that may become one.
enum Source {
    Granted(Unused, Option<Box<Place>>),
    Sent(RecordKey, Box<Sent>),
}

/// The result of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Acknowledged,
    Failed,
}

fn spawn(core: &Arc<Core>, source: Source) {
    let (counted, room) = (core.keeper.job(), source.admit(core));
    let for_job = Arc::clone(core);
    core.keeper.spawn_uncounted(async move {
        race(release(&for_job, source, counted), room.cancelled()).await;
    });
}

/// Releases until the key is free for good. A shutdown waits for the first try, and not for long.
async fn release(core: &Core, source: Source, counted: Job) {
    let started = core.clock.now();
    let worth_waiting = core.sleep_until(started.after(WORTH_WAITING_FOR));
    let mut first = pin!(source.first_try(core));
    let mut counted = Some(counted);
    let first = match race(first.as_mut(), worth_waiting).await {
        First::Left(first) => first,
        First::Right(()) => {
            counted = None;
            first.await
        }
    };
    drop(counted);
    let Some((unused, mut tried)) = first else { return };
    let held_for = held_for(&unused.attempt.claim);
    let nothing_late_from = started.after(held_for);
    // By then its record has expired.
    let give_up_at = started.after(unused.attempt.claim.ttl());
    let mut acknowledged = false;
    let mut backoff = Backoff::up_to(RETRY_PAUSE, held_for / 4);
    loop {
        acknowledged |= tried == Tried::Acknowledged;
        let now = core.clock.now();
        let settled = unused.copies == Copies::Answered || now >= nothing_late_from;
        if (acknowledged && settled) || now >= give_up_at {
            return;
        }
        core.sleep_until(now.after(backoff.pause())).await;
        tried = unused.release(core).await;
    }
}

impl Source {
    /// Room for it: among the answers if its key could block, so that no other release displaces it.
    fn admit(&self, core: &Core) -> Room {
        let answer = match self {
            Self::Granted(unused, _) if unused.at_stake == AtStake::Key => {
                core.backlog.admit_answer(unused.key.as_str().len())
            }
            Self::Granted(..) | Self::Sent(..) => None,
        };
        match answer {
            Some(answer) => Room::Answer(answer),
            None => Room::Release(core.backlog.admit_release()),
        }
    }

    /// Waits for the answer to a `begin` that is under way, then releases. `None` if there is
    /// nothing to release.
    async fn first_try(self, core: &Core) -> Option<(Unused, Tried)> {
        let (unused, place) = match self {
            Self::Granted(unused, place) => (unused, place),
            Self::Sent(key, sent) => (granted(core, key, *sent).await?, None),
        };
        let tried = unused.release(core).await;
        drop(place);
        Some((unused, tried))
    }
}

/// Room in the backlog, given back when it is dropped.
enum Room {
    Answer(#[expect(dead_code, reason = "held")] Answer),
    Release(Release),
}

impl Room {
    /// Resolves when the release has to make room for others.
    async fn cancelled(&self) {
        match self {
            Self::Answer(_) => pending().await,
            Self::Release(release) => release.cancelled().await,
        }
    }
}

impl Unused {
    pub(crate) fn new(lease: &Lease, copies: Copies) -> Self {
        let (key, attempt) = (lease.key.clone(), *lease.longest());
        let Lease { retention, binding, .. } = *lease;
        let at_stake = if lease.may_block() { AtStake::Key } else { AtStake::Lease };
        Self { key, attempt, retention, binding, copies, at_stake }
    }

    async fn release(&self, core: &Core) -> Tried {
        let Self { key, attempt, retention, binding, .. } = self;
        let release = core.store.release(key, attempt, *retention, *binding);
        let patience = core.sleep_until(core.clock.now().after(held_for(&self.attempt.claim)));
        let _timer = StoreTimer::start(&Verb::Release);
        match race(release, patience).await {
            First::Left(Ok(_)) => Tried::Acknowledged,
            First::Left(Err(_)) | First::Right(()) => Tried::Failed,
        }
    }
}

/// The attempt that a `begin` got, or may get yet. `None` if it gets none.
async fn granted(core: &Core, key: RecordKey, mut sent: Sent) -> Option<Unused> {
    let Sent { request, retention, binding, .. } = sent;
    let mut copies = if sent.unanswered { Copies::Unanswered } else { Copies::Answered };
    let mut attempt = None;
    if let Some(begin) = sent.begin.take() {
        let patience = core.sleep_until(core.clock.now().after(held_for(&request.claim)));
        match race(begin, patience).await {
            First::Left(Ok(Begun::Fresh(granted))) => attempt = Some(granted),
            First::Left(Ok(_)) => {}
            First::Left(Err(error)) if !error.may_have_taken_effect() => {}
            First::Left(Err(_)) | First::Right(()) => copies = Copies::Unanswered,
        }
    }
    let attempt = match (attempt, copies) {
        (Some(attempt), _) => attempt,
        // Verbs compare by token; number and fence are those of the record.
        (None, Copies::Unanswered) => request.first_attempt(),
        (None, Copies::Answered) => return None,
    };
    // What was never granted to a caller was never armed.
    Some(Unused { key, attempt, retention, binding, copies, at_stake: AtStake::Lease })
}

/// The time for which an unused attempt could hold the key, and is expected to arrive late.
fn held_for(claim: &Claim) -> Duration {
    match *claim {
        Claim::Lease { lease, .. } => lease.min(LONGEST_DELAY),
        Claim::Window { window } => window.min(LONGEST_DELAY),
    }
}
