//! The engine: from a call to its answer.
//!
//! It has three folders, and arrows between them point one way:
//!
//! ```text
//! call ────► flight ────► attempt ────► protocol ────► store
//! ```
//!
//! # Files
//!
//! The **call**, which is prepared, run or answered, and its answer recorded:
//! - [`call::prepare`](call): names the record and settles the rules; `refusal`: the one place in
//!   which a finding turns into an error; `run`: the decisions of a call, as functions
//! - `whole_call`: a call as a future; `detached`: one whose body outlives its caller, with
//!   `detachable` and `scoped` for what moves to the other task; `batch`: many calls with one body
//! - `transacted`: a call in a database transaction of its own; `finish`: the end of that transaction;
//!   `within`: a call in a transaction of the caller's; `unrecorded`: a transaction without a record;
//!   `uninterrupted`: what a caller that goes away does not break off
//! - `body`: a body, polled and dropped inside its attempt; `underway`: what a shutdown waits for
//!
//! The **flight**, in which callers of one key in one process meet before a store that is not local:
//! - `engine`: the flights of an instance beside its attempts; `prepared`: a call as the flight sees
//!   it
//! - `acquire`: from a call to an attempt; `flights`: leaders and followers; `alarms`: wakes followers; `participant`: a caller
//!   in a flight; `not_granted`: the finding that followers share
//! - `ask`: the leader asks the store until there is an answer; `begin`: sends `begin`; `grant`: from
//!   the store's answer to an attempt; `awaited`: counts failed attempts that a call waited for
//!
//! The **attempt**, from the store's grant to its recorded end:
//! - `instance`: what attempts share; `guard`: a granted attempt; `state`: its lease, its permit,
//!   whether it blocks; `current`: the attempt as its body sees it; `nested`: calls inside a body,
//!   their permit and their refusals
//! - `registry`: the attempts of this process; `keeper`: the thread that renews them;
//!   `striped_counter`: counts calls; `short_leases`: warns of leases that are too short;
//!   `idle_arguments`: warns of arguments that the mode leaves without effect
//! - `end`: an end as a value; `record`: records it; `handoff`: moves that to the background when a
//!   caller goes; `waiters`: the callers that are told; `values`: answers as stored bytes
//! - `replays`: answers that are given without asking the store; `replay_shard`: their bounds
//! - `pending_begin`: a `begin` that was sent; `release`: frees keys whose bodies never start;
//!   `backlog`: bounds of the work in the background; `admission`: permits for `max_concurrent`;
//!   `faults`: errors of a store that did not answer
//!
//! Beside them: `arc_ref`, an `Arc` that is borrowed or owned, and `resend`, the one way to send a
//! message again.
//!
//! # Five walks
//!
//! - **First execution.** `prepare` → `acquire_now` (a local store answers at once) or `acquire`,
//!   where the caller joins a flight and leads it → `ask` → `begin` → `grant`, which makes an
//!   [`AttemptGuard`] and confirms that its lease is not over → `body` starts → `end_of` (`run`)
//!   encodes the answer → [`AttemptGuard::end`] records it → followers are told → `conclude`.
//! - **Replay.** The same up to `begin`, which is answered by the record: `NotGranted::Succeeded`.
//!   `decide` (`run`) decodes the value. With a cache, `acquire_now` may find the answer in `replays`:
//!   no flight is joined, and nothing is sent.
//! - **Waiting.** In this process: a follower sleeps in `acquire` until the flight lands. In another
//!   one: `ask` watches the record, looks, and sleeps. Both count the failed attempts they wait for
//!   (`awaited`) and stop at two.
//! - **Takeover.** The keeper does not renew, or the store does not answer: `state` is lost when its
//!   lease is over by the clock of this process. The next `begin` finds the lease over and is granted
//!   the next number. The end of the first attempt is then answered with `Superseded`.
//! - **Cancellation.** The caller drops its future. Each guard below does its part.
//!
//! # Guards
//!
//! Cancellation safety is carried by values that act when they are dropped.
//!
//! | guard | alive | dropped early |
//! | --- | --- | --- |
//! | `Prepared` | from the preparation of a call to its answer | the end of every call: a shutdown no longer waits for it |
//! | `Underway` | while work goes on without a call, such as a detached body | the same |
//! | `Participant` | while a caller is in a flight | a leader leaves its `begin` to the next one, or releases it if it was the last; a holder sends its followers to the store |
//! | `Alone` | while a `begin` outside of any flight is sent | the `begin` is released |
//! | `SentBatch` | while the `begin` of a batch is sent | each `begin` that may have been granted is released |
//! | `Permit` | from the question to the end of the body | its place within `max_concurrent` is free |
//! | `AttemptGuard` | from the grant until its end is handed over | before the body: the key is released; after its start: the attempt is abandoned |
//! | `Body` | from the call to the end of the body | the body is dropped inside its attempt, before the key is free |
//! | `Dropped` | while a body is dropped | the same; a helper of `Body` |
//! | `Uninterrupted` | while a transaction begins, commits or rolls back | the rest of it is a task of its own |
//! | `Detachable` | while a caller polls a body in place | the body moves to a task of its own |
//! | `PendingEnd` | from the end of the body until it is recorded or given up | the attempt is no longer renewed: it is left to its lease |
//! | `Forget` | while a local store records an end | the same, also if the store panics |
//! | `Handoff` | while a caller waits for work that must be finished | the keeper finishes it |
//! | `Job` | while work runs in the background | the end of every job: a shutdown no longer waits for it |
//! | `AnswerRoom` | while an answer waits for the store | its room in the backlog is free |
//! | `ReleaseRoom` | while a release waits for the store | its room in the backlog is free |
//! | `Keeper` | as long as the instance | the thread finishes its jobs and ends |
//!
//! # Detached calls
//!
//! ```text
//!           first poll                granted, and the body waits
//! New ───────────────────► acquire ──────────┬──── AtOnce ───────► Waits (for a spawned task)
//!  │ refused, replayed,       │ (Waits)       │                      │
//!  │ or over in the poll      │               └─ WhenDropped ─► InPlace ──dropped──► task
//!  └────────────► Over ◄──────┴──────────────────────────────────────┘
//! ```
//!
//! A caller that drops a call in `acquire` drops a participant, as any caller does. From the grant
//! on the body has an owner that is not the caller: a task at once, or when the caller goes.

mod arc_ref;
mod attempt;
mod call;
mod flight;
mod resend;

pub(crate) use self::arc_ref::ArcRef;
pub(crate) use self::attempt::current::enclosing;
pub(crate) use self::attempt::{
    AttemptGuard, End, Handoff, Instance, Kind, Replays, Values, call_refused,
};
pub use self::attempt::{Current, current};
pub(crate) use self::call::{
    Body, Call, Detached, Moves, Prepare, Run, Underway, Within, claim_within, gone, keep, prepare,
    prepare_within, record_key, run, run_batch, run_detached, run_transacted, run_unrecorded,
    scoped, warn_disabled,
};
pub use self::call::{Detachable, detachable};
pub(crate) use self::flight::{
    Acquired, Engine, FirstStep, MOST_FAILED, NotGranted, Prepared, acquire, acquire_now,
};
pub(crate) use self::resend::Resend;

#[cfg(all(test, shuttle))]
mod shuttle_tests;

#[cfg(all(test, not(miri)))]
#[path = "described_tests.rs"]
mod described;
