//! Events about records that operators free, and the listeners to which a store tells them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

/// An event on the way from an operator who frees a record to the processes that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FreedEvent<'a> {
    /// From here on, every record that is freed is told.
    Listening,
    /// An operator freed or resolved the record of this key, as
    /// [`RecordKey::as_str`](crate::key::RecordKey::as_str) gives it.
    Freed(&'a str),
    /// Records may be freed untold, until the store is listening again.
    Lost,
}

/// A listener to records that operators free: see [`Store::on_freed`](super::Store::on_freed).
///
/// It belongs to an owner, which it does not keep alive: without it, it hears nothing, and a store can
/// [drop it](Self::is_over).
///
/// ```
/// use idempotent_runtime::store::{FreedEvent, FreedListener};
/// use std::sync::{Arc, Mutex};
///
/// let freed = Arc::new(Mutex::new(Vec::new()));
/// let listener = FreedListener::new(&freed, |freed, event| {
///     if let FreedEvent::Freed(key) = event {
///         freed.lock().unwrap().push(key.to_owned());
///     }
/// });
/// listener.tell(FreedEvent::Freed("orders:7"));
/// assert_eq!(*freed.lock().unwrap(), ["orders:7"]);
/// drop(freed);
/// assert!(listener.is_over());
/// ```
#[derive(Clone)]
pub struct FreedListener {
    owner: Weak<dyn Any + Send + Sync>,
    told: Arc<dyn Fn(FreedEvent<'_>) + Send + Sync>,
    keeps_answers: bool,
}

impl FreedListener {
    /// A listener for as long as its owner is there.
    pub fn new<O: Send + Sync + 'static>(
        owner: &Arc<O>,
        told: impl Fn(&O, FreedEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        let of = Arc::downgrade(owner);
        let owner = Weak::clone(&of);
        let told = Arc::new(move |event: FreedEvent<'_>| {
            if let Some(owner) = of.upgrade() {
                told(&owner, event);
            }
        });
        Self { owner, told, keeps_answers: false }
    }

    /// Declares whether its owner keeps answers for as long as it would be told that their records are freed.
    #[must_use]
    pub fn keeping_answers(mut self, keeps_answers: bool) -> Self {
        self.keeps_answers = keeps_answers;
        self
    }

    /// Tells an event.
    pub fn tell(&self, event: FreedEvent<'_>) {
        (self.told)(event);
    }

    /// `true` if its owner is gone.
    pub fn is_over(&self) -> bool {
        self.owner.strong_count() == 0
    }

    /// `true` if its owner is there and [keeps answers](Self::keeping_answers). A store that rests while it is not used has to
    /// stay in touch with its servers for such an owner, which may be in use without a message to the store.
    pub fn keeps_answers(&self) -> bool {
        self.keeps_answers && !self.is_over()
    }
}

impl fmt::Debug for FreedListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FreedListener")
            .field("is_over", &self.is_over())
            .field("keeps_answers", &self.keeps_answers)
            .finish_non_exhaustive()
    }
}
