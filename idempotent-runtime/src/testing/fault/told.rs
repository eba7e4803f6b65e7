//! The listeners that are told of freed records.

use crate::key::RecordKey;
use crate::store::{FreedEvent, FreedListener};
use crate::sync::{Mutex, lock};

/// The listeners of a store whose instances are all in this process.
#[derive(Default)]
pub(super) struct Told(Mutex<State>);

#[derive(Default)]
struct State {
    listeners: Vec<FreedListener>,
    is_lost: bool,
}

impl State {
    fn tell(&self, event: FreedEvent<'_>) {
        self.listeners.iter().for_each(|listener| listener.tell(event));
    }
}

impl Told {
    pub(super) fn add(&self, listener: FreedListener) {
        let mut state = lock(&self.0);
        if !state.is_lost {
            listener.tell(FreedEvent::Listening);
        }
        state.listeners.retain(|listener| !listener.is_over());
        state.listeners.push(listener);
    }

    pub(super) fn freed(&self, key: &RecordKey) {
        let state = lock(&self.0);
        if !state.is_lost {
            state.tell(FreedEvent::Freed(key.as_str()));
        }
    }

    pub(super) fn lose(&self) {
        let mut state = lock(&self.0);
        state.is_lost = true;
        state.tell(FreedEvent::Lost);
    }

    pub(super) fn listen(&self) {
        let mut state = lock(&self.0);
        state.is_lost = false;
        state.tell(FreedEvent::Listening);
    }
}
