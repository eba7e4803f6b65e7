//! A caller's part in a flight, which passes to another one when the caller goes.

use super::awaited::Awaited;
use super::engine::Engine;
use super::flights::{Landing, Member, Turn, Waits};
use super::not_granted::NotGranted;
use crate::clock::Moment;
use crate::engine::attempt::release::release_begin;
use crate::engine::attempt::{AttemptState, End, PendingBegin, Waiters};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::{Failure, Updated};
use crate::sync::Notified;
use std::sync::Arc;
use std::time::Duration;

/// A caller in a flight.
#[derive(Debug)]
pub(crate) struct Participant {
    engine: Arc<Engine>,
    member: Member,
    role: Role,
    /// The `begin` that this leader has sent, or was left by the one before.
    pub(crate) begin: Option<Box<PendingBegin>>,
}

#[derive(Debug)]
enum Role {
    /// Waits for the leader.
    Follower,
    /// Talks to the store. Its `begin` goes to the next leader, if it goes away early.
    Leader,
    /// Runs the body.
    Holder,
    /// Has told the others how it ended.
    Landed,
}

impl Participant {
    pub(crate) fn join(engine: &Arc<Engine>, key: &RecordKey) -> Self {
        let member = engine.flights.join(key);
        Self { engine: Arc::clone(engine), member, role: Role::Follower, begin: None }
    }

    /// This caller waits for changes from here on, until `deadline`.
    pub(super) fn waits_until(&mut self, deadline: Moment) {
        self.member.waits_until(deadline, |moment| self.engine.sleep_until(moment));
    }

    /// Resolves after the next change, and when the wait is over. To be called before [`turn`](Self::turn). `None` if this
    /// caller does not [wait](Self::waits_until).
    pub(super) fn woken(&self) -> Option<Notified<'_>> {
        self.member.woken()
    }

    /// `true` if the wait is over.
    pub(super) fn has_waited(&self) -> bool {
        self.member.has_waited()
    }

    /// Leads a flight that began with this caller, unless another one was faster.
    pub(super) fn lead_at_once(
        &mut self,
        fingerprint: Option<Fingerprint>,
        waits: Waits,
        awaited: &mut Awaited,
    ) {
        // Another one may have led before, and gone.
        if self.member.is_founder()
            && let Turn::Lead(begin) = self.turn(fingerprint, waits, awaited)
        {
            self.lead(begin);
        }
    }

    /// `true` until this caller leads.
    pub(super) fn follows(&self) -> bool {
        matches!(self.role, Role::Follower)
    }

    /// The next step of this caller, which is told what was seen of the attempts that it waits for. It has to
    /// [`lead`](Self::lead) if it is its turn to.
    #[must_use]
    pub(super) fn turn(
        &self,
        fingerprint: Option<Fingerprint>,
        waits: Waits,
        awaited: &mut Awaited,
    ) -> Turn {
        match self.member.hear(fingerprint, waits, awaited) {
            Turn::HolderLost => {
                // It no longer speaks for the key: its followers ask the store.
                self.engine.flights.land(&self.member, Landing::default());
                Turn::Landed(None)
            }
            turn => turn,
        }
    }

    /// Takes the lead, and the `begin` that comes with it.
    pub(super) fn lead(&mut self, begin: Option<PendingBegin>) {
        self.role = Role::Leader;
        self.begin = begin.map(Box::new);
    }

    pub(super) fn failed_elsewhere(&self, number: u32) {
        self.member.failed_elsewhere(number);
    }

    pub(crate) fn in_flight_elsewhere(&self, number: u32, left: Duration) {
        self.member.in_flight_elsewhere(number, left);
    }

    pub(crate) fn held_elsewhere(&self, left: Duration) {
        self.member.held_elsewhere(left);
    }

    /// Tells the followers what the store said to the leader.
    pub(crate) fn found(mut self, fingerprint: Option<Fingerprint>, found: &NotGranted) {
        self.land(Landing { fingerprint, found: found.share(), failed: None });
    }

    fn land(&mut self, landing: Landing) {
        self.role = Role::Landed;
        self.engine.flights.land(&self.member, landing);
    }
}

impl Waiters for Participant {
    fn granted(&mut self, state: &Arc<AttemptState>) {
        self.role = Role::Holder;
        self.member.held_by(state);
        self.member.running(state.id().fingerprint, state.length());
    }

    fn ended(&mut self, state: &AttemptState, end: &End, updated: Option<Updated>) {
        let number = state.id().number;
        let found = found(end, updated, number);
        // One that was superseded had lost its key before: nobody waited for it any more. What was
        // not acknowledged is counted by those who see it in the record.
        let ended_without_answer = matches!(
            (end, updated),
            (End::Fail(_) | End::Abandon, Some(Updated::Done | Updated::Vanished))
        );
        let failed = (found.is_none() && ended_without_answer).then_some(number);
        self.land(Landing { fingerprint: state.id().fingerprint, found, failed });
    }
}

/// The answer that followers share with the attempt that made it. Only what the store acknowledged.
fn found(end: &End, updated: Option<Updated>, number: u32) -> Option<NotGranted> {
    let updated = updated?;
    match (end, updated) {
        (
            End::Complete { value, .. } | End::Committed { value, .. },
            Updated::Done | Updated::Vanished,
        ) => Some(NotGranted::Succeeded { number, value: value.clone() }),
        (End::Complete { .. } | End::Committed { .. }, Updated::DoneWithoutValue) => {
            Some(NotGranted::Succeeded { number, value: None })
        }
        (End::Fail(Failure::Final(value)), Updated::Done) => {
            Some(NotGranted::FailedFinal { number, value: value.clone() })
        }
        (End::Fail(Failure::Final(_)), Updated::DoneWithoutValue) => {
            Some(NotGranted::FailedFinal { number, value: None })
        }
        _ => None,
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.role, Role::Landed) {
            Role::Landed => return,
            Role::Follower => {}
            Role::Leader => self.member.step_down(self.begin.take().map(|begin| *begin)),
            Role::Holder => {
                self.engine.flights.land(&self.member, Landing::default());
                return;
            }
        }
        if let Some(orphan) = self.engine.flights.leave(&self.member) {
            release_begin(&self.engine, self.member.key().clone(), orphan);
        }
    }
}
