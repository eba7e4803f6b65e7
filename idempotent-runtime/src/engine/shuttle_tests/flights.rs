//! The callers of one key: one leads, the lead is passed on, and tokens that are never lost.

use crate::clock::{Clock, Manual, Moment};
use crate::engine::attempt::{Copies, PendingBegin};
use crate::engine::flight::flights::{Flights, Landing, Member, Turn, Waits};
use crate::engine::flight::not_granted::NotGranted;
use crate::key::RecordKey;
use crate::protocol::{BeginRequest, Binding};
use crate::store::{Claim, Token};
use crate::sync::check;
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn key() -> RecordKey {
    RecordKey::from("k")
}

fn sent(token: Token) -> PendingBegin {
    let claim = Claim::Window { window: SECOND };
    let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
    let (binding, at) = (Binding::Lifted, Moment::from_nanos(1));
    PendingBegin { request, retention: SECOND, binding, at, copies: Copies::Answered, begin: None }
}

/// Facts about all callers together. Its own locks are none of the checker's business.
struct World {
    flights: Flights,
    /// The number of callers that lead, or run their body.
    leading: AtomicUsize,
    tokens: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    made: u8,
    /// Those that were sent and neither answered nor released.
    open: BTreeSet<[u8; 16]>,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flights: Flights::new(),
            leading: AtomicUsize::new(0),
            tokens: Mutex::default(),
        })
    }

    fn send(&self) -> PendingBegin {
        let mut tokens = self.tokens.lock().unwrap();
        tokens.made += 1;
        let token = [tokens.made; 16];
        tokens.open.insert(token);
        sent(Token::from_bytes(token))
    }

    /// The token was answered, or is released. Once.
    fn finish(&self, sent: PendingBegin) {
        let token = sent.request.token.to_bytes();
        assert!(self.tokens.lock().unwrap().open.remove(&token), "a token was finished twice");
    }

    fn take_lead(&self) {
        assert_eq!(self.leading.fetch_add(1, SeqCst), 0, "two lead one flight");
    }

    fn give_lead(&self) {
        self.leading.fetch_sub(1, SeqCst);
    }

    fn assert_all_gone(&self) {
        assert_eq!(self.flights.len(), 0, "a flight is left");
        assert!(self.tokens.lock().unwrap().open.is_empty(), "a token is lost");
        assert_eq!(self.leading.load(SeqCst), 0);
    }
}

fn waits_for_ever(member: &mut Member) {
    member.waits_until(Moment::FAR, |_| unreachable!("it has no timer"));
}

/// One caller, which does what callers do, and goes away at any point.
async fn caller(world: Arc<World>) {
    let waits = if thread_rng().r#gen() { Waits::Yes } else { Waits::No };
    let mut again = true;
    while again {
        let mut member = world.flights.join(&key());
        waits_for_ever(&mut member);
        again = take_turns(&world, &member, waits).await;
        if let Some(orphan) = world.flights.leave(&member) {
            world.finish(orphan);
        }
    }
}

/// Returns `true` if the caller is to ask again in another flight.
async fn take_turns(world: &World, member: &Member, waits: Waits) -> bool {
    loop {
        let changed = member.woken().expect("it waits");
        match member.turn(None, waits) {
            Turn::Lead(sent) => {
                world.take_lead();
                lead(world, member, sent).await;
                return false;
            }
            Turn::Wait(_) if waits == Waits::Yes && thread_rng().gen_ratio(1, 8) => return false,
            Turn::Wait(_) => changed.await,
            Turn::Landed(None) => return true,
            Turn::InFlight(_) if waits == Waits::Yes => panic!("it was told not to wait"),
            Turn::Landed(Some(_)) | Turn::InFlight(_) => return false,
            Turn::Mismatch => panic!("there are no fingerprints"),
            Turn::HolderLost => panic!("there are no leases"),
        }
    }
}

async fn lead(world: &World, member: &Member, sent: Option<PendingBegin>) {
    let sent = sent.unwrap_or_else(|| world.send());
    yield_now().await;
    if thread_rng().r#gen() {
        member.in_flight_elsewhere(1, SECOND);
        yield_now().await;
    }
    match thread_rng().gen_range(0..4) {
        // Goes while its `begin` is under way.
        0 => {
            world.give_lead();
            member.step_down(Some(sent));
            return;
        }
        // Goes after an answer that tells nothing.
        1 => {
            world.finish(sent);
            world.give_lead();
            member.step_down(None);
            return;
        }
        // Was told an answer.
        2 => world.finish(sent),
        // Runs the body.
        _ => {
            world.finish(sent);
            member.running(None, SECOND);
            yield_now().await;
        }
    }
    world.give_lead();
    let found = match thread_rng().r#gen() {
        true => None,
        false => Some(NotGranted::Succeeded { number: 1, value: None }),
    };
    world.flights.land(member, Landing { found, ..Landing::default() });
}

