//! Counts the bodies that run in this process, for `max_concurrent`.
//!
//! There are as many permits as the limit allows. A permit is taken before the store is asked for
//! the right to run, so a call that could not use that right never asks for it. It is given back
//! when its body has ended or its call was dropped, whatever the store has acknowledged by then.
//!
//! A call that asks does not know yet whether a body will run: the answer may be a replay. So
//! permits of calls that ask are told from those of bodies that run. Both fill the limit, but only
//! bodies are a reason to refuse a call; one that finds the limit filled by calls that ask waits
//! for their answers.
//!
//! The counts are behind one lock, under which no other is taken; waiting callers are notified after
//! it is released.
//!
//! Without a limit nothing is counted, and a limit that is set later does not count the bodies that
//! began before it.

use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::{Mutex, Notify, OwnedNotified, lock};
use std::sync::Arc;

/// The permits of an instance.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    counts: Mutex<Counts>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Counts {
    asking: usize,
    running: usize,
}

/// The right to ask, and then to run a body, within the limit. Bodies inside a body share its
/// permit.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    /// Tells which of the two counts holds it. `SeqCst` for simplicity: it changes once in a call.
    running: AtomicBool,
}

/// The reason for which there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// As many bodies run as may.
    Running,
    /// Some of them may turn out not to run.
    Asking,
}

impl Admission {
    /// A permit to ask with.
    pub(crate) fn ask(self: &Arc<Self>, limit: usize) -> Result<Arc<Permit>, Full> {
        let mut counts = lock(&self.counts);
        if counts.running >= limit {
            return Err(Full::Running);
        }
        if counts.running + counts.asking >= limit {
            return Err(Full::Asking);
        }
        counts.asking += 1;
        drop(counts);
        Ok(self.permit(false))
    }

    /// A permit for a body that has the right to run already.
    pub(crate) fn run(self: &Arc<Self>, limit: usize) -> Result<Arc<Permit>, Full> {
        let mut counts = lock(&self.counts);
        if counts.running >= limit {
            return Err(Full::Running);
        }
        counts.running += 1;
        drop(counts);
        Ok(self.permit(true))
    }

    /// `true` if as many bodies run as may.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        lock(&self.counts).running >= limit
    }

    /// Resolves after the next change. To be called before [`ask`](Self::ask).
    pub(crate) fn changed(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }

    fn permit(self: &Arc<Self>, running: bool) -> Arc<Permit> {
        let running = AtomicBool::new(running);
        Arc::new(Permit { admission: Arc::clone(self), running })
    }
}

impl Permit {
    /// The store granted the right to run.
    pub(crate) fn runs(&self) {
        if !self.running.swap(true, SeqCst) {
            let mut counts = lock(&self.admission.counts);
            counts.asking -= 1;
            counts.running += 1;
            drop(counts);
            self.admission.changed.notify_waiters();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.admission.counts);
        match self.running.load(SeqCst) {
            true => counts.running -= 1,
            false => counts.asking -= 1,
        }
        drop(counts);
        self.admission.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askers_fill_the_limit_and_only_bodies_refuse() {
        let admission = Arc::<Admission>::default();
        let first = admission.ask(2).unwrap();
        let second = admission.ask(2).unwrap();
        assert_eq!(admission.ask(2).unwrap_err(), Full::Asking);
        first.runs();
        first.runs();
        assert_eq!(admission.ask(2).unwrap_err(), Full::Asking);
        second.runs();
        assert_eq!(admission.ask(2).unwrap_err(), Full::Running);
        assert!(admission.is_full(2));
        drop(first);
        drop(admission.ask(2).unwrap());
        drop(admission.run(2).unwrap());
        drop(second);
        let counts = lock(&admission.counts);
        assert_eq!((counts.asking, counts.running), (0, 0));
    }
}
