//! The registry of attempts, and the keeper that looks at it.

use crate::clock::{Clock, Manual, Moment};
use crate::engine::attempt::registry::Registry;
use crate::engine::attempt::{AttemptState, Terms};
use crate::key::RecordKey;
use crate::protocol::Binding;
use crate::race::race;
use crate::store::{AttemptId, Claim, Token};
use crate::sync::check;
use shuttle::future::{block_on, spawn};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const LEASE: Duration = Duration::from_secs(30);

struct Bench {
    manual: Arc<Manual>,
    clock: Clock,
    registry: Registry,
    /// Nobody drives it: the clock is moved by hand.
    timers: Runtime,
}

fn bench() -> Arc<Bench> {
    let manual = Arc::new(Manual::new());
    let clock = Clock::manual(Arc::clone(&manual));
    let timers = Builder::new_current_thread().build().unwrap();
    Arc::new(Bench { manual, clock, registry: Registry::new(), timers })
}

impl Bench {
    /// A lease whose number chooses its shard.
    fn lease(&self, number: u8, length: Duration) -> Arc<AttemptState> {
        let token = Token::from_bytes([number; 16]);
        let claim = Claim::Window { window: length };
        let attempt = AttemptId { token, number: 1, fence: 1, fingerprint: None, claim };
        let sent_at = self.clock.now();
        let clock = Clock::system();
        let (max_run, block_linger, binding) = (LEASE * 10, None, Binding::Lifted);
        let terms = Terms {
            retention: LEASE,
            length,
            max_run,
            block_linger,
            binding,
            locks_store: false,
            sent_at,
            clock,
        };
        Arc::new(AttemptState::new("o".into(), RecordKey::from("k"), attempt, &terms, 0, None))
    }
}

/// `true` if the keeper would not sleep if it went to sleep here.
fn is_woken(registry: &Registry) -> bool {
    use std::future::Future as _;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(registry.keeper_is_needed()).poll(&mut context).is_ready()
}

#[test]
fn a_new_lease_is_seen_by_the_look_or_wakes_the_keeper() {
    check::all(|| {
        let bench = bench();
        // The keeper had planned to look at this moment.
        bench.registry.look(&bench.clock, bench.clock.now().after(LEASE));
        bench.manual.advance(LEASE);
        let lease = bench.lease(1, LEASE);
        let inserting = {
            let (bench, lease) = (Arc::clone(&bench), Arc::clone(&lease));
            thread::spawn(move || bench.registry.insert(&lease))
        };
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        inserting.join().unwrap();
        let renew_at = bench.clock.now().after(LEASE / 3);
        assert!(due.next <= renew_at || is_woken(&bench.registry));
    });
}

#[test]
fn a_shorter_lease_than_the_keeper_has_planned_for_wakes_it() {
    check::all(|| {
        let bench = bench();
        bench.registry.insert(&bench.lease(0, LEASE));
        bench.registry.look(&bench.clock, Moment::FAR);
        // What made the keeper look.
        assert!(is_woken(&bench.registry));
        let short = bench.lease(1, LEASE / 10);
        let inserting = {
            let (bench, short) = (Arc::clone(&bench), Arc::clone(&short));
            thread::spawn(move || bench.registry.insert(&short))
        };
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        inserting.join().unwrap();
        let renew_at = bench.clock.now().after(LEASE / 30);
        assert!(due.next <= renew_at || is_woken(&bench.registry));
    });
}

#[test]
fn removing_keeps_the_others_where_they_are_looked_for() {
    check::many(|| {
        let bench = bench();
        let first: Vec<_> = (0..4).map(|number| bench.lease(number, LEASE)).collect();
        first.iter().for_each(|lease| bench.registry.insert(lease));
        let jobs: Vec<_> = (0..2)
            .map(|half| {
                let (bench, first) = (Arc::clone(&bench), first.clone());
                thread::spawn(move || {
                    let stays = bench.lease(10 + half, LEASE);
                    bench.registry.insert(&stays);
                    bench.registry.remove(&first[usize::from(half)]);
                    // Both remove this one; it counts once.
                    bench.registry.remove(&first[2]);
                    stays
                })
            })
            .collect();
        bench.registry.look(&bench.clock, Moment::FAR);
        let mut stay: Vec<_> = jobs.into_iter().map(|job| job.join().unwrap()).collect();
        stay.push(Arc::clone(&first[3]));
        assert_eq!(bench.registry.count(), 3);
        bench.manual.advance(LEASE);
        bench.registry.look(&bench.clock, Moment::FAR);
        assert!(stay.iter().all(|lease| lease.is_lost()));
        assert!(first[..3].iter().all(|lease| !lease.is_lost()));
        stay.iter().for_each(|lease| bench.registry.remove(lease));
        assert_eq!(bench.registry.count(), 0);
    });
}

/// The keeper's loop without a store: every renewal that is due is told, and granted.
async fn keep(bench: Arc<Bench>, renewed: Sender<u8>) {
    loop {
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        for lease in &due.renew {
            lease.extended(due.sent_at);
            let _ = renewed.send(lease.id().token.to_bytes()[0]);
        }
        let asleep = bench.clock.sleep_until(due.next, bench.timers.handle());
        race(asleep, bench.registry.keeper_is_needed()).await;
    }
}

#[test]
fn every_lease_is_renewed_in_time_whenever_it_was_inserted() {
    check::many(|| {
        let bench = bench();
        let (sender, renewed) = channel();
        drop(spawn(keep(Arc::clone(&bench), sender)));
        let leases: Vec<_> = (0..2).map(|number| bench.lease(number, LEASE)).collect();
        for lease in &leases {
            let (bench, lease) = (Arc::clone(&bench), Arc::clone(lease));
            thread::spawn(move || bench.registry.insert(&lease));
        }
        for _ in 0..3 {
            bench.manual.advance(LEASE / 3);
            let mut round = [renewed.recv().unwrap(), renewed.recv().unwrap()];
            round.sort_unstable();
            assert_eq!(round, [0, 1]);
        }
        assert!(leases.iter().all(|lease| !lease.is_lost()));
    });
}

/// The keeper's loop while no store answers.
async fn keep_in_vain(bench: Arc<Bench>) {
    loop {
        let due = bench.registry.look(&bench.clock, Moment::FAR);
        let asleep = bench.clock.sleep_until(due.next, bench.timers.handle());
        race(asleep, bench.registry.keeper_is_needed()).await;
    }
}

#[test]
fn a_lease_is_told_lost_when_it_is_over_and_not_before() {
    check::many(|| {
        let bench = bench();
        drop(spawn(keep_in_vain(Arc::clone(&bench))));
        let holders: Vec<_> = (0..3)
            .map(|number| {
                // Shorter ones among longer ones, in both shards.
                let lease = bench.lease(number, LEASE / u32::from(number + 1));
                let bench = Arc::clone(&bench);
                spawn(async move {
                    bench.registry.insert(&lease);
                    lease.lost().await;
                    assert!(bench.clock.now() >= lease.deadline());
                    bench.registry.remove(&lease);
                })
            })
            .collect();
        for _ in 0..6 {
            bench.manual.advance(LEASE / 6);
        }
        holders.into_iter().for_each(|holder| block_on(holder).unwrap());
        assert_eq!(bench.registry.count(), 0);
    });
}
