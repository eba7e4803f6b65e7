//! Waking of callers in the same process when the record that they wait for has changed.
//!
//! Neither MySQL nor MariaDB notifies clients: callers in other processes poll.

use crate::store_parts::lock;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::Watch;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Wakes(Mutex<HashMap<RecordKey, Weak<Notify>>>);

impl Wakes {
    /// A watch that wakes when this store writes the record.
    pub(super) fn watch(&self, key: &RecordKey) -> Watch {
        let notify = self.notify(key);
        let mut notified = Box::pin(Arc::clone(&notify).notified_owned());
        notified.as_mut().enable();
        Watch::new(async move {
            notified.await;
            drop(notify);
        })
    }

    fn notify(&self, key: &RecordKey) -> Arc<Notify> {
        let mut watches = lock(&self.0);
        if let Some(notify) = watches.get(key).and_then(Weak::upgrade) {
            return notify;
        }
        // Watches that nobody waits for any more, now and then.
        if watches.len() >= 64 && watches.len().is_power_of_two() {
            watches.retain(|_, notify| notify.strong_count() > 0);
        }
        let notify = Arc::new(Notify::new());
        watches.insert(key.clone(), Arc::downgrade(&notify));
        notify
    }

    /// Wakes those that watch a record.
    pub(super) fn wake(&self, key: &RecordKey) {
        let notify = lock(&self.0).remove(key);
        if let Some(notify) = notify.and_then(|notify| notify.upgrade()) {
            notify.notify_waiters();
        }
    }
}
