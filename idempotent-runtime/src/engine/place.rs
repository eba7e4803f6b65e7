//! A caller's place in a slot, given up in good order when the caller goes.

use super::awaited::Awaited;
use super::core::Core;
use super::lease::Lease;
use super::release;
use super::slots::{Member, Sent, Shared, Turn, Waits};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::sync::OwnedNotified;
use std::sync::Arc;
use std::time::Duration;

/// A caller's place in a slot.
#[derive(Debug)]
pub(crate) struct Place {
    core: Arc<Core>,
    key: RecordKey,
    member: Member,
    role: Role,
    /// What this place has sent, or was left by the one before.
    pub(crate) sent: Option<Box<Sent>>,
}

#[derive(Debug)]
enum Role {
    Waiting,
    /// Talks to the store. What it sent goes to the next one, if it gets up early.
    Sitting,
    Running,
    Settled,
}

impl Place {
    pub(crate) fn join(core: &Arc<Core>, key: &RecordKey) -> Self {
        let member = core.slots.join(key);
        Self { core: Arc::clone(core), key: key.clone(), member, role: Role::Waiting, sent: None }
    }

    /// Resolves after the next change. To be called before [`turn`](Self::turn).
    pub(crate) fn changed(&self) -> OwnedNotified {
        self.member.changed()
    }

    pub(crate) fn turn(&mut self, fingerprint: Option<Fingerprint>, waits: Waits) -> Turn {
        if self.holder().is_some_and(|holder| holder.is_lost()) {
            // It no longer speaks for the key: those who wait for it ask the store.
            self.core.slots.settle(&self.key, &self.member, None, Shared::Again);
        }
        match self.member.turn(fingerprint, waits) {
            Turn::Sit(sent) => {
                self.role = Role::Sitting;
                self.sent = sent.map(Box::new);
                Turn::Sit(None)
            }
            turn => turn,
        }
    }

    /// The attempt that runs in this process, if one does.
    pub(crate) fn holder(&self) -> Option<Arc<Lease>> {
        self.member.holder()
    }

    /// Tells a call what has been seen here of the attempts that it waits for.
    pub(super) fn tell(&self, awaited: &mut Awaited) {
        self.member.tell(awaited);
    }

    pub(super) fn failed_elsewhere(&self, number: u32) {
        self.member.failed_elsewhere(number);
    }

    pub(crate) fn in_flight_elsewhere(&self, number: u32, left: Duration) {
        self.member.in_flight_elsewhere(number, left);
    }

    pub(crate) fn running(&mut self, lease: &Arc<Lease>) {
        self.role = Role::Running;
        self.member.held_by(lease);
        self.member.running(lease.attempt().fingerprint, lease.length());
    }

    pub(crate) fn settle(&mut self, fingerprint: Option<Fingerprint>, shared: Shared) {
        self.role = Role::Settled;
        self.core.slots.settle(&self.key, &self.member, fingerprint, shared);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.role, Role::Settled) {
            Role::Waiting | Role::Settled => {}
            Role::Sitting => self.member.vacate(self.sent.take().map(|sent| *sent)),
            Role::Running => {
                self.core.slots.settle(&self.key, &self.member, None, Shared::Again);
            }
        }
        if let Some(orphan) = self.core.slots.leave(&self.key, &self.member) {
            release::release_sent(&self.core, self.key.clone(), orphan);
        }
    }
}