#[test]
fn one_leads_no_token_is_lost_and_nobody_waits_for_ever() {
    check::many(|| {
        let world = World::new();
        let callers: Vec<_> = (0..4).map(|_| spawn(caller(Arc::clone(&world)))).collect();
        for caller in callers {
            block_on(caller).unwrap();
        }
        world.assert_all_gone();
    });
}

#[test]
fn the_token_of_one_who_leaves_goes_to_one_who_joins_or_is_given_back() {
    check::all(|| {
        let world = World::new();
        let leaving = world.flights.join(&key());
        assert!(matches!(leaving.turn(None, Waits::Yes), Turn::Lead(None)));
        let sent = world.send();
        let joining = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.flights.join(&key());
                if let Turn::Lead(sent) = member.turn(None, Waits::Yes) {
                    sent.into_iter().for_each(|sent| world.finish(sent));
                    member.step_down(None);
                }
                let orphan = world.flights.leave(&member);
                orphan.into_iter().for_each(|orphan| world.finish(orphan));
            })
        };
        leaving.step_down(Some(sent));
        let orphan = world.flights.leave(&leaving);
        orphan.into_iter().for_each(|orphan| world.finish(orphan));
        joining.join().unwrap();
        world.assert_all_gone();
    });
}

#[test]
fn who_joins_while_it_ends_shares_the_answer_or_meets_in_another_flight() {
    check::all(|| {
        let world = World::new();
        let first = world.flights.join(&key());
        assert!(matches!(first.turn(None, Waits::Yes), Turn::Lead(None)));
        let second = {
            let world = Arc::clone(&world);
            spawn(async move {
                let mut member = world.flights.join(&key());
                waits_for_ever(&mut member);
                loop {
                    let changed = member.woken().expect("it waits");
                    match member.turn(None, Waits::Yes) {
                        Turn::Wait(_) => changed.await,
                        Turn::Lead(None) => {
                            member.step_down(None);
                            break;
                        }
                        Turn::Landed(Some(NotGranted::Succeeded { .. })) => break,
                        other => panic!("{other:?}"),
                    }
                }
                assert!(world.flights.leave(&member).is_none());
            })
        };
        first.running(None, SECOND);
        let found = Some(NotGranted::Succeeded { number: 1, value: None });
        world.flights.land(&first, Landing { found, ..Landing::default() });
        assert!(world.flights.leave(&first).is_none());
        block_on(second).unwrap();
        world.assert_all_gone();
    });
}

#[test]
fn who_waits_is_woken_by_the_landing() {
    check::all(|| one_waits_until(Wakes::Landing));
}

#[test]
fn who_waits_is_woken_when_the_wait_is_over() {
    check::all(|| one_waits_until(Wakes::EndOfWait));
}

enum Wakes {
    Landing,
    EndOfWait,
}

fn one_waits_until(wakes: Wakes) {
    let world = World::new();
    let manual = Arc::new(Manual::new());
    let clock = Clock::manual(Arc::clone(&manual));
    let first = world.flights.join(&key());
    assert!(matches!(first.turn(None, Waits::Yes), Turn::Lead(None)));
    let deadline = clock.now().after(SECOND);
    let second = {
        let world = Arc::clone(&world);
        spawn(async move {
            let timers = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut member = world.flights.join(&key());
            member.waits_until(deadline, |at| clock.sleep_until(at, timers.handle()));
            loop {
                let woken = member.woken().expect("it waits");
                match member.turn(None, Waits::Yes) {
                    Turn::Wait(_) if member.has_waited() => break,
                    Turn::Wait(_) => woken.await,
                    Turn::Landed(None) => break,
                    Turn::Lead(None) => {
                        // It came after the landing.
                        member.step_down(None);
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(world.flights.leave(&member).is_none());
        })
    };
    match wakes {
        Wakes::Landing => {
            world.flights.land(&first, Landing::default());
            block_on(second).unwrap();
        }
        Wakes::EndOfWait => {
            manual.advance(SECOND);
            block_on(second).unwrap();
            world.flights.land(&first, Landing::default());
        }
    }
    world.assert_all_gone();
}
