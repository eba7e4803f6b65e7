//! Counts handlers whose client has gone.
//!
//! A handler outlives its client and the permits of the middleware around the layer: a concurrency
//! limit outside of it counts only connections that are still open. Clients that send a request and
//! leave could therefore start any number of handlers. The layer counts those handlers itself and
//! starts no further one if there are too many.

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

    /// Creates the two ends of an exchange.
    pub(crate) fn exchange(self: &Arc<Self>) -> (ClientEnd, HandlerEnd) {
        let ends = Arc::new(Ends { orphans: Arc::clone(self), state: AtomicU8::new(BOTH) });
        (ClientEnd(Arc::clone(&ends)), HandlerEnd(ends))
    }
}

/// Client and handler are both present.
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

/// The client's end. Held by the future that the connection polls, and dropped with it.
#[derive(Debug)]
pub(crate) struct ClientEnd(Arc<Ends>);

/// The handler's end. Held until the handler ends.
#[derive(Debug)]
pub(crate) struct HandlerEnd(Arc<Ends>);

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let Ends { orphans, state } = &*self.0;
        // Mostly the handler has ended: the count, which all threads share, is left alone.
        if state.load(SeqCst) == ENDED {
            return;
        }
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
