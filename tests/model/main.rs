//! The protocol under a network that loses, repeats and delays, callers that stop at any point for
//! any time, and leases and records that run out: every schedule within bounds.
//!
//! The store applies the real state table ([`record`]); callers do what the engine does
//! ([`caller`]); a ledger outside the store says what happened ([`ledger`]). `LONG_TESTS` widens
//! the bounds.
#![allow(missing_docs, clippy::print_stdout)]

mod caller;
mod check;
mod ledger;
mod record;
mod seen;
mod swapping;
mod world;

use self::caller::{End, LateRenewals};
use self::ledger::Guarantee;
use self::record::{Completion, Terms};
use self::seen::{Event, Seen};
use self::world::{Guard, Operator, Pauses, Protocol, Store};
use idempotent_runtime::Abandon;
use idempotent_runtime::protocol::Binding;

const ALL_ENDS: &[End] = &[End::Value, End::LateValue, End::Error, End::FinalError, End::Drop];

/// What happens whatever the store and the policy are.
const USUAL: &[Event] = &[
    Event::Stored,
    Event::Replayed,
    Event::ReplayedError,
    Event::InFlight,
    Event::Rewritten,
    Event::LeftGone,
    Event::Superseded,
    Event::EndedBefore,
    Event::Renewed,
    Event::TooLate,
    Event::Released,
    Event::StartedAgain,
];

/// One call each by two callers, on a store that applies a verb in one step.
fn two_callers(abandon: Abandon) -> Protocol {
    let terms = Terms {
        lease: 3,
        linger: 2,
        block_linger: 3,
        retention: 2,
        abandon,
        completion: Completion::ByToken,
        payloads: &[],
        binding: Binding::Lifted,
    };
    Protocol {
        terms,
        store: Store::Atomic,
        tokens: vec![1, 1],
        // The one that usually comes second is behind.
        seeds: vec![2, 1],
        attempts: 3,
        ends: ALL_ENDS,
        operator: Operator::Absent,
        pauses: Pauses::BetweenSteps,
        late_renewals: LateRenewals::Refused,
        seen: Seen::default(),
    }
}

/// The least that a lease, its linger and an answer can last and still be told apart.
fn brief(protocol: Protocol) -> Protocol {
    let terms = Terms { lease: 2, linger: 1, block_linger: 2, retention: 1, ..protocol.terms };
    Protocol { terms, ..protocol }
}

/// Two calls with one payload, by the caller that usually comes first, and a call with another one by
/// the other. Their bodies fail in every way.
fn two_payloads(binding: Binding, abandon: Abandon) -> Protocol {
    let protocol = brief(two_callers(abandon));
    let terms = Terms { payloads: &[1, 1, 2], binding, ..protocol.terms };
    let ends: &[End] = &[End::Error, End::Drop];
    Protocol { terms, tokens: vec![2, 1], attempts: 2, ends, ..protocol }
}

fn with(more: &[Event]) -> Vec<Event> {
    [USUAL, more].concat()
}

#[test]
fn every_guarantee_holds_under_retry() {
    two_callers(Abandon::Retry).holds("retry", &with(&[Event::TakenOver]));
}

#[test]
fn every_guarantee_holds_under_block() {
    let protocol = Protocol { operator: Operator::Present, ..two_callers(Abandon::Block) };
    let protocol = support::pick(brief(protocol.clone()), protocol);
    protocol.holds(
        "block",
        &with(&[Event::Armed, Event::ArmedTooLate, Event::Indeterminate, Event::Resolved]),
    );
}

#[test]
fn a_store_that_swaps_holds_every_guarantee_under_retry() {
    let store = Store::Swapping(Guard::TimeToLive, support::size(1, 2));
    let protocol = brief(Protocol { store, ..two_callers(Abandon::Retry) });
    let events = [Event::TakenOver, Event::SwapOfLivingLeaseRefused];
    protocol.holds("retry, swapping", &with(&events));
}

