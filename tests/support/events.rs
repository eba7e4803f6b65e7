//! Collector for the `tracing` events of this thread.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Metadata, Subscriber};

/// One event.
#[derive(Clone, Debug)]
pub struct Seen {
    pub level: Level,
    pub message: String,
    /// The fields other than the message, as text.
    pub fields: BTreeMap<&'static str, String>,
}

/// The events of the target `idempotent` since [`collect`] was called on this thread.
pub struct Events {
    seen: Arc<Mutex<Vec<Seen>>>,
    _guard: DefaultGuard,
}

impl Events {
    /// Takes all events.
    pub fn take_all(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Takes all events and returns those with this message.
    pub fn take(&self, message: &str) -> Vec<Seen> {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.retain(|event| event.message == message);
        seen
    }
}

/// Collects the events of this thread until the returned value is dropped.
pub fn collect() -> Events {
    let seen = Arc::default();
    let guard = tracing::subscriber::set_default(Collector { seen: Arc::clone(&seen) });
    Events { seen, _guard: guard }
}

struct Collector {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "idempotent"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let level = *event.metadata().level();
        let mut seen = Seen { level, message: String::new(), fields: BTreeMap::new() };
        event.record(&mut seen);
        self.seen.lock().unwrap().push(seen);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}
