//! An instance: a store, a configuration, and what its attempts share.

use super::admission::Admission;
use super::backlog::Backlog;
use super::idle_arguments::IdleArguments;
use super::keeper::Keeper;
use super::replays::{Reading, Replays, Told};
use super::short_leases::ShortLeases;
use super::state::AttemptState;
use super::values::Values;
use crate::clock::{Clock, Moment, Sleep};
use crate::config::Config;
use crate::key::RecordKey;
use crate::observe::{self, LoggedKey, names};
use crate::store::{FreedEvent, FreedListener, Store};
use crate::switch::Protection;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::Arc;

/// The part of an instance that its attempts share, and that work in the background keeps alive.
pub(crate) struct Instance {
    pub(crate) store: Arc<dyn Store>,
    /// The store answers without waiting, so that callers need not be merged before it.
    pub(crate) local: bool,
    pub(crate) protection: Protection,
    pub(crate) config: ArcSwap<Config>,
    pub(crate) clock: Clock,
    pub(crate) values: Values,
    pub(crate) admission: Arc<Admission>,
    pub(crate) keeper: Keeper,
    /// An `Arc` of its own: jobs in it hold the instance, and must not hold it through this.
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) short_leases: ShortLeases,
    pub(crate) idle_arguments: IdleArguments,
    /// Answers that are given without asking the store, if the program wants that.
    pub(crate) replays: Option<Replays>,
    /// The store was asked to tell of records that operators free.
    hears_freed: AtomicBool,
}

impl Instance {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        config: Config,
        clock: Clock,
        values: Values,
    ) -> std::io::Result<Self> {
        let keeper = Keeper::start(Arc::clone(&store), clock.clone(), config.cleanup_interval)?;
        Ok(Self {
            local: store.is_local(),
            short_leases: ShortLeases::new(store.timeout()),
            idle_arguments: IdleArguments::default(),
            store,
            protection: Protection::On,
            config: ArcSwap::from_pointee(config),
            clock,
            values,
            admission: Arc::default(),
            keeper,
            backlog: Arc::default(),
            replays: None,
            hears_freed: AtomicBool::new(false),
        })
    }

    /// `true` if bodies run without asking the store.
    pub(crate) fn is_disabled(&self) -> bool {
        self.protection == Protection::Off
    }

    /// Asks the store, once, to tell of records that operators free elsewhere.
    ///
    /// Done when a caller first waits for an attempt of this process, or could get an answer from its
    /// cache: until then no caller here would gain from it, and it may cost a connection.
    pub(crate) fn hear_freed(self: &Arc<Self>) {
        // Relaxed: the swap alone decides which caller asks, and nothing is read through it.
        if self.hears_freed.swap(true, Relaxed) {
            return;
        }
        let listener = FreedListener::new(self, |instance, event| {
            if let Some(replays) = &instance.replays {
                replays.heard(event);
            }
            if let FreedEvent::Freed(key) = event {
                // The message may be late, and this attempt a later one: the store knows.
                instance.keeper.registry().check(key);
            }
        });
        self.store.on_freed(listener.keeping_answers(self.replays.is_some()));
    }

    /// To be taken before the store is asked for something that may be kept.
    pub(crate) fn reading(&self) -> Option<Reading> {
        self.replays.as_ref()?.reading(self.clock.now())
    }

    /// Keeps an answer of the store for later calls, or drops what is kept of its record.
    pub(crate) fn told(&self, reading: Option<Reading>, told: Told<'_>) {
        if let (Some(replays), Some(reading)) = (&self.replays, reading) {
            replays.told(reading, told);
        }
    }

    /// A number that only clones of this instance share.
    pub(crate) fn identity(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// The key as it appears in logs and errors.
    pub(crate) fn logged_key(&self, key: &RecordKey) -> String {
        LoggedKey { key, in_full: self.config.load().log_keys }.to_string()
    }

    /// Ends an attempt in this process: it is no longer renewed.
    pub(crate) fn forget(&self, state: &AttemptState) {
        let registry = self.keeper.registry();
        registry.remove(state);
        self.keeper.attempt_ended();
        // The keeper may not have looked since.
        if state.take_loss() {
            observe::rare(names::LEASES_LOST, &state.operation);
        }
        observe::in_flight(|| registry.count());
    }

    pub(crate) fn sleep_until(&self, moment: Moment) -> Sleep {
        self.clock.sleep_until(moment, self.keeper.timers())
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("store", &self.store)
            .field("config", &self.config.load())
            .field("in_flight", &self.keeper.registry().count())
            .finish_non_exhaustive()
    }
}
