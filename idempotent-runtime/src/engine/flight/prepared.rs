//! A call that can be made, as its flight and its attempt see it.

use super::engine::Engine;
use super::not_granted::NotGranted;
use crate::clock::Moment;
use crate::config::{Abandon, LONGEST, Mode};
use crate::engine::arc_ref::ArcRef;
use crate::engine::attempt::admission::Permit;
use crate::engine::attempt::{
    AttemptGuard, Choices, Copies, Granted, Hold, MaybeWaiters, Terms, Told, enclosing_permit,
};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::operation_name::OperationName;
use crate::options::{Options, Policy};
use crate::protocol::{BeginRequest, Begun};
use crate::store::{AttemptId, Claim, Token};
use std::sync::Arc;
use std::time::Duration;

/// A call that can be made: its record has a name and its rules are settled.
///
/// It is counted among the calls that a shutdown waits for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(in crate::engine) engine: ArcRef<'a, Engine>,
    pub(crate) operation: OperationName,
    pub(crate) options: &'a Options,
    pub(crate) key: RecordKey,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) policy: Policy,
    /// The moment of the call: its `wait` counts from here. A local store takes it for the time of its first decision, so
    /// a call is prepared within its first poll.
    pub(crate) called_at: Moment,
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        self.engine.keeper.call_ended();
    }
}

impl<'a> Prepared<'a> {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The permit of the body that makes this call, which its own body shares.
    pub(crate) fn enclosing_permit(&self) -> Option<Arc<Permit>> {
        let is_limited = self.policy.max_concurrent.is_some() && self.policy.may_run();
        is_limited.then(|| enclosing_permit(self.engine.identity())).flatten()
    }

    /// The finding of a call whose body would start once more than it may.
    pub(in crate::engine) fn exhausted(&self, granted: &AttemptId) -> Option<NotGranted> {
        let max_attempts = self.policy.max_attempts?;
        (granted.number > max_attempts).then_some(NotGranted::Exhausted { max_attempts })
    }

    /// A request to begin, to be sent at `now`.
    pub(crate) fn request(&self, token: Token, now: Moment) -> BeginRequest {
        BeginRequest {
            token,
            fingerprint: self.fingerprint,
            fence_seed: self.engine.clock.unix_micros(now),
            claim: self.claim(),
        }
    }

    /// An answer of the store to this call, by a record that lives no longer than `life`.
    pub(in crate::engine) fn told<'b>(&'b self, answer: &'b Begun, life: Duration) -> Told<'b> {
        Told { key: &self.key, fingerprint: self.fingerprint, answer, life }
    }

    /// The way in which the key is to be held.
    pub(crate) fn claim(&self) -> Claim {
        let Policy { lease, retention, mode, .. } = self.policy;
        match mode {
            Mode::Window => Claim::Window { window: retention },
            // A key that blocks is armed when its body is about to start, and not before: a `begin`
            // that arrives after its caller was refused costs one lease, whatever the policy.
            Mode::Reject | Mode::Strong => {
                Claim::Lease { lease, linger: retention, abandon: Abandon::Retry }
            }
        }
    }

    /// The attempt that the store granted to a `begin` that was first sent at `sent_at`.
    pub(super) fn granted(
        &self,
        id: AttemptId,
        sent_at: Moment,
        copies: Copies,
        waiters: MaybeWaiters,
        permit: Option<Arc<Permit>>,
    ) -> AttemptGuard<'a> {
        let mut granted = self.attempt(id, sent_at);
        granted.copies = copies;
        granted.waiters = waiters;
        granted.permit = permit;
        AttemptGuard::new(self.engine.map(|engine| &engine.instance), granted)
    }

    /// The attempt that holds its key by a transaction: for as long as that lasts, and without
    /// anything that could be left behind.
    pub(in crate::engine) fn granted_by_transaction(
        &self,
        id: AttemptId,
        waiters: MaybeWaiters,
        permit: Option<Arc<Permit>>,
        locks_store: bool,
    ) -> AttemptGuard<'a> {
        let mut granted = self.attempt(id, self.engine.clock.now());
        granted.choices.hold = Hold::Transaction;
        granted.terms.locks_store = locks_store;
        granted.terms.length = LONGEST;
        granted.terms.max_run = LONGEST;
        granted.terms.block_linger = None;
        granted.waiters = waiters;
        granted.permit = permit;
        AttemptGuard::new(self.engine.map(|engine| &engine.instance), granted)
    }

    /// An attempt of a disabled instance.
    pub(crate) fn unprotected(&self) -> AttemptGuard<'a> {
        let now = self.engine.clock.now();
        let id = self.request(Token::random(), now).first_attempt();
        let attempt = self.attempt(id, now);
        AttemptGuard::unprotected(self.engine.map(|engine| &engine.instance), attempt)
    }

    fn attempt(&self, id: AttemptId, sent_at: Moment) -> Granted {
        let Policy { retention, lease, max_run, block_linger, binding, .. } = self.policy;
        let Policy { mode, max_value_bytes, on_unrecorded, .. } = self.policy;
        let clock = self.engine.clock.clone();
        let hold = if mode == Mode::Window { Hold::Window } else { Hold::Lease };
        Granted {
            operation: self.operation.clone(),
            key: self.key.clone(),
            id,
            terms: Terms {
                retention,
                length: lease,
                max_run,
                block_linger,
                binding,
                locks_store: false,
                sent_at,
                clock,
            },
            choices: Choices { mode, hold, max_value_bytes, on_unrecorded },
            copies: Copies::Answered,
            waiters: None,
            permit: None,
        }
    }
}
