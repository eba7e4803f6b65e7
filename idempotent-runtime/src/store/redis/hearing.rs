//! The listeners to records that operators free, and the connection on which the server tells of them.
//!
//! An instance may keep answers for as long as it would hear that they are no longer the record's. So
//! it is told that the store listens only after the server has confirmed the subscription, and that this
//! is over as soon as the connection is.
//!
//! # Locks
//! Instances are told that the store listens, and that it does not, under the lock: a connection that
//! ends while its subscription is confirmed tells both in the right order. Keys are told outside it.

use crate::store::{FreedEvent, FreedListener};
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// The listeners of a store.
#[derive(Default)]
pub(super) struct Hearing(Mutex<State>);

#[derive(Default)]
struct State {
    listeners: Vec<FreedListener>,
    /// The number of connections so far, which is that of the last one.
    connections: u64,
    /// The last connection is there.
    is_open: bool,
    /// It has subscribed, and says what is freed.
    listens: bool,
}

impl State {
    fn tell(&self, event: FreedEvent<'_>) {
        self.listeners.iter().for_each(|listener| listener.tell(event));
    }
}

/// The subscription of one connection. Dropped, it hears nothing more.
pub(super) struct Subscription {
    hearing: Arc<Hearing>,
    connection: u64,
}

impl Hearing {
    pub(super) fn add(&self, listener: FreedListener) {
        let mut state = lock(&self.0);
        if state.listens {
            listener.tell(FreedEvent::Listening);
        }
        // An instance that has ended leaves no more than this behind.
        state.listeners.retain(|listener| !listener.is_over());
        state.listeners.push(listener);
    }

    /// `true` if there is nobody to tell.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).listeners.iter().all(FreedListener::is_over)
    }

    /// `true` if an instance answers from memory for as long as it is told.
    pub(super) fn keeps_answers(&self) -> bool {
        lock(&self.0).listeners.iter().any(FreedListener::keeps_answers)
    }

    /// A connection that is about to be made. It takes the place of the one before.
    pub(super) fn open(self: &Arc<Self>) -> Subscription {
        let mut state = lock(&self.0);
        debug_assert!(!state.is_open, "one connection at a time hears");
        state.connections += 1;
        state.is_open = true;
        Subscription { hearing: Arc::clone(self), connection: state.connections }
    }

    /// An operator freed the record of `key`.
    pub(super) fn freed(&self, key: &str) {
        let listeners = lock(&self.0).listeners.clone();
        listeners.iter().for_each(|listener| listener.tell(FreedEvent::Freed(key)));
    }

    /// The server has confirmed the subscription of this connection.
    pub(super) fn listens(&self, connection: u64) {
        let mut state = lock(&self.0);
        // Confirmed before it ended, and told of only now: what was freed in between is lost.
        if state.is_open && state.connections == connection && !state.listens {
            state.listens = true;
            state.tell(FreedEvent::Listening);
        }
    }

    /// This connection has ended.
    pub(super) fn lost(&self, connection: u64) {
        let mut state = lock(&self.0);
        if state.is_open && state.connections == connection {
            state.is_open = false;
            if std::mem::take(&mut state.listens) {
                state.tell(FreedEvent::Lost);
            }
        }
    }
}

impl Subscription {
    /// The number of the connection.
    pub(super) fn connection(&self) -> u64 {
        self.connection
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hearing.lost(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Events = Arc<Mutex<Vec<String>>>;

    fn listener(hearing: &Hearing) -> Events {
        let events = Events::default();
        hearing.add(FreedListener::new(&events, |events: &Mutex<Vec<String>>, event| {
            lock(events).push(format!("{event:?}"));
        }));
        events
    }

    fn taken(events: &Events) -> Vec<String> {
        std::mem::take(&mut lock(events))
    }

    #[test]
    fn a_connection_is_listening_from_its_confirmation_to_its_end() {
        let hearing = Arc::new(Hearing::default());
        let first = listener(&hearing);
        let subscription = hearing.open();
        assert!(taken(&first).is_empty());
        hearing.listens(subscription.connection());
        hearing.listens(subscription.connection());
        let second = listener(&hearing);
        hearing.freed("k");
        drop(subscription);
        assert_eq!(taken(&first), ["Listening", "Freed(\"k\")", "Lost"]);
        assert_eq!(taken(&second), ["Listening", "Freed(\"k\")", "Lost"]);
    }

    #[test]
    fn a_confirmation_that_comes_after_the_end_of_its_connection_counts_for_nothing() {
        let hearing = Arc::new(Hearing::default());
        let events = listener(&hearing);
        let subscription = hearing.open();
        let ended = subscription.connection();
        drop(subscription);
        hearing.listens(ended);
        let next = hearing.open();
        hearing.listens(ended);
        assert!(taken(&events).is_empty());
        hearing.listens(next.connection());
        hearing.lost(ended);
        assert_eq!(taken(&events), ["Listening"]);
    }

    #[test]
    fn listeners_whose_owner_is_gone_are_dropped_and_keep_nothing() {
        let hearing = Arc::new(Hearing::default());
        assert!(hearing.is_empty());
        for _ in 0..100 {
            let owner = Arc::new(());
            let listener = FreedListener::new(&owner, |(), _| {}).keeping_answers(true);
            hearing.add(listener);
            assert!(!hearing.is_empty() && hearing.keeps_answers());
        }
        assert!(hearing.is_empty() && !hearing.keeps_answers());
        assert_eq!(lock(&hearing.0).listeners.len(), 1, "the last one");
        let _events = listener(&hearing);
        assert!(!hearing.is_empty() && !hearing.keeps_answers());
        assert_eq!(lock(&hearing.0).listeners.len(), 1);
    }
}