#[test]
fn a_store_that_swaps_holds_every_guarantee_under_block() {
    let store = Store::Swapping(Guard::TimeToLive, support::size(1, 2));
    let few: &[End] = &[End::Value, End::Drop];
    let protocol = Protocol {
        store,
        // Usually without an operator: each verb more is a factor of states more.
        operator: support::pick(Operator::Absent, Operator::Present),
        attempts: support::pick(2, 3),
        ends: support::pick(few, ALL_ENDS),
        ..two_callers(Abandon::Block)
    };
    let usual =
        [Event::Armed, Event::ArmedTooLate, Event::Indeterminate, Event::SwapOfLivingLeaseRefused];
    let long = with(&[&usual[..], &[Event::Resolved]].concat());
    brief(protocol).holds("block, swapping", &support::pick(usual.to_vec(), long));
}

/// A caller that calls again; for long, a third one, and both kinds of store.
#[test]
fn every_guarantee_holds_for_more_calls() {
    let swapping = Store::Swapping(Guard::TimeToLive, 1);
    for store in support::pick(vec![Store::Atomic], vec![Store::Atomic, swapping]) {
        let more = Protocol {
            store,
            tokens: support::pick(vec![2, 1], vec![1, 1, 1]),
            seeds: vec![2, 1, 3],
            attempts: 2,
            ends: &[End::Value, End::Drop],
            ..brief(two_callers(Abandon::Retry))
        };
        let events = [Event::Stored, Event::Replayed, Event::Superseded, Event::TakenOver];
        more.holds(&format!("more calls, {store:?}"), &events);
    }
}

#[test]
fn a_key_that_stays_bound_is_never_run_with_another_payload() {
    let events = [
        Event::MismatchWhileHeld,
        Event::MismatchWhileFree,
        Event::EndedBefore,
        Event::Released,
        Event::StartedAgain,
        Event::TakenOver,
    ];
    for store in [Store::Atomic, Store::Swapping(Guard::TimeToLive, 1)] {
        let protocol = Protocol { store, ..two_payloads(Binding::Kept, Abandon::Retry) };
        protocol.holds(&format!("bound after failures, {store:?}"), &events);
    }
}

/// Under `block` a body that was dropped leaves an unknown outcome, which binds its payload until an
/// operator resolves it.
#[test]
fn a_key_that_stays_bound_is_run_with_another_payload_only_after_an_operator() {
    let protocol = two_payloads(Binding::Kept, Abandon::Block);
    let protocol = Protocol { operator: Operator::Present, tokens: vec![1, 1], ..protocol };
    let terms = Terms { payloads: &[1, 2], ..protocol.terms };
    let events =
        [Event::MismatchWhileHeld, Event::MismatchWhileFree, Event::Resolved, Event::StartedAgain];
    Protocol { terms, ..protocol }.holds("bound after failures, under block", &events);
}

#[test]
fn a_failure_that_lifts_the_binding_is_found() {
    let protocol = two_payloads(Binding::Lifted, Abandon::Retry);
    protocol.breaks_only("lifted bindings", &[Guarantee::Payload]);
}

#[test]
fn completion_that_ignores_the_token_is_found() {
    let protocol = two_callers(Abandon::Retry);
    let terms = Terms { completion: Completion::Unconditional, ..protocol.terms };
    let protocol = Protocol { terms, ..protocol };
    protocol.breaks("completion without a token", &[Guarantee::Agreement]);
}

#[test]
fn a_swap_that_ignores_the_time_to_live_is_found() {
    let protocol = brief(two_callers(Abandon::Retry));
    let protocol = Protocol { store: Store::Swapping(Guard::None, 1), ..protocol };
    protocol.breaks("takeover without a time to live", &[Guarantee::OneHolder]);
}

#[test]
fn a_renewal_that_is_believed_too_late_is_found() {
    let protocol = brief(two_callers(Abandon::Retry));
    let protocol = Protocol { late_renewals: LateRenewals::Believed, ..protocol };
    protocol.breaks("late renewals", &[Guarantee::Fences]);
}

/// No check can come after the last check. So a body may start when its attempt has long lost its
/// key; what is stored agrees all the same.
#[test]
fn a_pause_right_before_the_body_is_what_fences_are_for() {
    let protocol = Protocol { pauses: Pauses::Anywhere, ..brief(two_callers(Abandon::Retry)) };
    let broken = [Guarantee::NoStartAfterSuccess, Guarantee::Starts, Guarantee::Fences];
    protocol.breaks_only("pauses anywhere", &broken);
}
