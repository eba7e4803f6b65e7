//! Handlers whose client has gone, counted.
//!
//! A handler outlives its client, and with it the permits of the middleware around the layer: a
//! concurrency limit outside of it counts connections that are still there. Clients that send a
//! request and leave could so start any number of handlers. The layer counts those handlers itself
//! and starts no further one when there are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

/// The largest number of handlers whose client has gone, by default.
pub(crate) const MAX_ORPHANS: usize = 1_024;

/// The number of handlers whose client has gone.
#[derive(Debug, Default)]
pub(crate) struct Orphans(AtomicUsize);

impl Orphans {
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// The two ends of an exchange that begins.
    pub(crate) fn exchange(self: &Arc<Self>) -> (ClientEnd, HandlerEnd) {
        let ends = Arc::new(Ends { orphans: Arc::clone(self), state: AtomicU8::new(BOTH) });
        (ClientEnd(Arc::clone(&ends)), HandlerEnd(ends))
    }
}

/// Client and handler are there.
const BOTH: u8 = 0;
/// The client has gone, and the handler is counted.
const ORPHANED: u8 = 1;
/// The handler has ended.
const ENDED: u8 = 2;

#[derive(Debug)]
struct Ends {
    orphans: Arc<Orphans>,
    state: AtomicU8,
}

/// Held by the future that the client's connection polls, for as long as it does.
#[derive(Debug)]
pub(crate) struct ClientEnd(Arc<Ends>);

/// Held by the handler until it ends.
#[derive(Debug)]
pub(crate) struct HandlerEnd(Arc<Ends>);

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let Ends { orphans, state } = &*self.0;
        // Counted before the handler can see it, so that the count never goes below zero.
        orphans.0.fetch_add(1, SeqCst);
        if state.compare_exchange(BOTH, ORPHANED, SeqCst, SeqCst).is_err() {
            orphans.0.fetch_sub(1, SeqCst);
        }
    }
}

impl Drop for HandlerEnd {
    fn drop(&mut self) {
        let Ends { orphans, state } = &*self.0;
        if state.swap(ENDED, SeqCst) == ORPHANED {
            orphans.0.fetch_sub(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_counts_from_when_its_client_goes_until_it_ends() {
        let orphans = Arc::new(Orphans::default());
        let (client, handler) = orphans.exchange();
        assert_eq!(orphans.count(), 0);
        drop(client);
        assert_eq!(orphans.count(), 1);
        drop(handler);
        assert_eq!(orphans.count(), 0);
    }

    #[test]
    fn a_handler_that_ends_before_its_client_goes_does_not_count() {
        let orphans = Arc::new(Orphans::default());
        let (client, handler) = orphans.exchange();
        drop(handler);
        drop(client);
        assert_eq!(orphans.count(), 0);
    }
}
