//! The counter of calls that a shutdown waits for.

use crate::engine::attempt::striped_counter::StripedCounter;
use crate::sync::{check, thread_number};
use shuttle::thread;
use std::sync::Arc;

#[test]
fn a_call_that_comes_and_goes_does_not_hide_another_one() {
    check::all(|| {
        let calls = Arc::new(StripedCounter::new());
        calls.increment();
        let other = Arc::clone(&calls);
        thread::spawn(move || {
            // It begins in the stripe that is read first, and ends in the one that is read last.
            thread::spawn(move || {
                assert_eq!(thread_number() % 2, 0);
                other.increment();
                thread::spawn(move || {
                    assert_eq!(thread_number() % 2, 1);
                    other.decrement();
                });
            });
        });
        assert!(calls.get() >= 1, "the call of this thread is under way");
    });
}
