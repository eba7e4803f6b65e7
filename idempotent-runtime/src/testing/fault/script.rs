//! The script of a faulty store: faults and gates for calls to come, and counts of past calls.

use super::gate::Barrier;
use super::{Fault, Verb};
use crate::store::Token;
use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// A call that takes effect later.
pub(super) type LateCall = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(super) struct Script {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    verbs: BTreeMap<Verb, Lines>,
    granted: BTreeSet<[u8; 16]>,
    late: Vec<LateCall>,
}

/// The script of one verb.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) calls: usize,
    pub(super) answers: usize,
    pub(super) always: Option<Fault>,
    pub(super) at: BTreeMap<usize, Fault>,
    pub(super) before: Option<Arc<Barrier>>,
    pub(super) after: Option<Arc<Barrier>>,
}

/// The fault and the gates of one call.
pub(super) struct Plan {
    pub(super) fault: Option<Fault>,
    pub(super) before: Option<Arc<Barrier>>,
    pub(super) after: Option<Arc<Barrier>>,
}

impl Script {
    /// Counts a call, and returns its plan.
    pub(super) fn enter(&self, verb: Verb) -> Plan {
        let plan = self.change(verb, |lines| {
            lines.calls += 1;
            let fault = lines.at.remove(&lines.calls).or(lines.always);
            Plan { fault, before: lines.before.clone(), after: lines.after.clone() }
        });
        self.changed.notify_waiters();
        plan
    }

    /// Counts an answer.
    pub(super) fn leave(&self, verb: Verb) {
        self.change(verb, |lines| lines.answers += 1);
        self.changed.notify_waiters();
    }

    pub(super) fn change<R>(&self, verb: Verb, change: impl FnOnce(&mut Lines) -> R) -> R {
        change(lock(&self.state).verbs.entry(verb).or_default())
    }

    pub(super) async fn until(&self, verb: Verb, holds: impl Fn(&Lines) -> bool) {
        loop {
            let changed = self.changed.notified();
            if self.change(verb, |lines| holds(lines)) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn granted(&self, token: Token) {
        lock(&self.state).granted.insert(token.to_bytes());
    }

    pub(super) fn grants(&self) -> usize {
        lock(&self.state).granted.len()
    }

    pub(super) fn delay(&self, call: LateCall) {
        lock(&self.state).late.push(call);
    }

    pub(super) fn take_late(&self) -> Vec<LateCall> {
        std::mem::take(&mut lock(&self.state).late)
    }
}
