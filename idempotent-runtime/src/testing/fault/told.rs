//! The instances that are told of freed records.

use crate::key::RecordKey;
use crate::store::{Freed, FreedEvent};
use crate::sync::{Mutex, lock};

/// The listeners of a store whose instances are all in this process.
#[derive(Default)]
pub(super) struct Told(Mutex<State>);

#[derive(Default)]
struct State {
    listeners: Vec<Freed>,
    is_lost: bool,
}

impl State {
    fn tell(&self, event: FreedEvent<'_>) {
        self.listeners.iter().for_each(|told| told(event));
    }
}

impl Told {
    pub(super) fn add(&self, told: Freed) {
        let mut state = lock(&self.0);
        if !state.is_lost {
            told(FreedEvent::Listening);
        }
        state.listeners.push(told);
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
