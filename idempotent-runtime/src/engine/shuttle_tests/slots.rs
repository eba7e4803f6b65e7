//! The callers of one key: one seat, which is passed on, and tokens that are never lost.

use crate::clock::Moment;
use crate::engine::slots::{Member, Sent, Shared, Slots, Turn, Waits};
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

fn sent(token: Token) -> Sent {
    let claim = Claim::Window { window: SECOND };
    let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
    let (binding, at) = (Binding::Lifted, Moment::from_nanos(1));
    Sent { request, retention: SECOND, binding, at, unanswered: false, begin: None }
}

/// What is true of all callers together. Its own locks are none of the checker's business.
struct World {
    slots: Slots,
    /// How many sit, or run their body.
    seated: AtomicUsize,
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
            slots: Slots::new(),
            seated: AtomicUsize::new(0),
            tokens: Mutex::default(),
        })
    }

    fn send(&self) -> Sent {
        let mut tokens = self.tokens.lock().unwrap();
        tokens.made += 1;
        let token = [tokens.made; 16];
        tokens.open.insert(token);
        sent(Token::from_bytes(token))
    }

    /// The token was answered, or is released. Once.
    fn finish(&self, sent: Sent) {
        let token = sent.request.token.to_bytes();
        assert!(self.tokens.lock().unwrap().open.remove(&token), "a token was finished twice");
    }

    fn sit_down(&self) {
        assert_eq!(self.seated.fetch_add(1, SeqCst), 0, "two sit in one slot");
    }

    fn get_up(&self) {
        self.seated.fetch_sub(1, SeqCst);
    }

    fn assert_all_gone(&self) {
        assert_eq!(self.slots.len(), 0, "a slot is left");
        assert!(self.tokens.lock().unwrap().open.is_empty(), "a token is lost");
        assert_eq!(self.seated.load(SeqCst), 0);
    }
}

/// One caller, which does what callers do, and goes away at any point.
async fn caller(world: Arc<World>) {
    let waits = if thread_rng().r#gen() { Waits::Yes } else { Waits::No };
    let mut again = true;
    while again {
        let member = world.slots.join(&key());
        again = take_turns(&world, &member, waits).await;
        if let Some(orphan) = world.slots.leave(&key(), &member) {
            world.finish(orphan);
        }
    }
}

/// Whether to ask again in another slot.
async fn take_turns(world: &World, member: &Member, waits: Waits) -> bool {
    loop {
        let changed = member.changed();
        match member.turn(None, waits) {
            Turn::Sit(sent) => {
                world.sit_down();
                sit(world, member, sent).await;
                return false;
            }
            Turn::Wait if waits == Waits::Yes && thread_rng().gen_ratio(1, 8) => return false,
            Turn::Wait => changed.await,
            Turn::Share(Shared::Again) => return true,
            Turn::InFlight(_) if waits == Waits::Yes => panic!("it was told not to wait"),
            Turn::Share(_) | Turn::InFlight(_) => return false,
            Turn::Mismatch => panic!("there are no fingerprints"),
        }
    }
}

async fn sit(world: &World, member: &Member, sent: Option<Sent>) {
    let sent = sent.unwrap_or_else(|| world.send());
    yield_now().await;
    if thread_rng().r#gen() {
        member.in_flight_elsewhere(1, SECOND);
        yield_now().await;
    }
    match thread_rng().gen_range(0..4) {
        // Goes while its `begin` is under way.
        0 => {
            world.get_up();
            member.vacate(Some(sent));
            return;
        }
        // Goes after an answer that tells nothing.
        1 => {
            world.finish(sent);
            world.get_up();
            member.vacate(None);
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
    world.get_up();
    let shared = match thread_rng().r#gen() {
        true => Shared::Again,
        false => Shared::Succeeded { number: 1, value: None },
    };
    world.slots.settle(&key(), member, None, shared);
}

#[test]
fn one_sits_no_token_is_lost_and_nobody_waits_for_ever() {
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
        let leaving = world.slots.join(&key());
        assert!(matches!(leaving.turn(None, Waits::Yes), Turn::Sit(None)));
        let sent = world.send();
        let joining = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.slots.join(&key());
                if let Turn::Sit(sent) = member.turn(None, Waits::Yes) {
                    sent.into_iter().for_each(|sent| world.finish(sent));
                    member.vacate(None);
                }
                let orphan = world.slots.leave(&key(), &member);
                orphan.into_iter().for_each(|orphan| world.finish(orphan));
            })
        };
        leaving.vacate(Some(sent));
        let orphan = world.slots.leave(&key(), &leaving);
        orphan.into_iter().for_each(|orphan| world.finish(orphan));
        joining.join().unwrap();
        world.assert_all_gone();
    });
}

#[test]
fn who_joins_while_it_ends_shares_the_answer_or_meets_in_another_slot() {
    check::all(|| {
        let world = World::new();
        let first = world.slots.join(&key());
        assert!(matches!(first.turn(None, Waits::Yes), Turn::Sit(None)));
        let second = {
            let world = Arc::clone(&world);
            spawn(async move {
                let member = world.slots.join(&key());
                loop {
                    let changed = member.changed();
                    match member.turn(None, Waits::Yes) {
                        Turn::Wait => changed.await,
                        Turn::Sit(None) => {
                            member.vacate(None);
                            break;
                        }
                        Turn::Share(Shared::Succeeded { .. }) => break,
                        other => panic!("{other:?}"),
                    }
                }
                assert!(world.slots.leave(&key(), &member).is_none());
            })
        };
        first.running(None, SECOND);
        let answer = Shared::Succeeded { number: 1, value: None };
        world.slots.settle(&key(), &first, None, answer);
        assert!(world.slots.leave(&key(), &first).is_none());
        block_on(second).unwrap();
        world.assert_all_gone();
    });
}
