//! A caller's part in a flight, which passes to another one when the caller goes.

use super::awaited::Awaited;
use super::engine::Engine;
use super::flights::{Landing, Member, Turn, Waits};
use super::not_granted::NotGranted;
use crate::engine::attempt::release::release_begin;
use crate::engine::attempt::{AttemptState, End, PendingBegin, Waiters};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::{Failure, Updated};
use crate::sync::OwnedNotified;
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

    /// Resolves after the next change. To be called before [`turn`](Self::turn).
    pub(crate) fn changed(&self) -> OwnedNotified {
        self.member.changed()
    }

    /// Leads a flight that began with this caller. `false` if it did not, or another one was faster: the next
    /// [`turn`](Self::turn) tells what is to be done.
    pub(crate) fn leads_at_once(&mut self, fingerprint: Option<Fingerprint>, waits: Waits) -> bool {
        if !self.member.is_founder() {
            return false;
        }
        let turn = self.member.turn(fingerprint, waits);
        matches!(self.leads(turn), Turn::Lead(_))
    }

    pub(crate) fn turn(&mut self, fingerprint: Option<Fingerprint>, waits: Waits) -> Turn {
        if self.holder().is_some_and(|holder| holder.is_lost()) {
            // It no longer speaks for the key: its followers ask the store.
            self.engine.flights.land(&self.member, Landing::default());
        }
        let turn = self.member.turn(fingerprint, waits);
        self.leads(turn)
    }

    /// Takes the lead if it is this caller's.
    fn leads(&mut self, turn: Turn) -> Turn {
        match turn {
            Turn::Lead(begin) => {
                self.role = Role::Leader;
                self.begin = begin.map(Box::new);
                Turn::Lead(None)
            }
            turn => turn,
        }
    }

    /// The attempt that runs in this process, if one does.
    pub(crate) fn holder(&self) -> Option<Arc<AttemptState>> {
        self.member.holder()
    }

    /// Tells a call which of the attempts that it waits for have been seen here.
    pub(super) fn tell(&self, awaited: &mut Awaited) {
        self.member.tell(awaited);
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
