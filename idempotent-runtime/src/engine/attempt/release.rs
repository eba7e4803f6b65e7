//! Releases keys whose bodies never start.
//!
//! A `begin` that was not answered may take effect at any time: its caller is refused, and a server
//! that stalled executes what lies in its buffers once it goes on. So a release is repeated until the
//! store has acknowledged one and a lease has passed. A `begin` that cannot have had an effect is
//! not released at all. An `arm` that arrives after a release finds nothing to arm.

use super::backlog::{AnswerRoom, ReleaseRoom};
use super::faults::unanswered;
use super::handoff::Handoff;
use super::instance::Instance;
use super::keeper::Job;
use super::pending_begin::{Copies, PendingBegin};
use super::state::AttemptState;
use super::waiters::MaybeWaiters;
use crate::backoff::Backoff;
use crate::key::RecordKey;
use crate::observe::StoreTimer;
use crate::protocol::{Begun, Binding, StoreExt as _};
use crate::race::{First, race};
use crate::store::{AttemptId, Claim, Verb};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The first pause between two releases.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

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

/// The loss if an attempt is never released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtStake {
    /// The rest of a lease.
    Lease,
    /// The key: it may be armed, and would block although its body never started.
    Key,
}

/// Releases a `begin` whose caller has gone, or was refused.
pub(crate) fn release_begin(instance: &Arc<Instance>, key: RecordKey, begin: PendingBegin) {
    spawn(instance, Source::Begin(key, Box::new(begin)));
}

/// Releases an attempt that was granted and is not used. The callers in this process that wait for
/// its key ask again when a release was tried.
pub(crate) fn release_unused(instance: &Arc<Instance>, unused: Unused, waiters: MaybeWaiters) {
    spawn(instance, Source::Granted(unused, waiters));
}

/// As [`release_begin`], and resolves when the `begin` has been answered and its release tried.
///
/// If this future is dropped, the keeper finishes it. The token cannot be handed on from here: a
/// release that was sent may take effect at any time, and would end an attempt that used it again.
pub(crate) async fn release_first(instance: &Arc<Instance>, key: &RecordKey, begin: PendingBegin) {
    let (for_job, source) = (Arc::clone(instance), Source::Begin(key.clone(), Box::new(begin)));
    let job = async move {
        let Some((unused, tried)) = source.first_try(&for_job).await else { return };
        if tried == Tried::Failed || unused.copies == Copies::Unanswered {
            release_unused(&for_job, unused, None);
        }
    };
    Handoff::new(Arc::clone(instance), job).await;
}

/// A key to release: a grant, or a `begin` that may become one.
enum Source {
    Granted(Unused, MaybeWaiters),
    Begin(RecordKey, Box<PendingBegin>),
}

/// The result of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Acknowledged,
    Failed,
}

fn spawn(instance: &Arc<Instance>, source: Source) {
    let (counted, room) = (instance.keeper.job(), source.admit(instance));
    let for_job = Arc::clone(instance);
    instance.keeper.spawn_uncounted(async move {
        race(release(&for_job, source, counted), room.cancelled()).await;
    });
}

/// Releases until the key is free for good. A shutdown waits for the first try, and not for long.
async fn release(instance: &Instance, source: Source, counted: Job) {
    let started = instance.clock.now();
    let worth_waiting = instance.sleep_until(started.after(WORTH_WAITING_FOR));
    let mut first = pin!(source.first_try(instance));
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
    // A quarter of the time for which the key is held, so that a late copy costs others no more.
    let mut backoff = Backoff::up_to(FIRST_PAUSE, held_for / 4);
    loop {
        acknowledged |= tried == Tried::Acknowledged;
        let now = instance.clock.now();
        let nothing_follows = unused.copies == Copies::Answered || now >= nothing_late_from;
        if (acknowledged && nothing_follows) || now >= give_up_at {
            return;
        }
        instance.sleep_until(now.after(backoff.pause())).await;
        tried = unused.release(instance).await;
    }
}

impl Source {
    /// Room for it: among the answers if its key could block, so that no other release displaces it.
    fn admit(&self, instance: &Instance) -> Room {
        let answer = match self {
            Self::Granted(unused, _) if unused.at_stake == AtStake::Key => {
                instance.backlog.admit_answer(unused.key.as_str().len())
            }
            Self::Granted(..) | Self::Begin(..) => None,
        };
        match answer {
            Some(answer) => Room::Answer(answer),
            None => Room::Release(instance.backlog.admit_release()),
        }
    }

    /// Waits for the answer to a `begin` that is under way, then releases. `None` if there is
    /// nothing to release.
    async fn first_try(self, instance: &Instance) -> Option<(Unused, Tried)> {
        let (unused, waiters) = match self {
            Self::Granted(unused, waiters) => (unused, waiters),
            Self::Begin(key, begin) => (granted(instance, key, *begin).await?, None),
        };
        let tried = unused.release(instance).await;
        drop(waiters);
        Some((unused, tried))
    }
}

/// Room in the backlog, given back when it is dropped.
enum Room {
    Answer(#[expect(dead_code, reason = "held")] AnswerRoom),
    Release(ReleaseRoom),
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
    pub(crate) fn new(state: &AttemptState, copies: Copies) -> Self {
        let (key, attempt) = (state.key.clone(), *state.longest_id());
        let (retention, binding) = (state.retention, state.binding());
        let at_stake = if state.may_block() { AtStake::Key } else { AtStake::Lease };
        Self { key, attempt, retention, binding, copies, at_stake }
    }

    async fn release(&self, instance: &Instance) -> Tried {
        let Self { key, attempt, retention, binding, .. } = self;
        let release = instance.store.release(key, attempt, *retention, *binding);
        let patience =
            instance.sleep_until(instance.clock.now().after(held_for(&self.attempt.claim)));
        let timer = StoreTimer::start(&Verb::Release);
        let answer = match race(release, patience).await {
            First::Left(answer) => answer,
            First::Right(()) => Err(unanswered()),
        };
        timer.answered(&answer);
        if answer.is_ok() { Tried::Acknowledged } else { Tried::Failed }
    }
}

/// The attempt that a `begin` got, or may get yet. `None` if it gets none.
async fn granted(instance: &Instance, key: RecordKey, begin: PendingBegin) -> Option<Unused> {
    let PendingBegin { request, retention, binding, mut copies, begin, .. } = begin;
    let mut attempt = None;
    if let Some(begin) = begin {
        let patience = instance.sleep_until(instance.clock.now().after(held_for(&request.claim)));
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
