//! What all calls of an instance share.

use super::admission::Admission;
use super::backlog::Backlog;
use super::keeper::Keeper;
use super::short_leases::ShortLeases;
use super::slots::Slots;
use super::values::Values;
use crate::clock::{Clock, Moment, Sleep};
use crate::config::Config;
use crate::store::Store;
use crate::switch::Protection;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::Arc;

/// What all calls of an instance share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    /// Whether the store answers without waiting, so that callers need not be merged before it.
    pub(crate) local: bool,
    pub(crate) protection: Protection,
    pub(crate) config: ArcSwap<Config>,
    pub(crate) clock: Clock,
    pub(crate) values: Values,
    pub(crate) slots: Slots,
    pub(crate) admission: Arc<Admission>,
    pub(crate) keeper: Keeper,
    /// An `Arc` of its own: jobs in it hold the core, and must not hold it through this.
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) short_leases: ShortLeases,
    /// The store was asked to tell of records that operators free.
    hears_freed: AtomicBool,
}

impl Core {
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
            store,
            protection: Protection::On,
            config: ArcSwap::from_pointee(config),
            clock,
            values,
            slots: Slots::new(),
            admission: Arc::default(),
            keeper,
            backlog: Arc::default(),
            hears_freed: AtomicBool::new(false),
        })
    }

    /// `true` if bodies run without asking the store.
    pub(crate) fn is_disabled(&self) -> bool {
        self.protection == Protection::Off
    }

    /// Asks the store, once, to tell of records that operators free elsewhere.
    ///
    /// Done when a caller first waits for an attempt of this process: until then no caller here
    /// would gain from it, and it may cost a connection.
    pub(crate) fn hear_freed(self: &Arc<Self>) {
        if self.hears_freed.swap(true, Relaxed) {
            return;
        }
        let core = Arc::downgrade(self);
        self.store.on_freed(Arc::new(move |key| {
            if let Some(core) = core.upgrade() {
                // The message may be late, and this attempt a later one: the store knows.
                core.keeper.leases().check(key);
            }
        }));
    }

    pub(crate) fn sleep_until(&self, moment: Moment) -> Sleep {
        self.clock.sleep_until(moment, self.keeper.timers())
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Core")
            .field("store", &self.store)
            .field("config", &self.config.load())
            .field("in_flight", &self.keeper.leases().count())
            .finish_non_exhaustive()
    }
}
