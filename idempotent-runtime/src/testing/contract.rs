//! The contract of every store, as tests that run on any of them.
//!
//! The author of a store implements [`Subject`] for it and writes one line, which makes a test of
//! each case:
//!
//! ```
//! # #[allow(unused)]
//! mod contract {
//!     idempotent_runtime::contract_tests!(idempotent_runtime::testing::MemorySubject::new());
//! }
//! ```
//!
//! [`all`] runs the same cases in one go. Every case uses keys of its own, so the store need not be
//! empty, and cases may run side by side.

mod arm;
mod begin;
mod bench;
mod binding;
mod bounded;
mod crowd;
mod end;
mod expiry;
mod many;
mod matrix;
mod operator;
mod overlap;
mod scan;
mod swap;
mod values;

pub use arm::*;
pub use begin::*;
pub use binding::*;
pub use bounded::*;
pub use crowd::*;
pub use end::*;
pub use expiry::*;
pub use many::*;
pub use matrix::*;
pub use operator::*;
pub use overlap::*;
pub use scan::*;
pub use swap::*;
pub use values::*;

use super::subject::{MAX_SLACK, Subject};
use crate::store::StoreFuture;
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Makes one `#[test]` of each case of the contract. The expression makes the [`Subject`], one for
/// each test, and may use `.await`.
///
/// ```
/// # #[allow(unused)]
/// mod contract {
///     use idempotent_runtime::testing::{FaultStore, MemorySubject};
///
///     idempotent_runtime::contract_tests!(MemorySubject::wrapped(FaultStore::new));
/// }
/// ```
#[macro_export]
macro_rules! contract_tests {
    ($subject:expr $(,)?) => {
        $crate::__contract_cases! { [$crate::__contract_test] $subject }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_test {
    ($subject:expr; $($case:ident)+) => {$(
        #[test]
        fn $case() {
            $crate::testing::contract::block_on(async {
                let subject = $subject;
                $crate::testing::contract::$case(&subject).await;
            });
        }
    )+};
}

macro_rules! list {
    ($_:expr; $($case:ident)+) => {
        &[$((stringify!($case), |subject| StoreFuture::new($case(subject)))),+]
    };
}

/// The one list of all cases: hands it to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_cases {
    ([$($then:tt)+] $with:expr) => { $($then)+! { $with;
        swap_that_finds_another_record_writes_nothing
        swap_writes_the_whole_record
        swap_compares_the_head_and_not_the_value
        swap_takes_a_record_exactly_when_its_life_is_short_enough
        extend_never_shortens
        extend_of_another_record_finds_it
        expired_record_counts_as_none
        many_swaps_are_answered_in_order
        confirm_answers_with_and_without_a_record
        first_begin_is_granted
        repeated_begin_gets_the_same_attempt
        others_stay_away_while_the_lease_is_alive
        key_is_taken_over_exactly_when_the_lease_ends
        blocked_key_is_not_taken_over
        terms_are_those_of_the_record
        other_payload_is_a_mismatch
        payload_matters_only_if_both_sides_have_one
        lifted_binding_lets_another_payload_follow
        kept_binding_lets_no_other_payload_follow
        kept_binding_lets_the_same_payload_follow
        repeated_end_does_not_change_the_binding
        released_first_attempt_binds_nobody
        forget_lifts_the_binding_of_a_free_key
        late_end_does_not_bind_a_freed_key
        resolved_key_is_bound_to_no_payload
        fences_grow_with_every_attempt
        fences_are_kept_to_the_last_digit
        late_begin_of_an_ended_attempt_is_superseded
        window_is_taken_until_it_ends
        answer_is_replayed_to_everybody
        final_error_is_replayed_to_everybody
        repeated_complete_keeps_the_first_answer
        late_complete_of_a_lost_attempt_is_superseded
        first_terminal_verb_wins
        vanished_record_is_written_by_complete
        vanished_record_is_left_to_a_late_complete
        vanished_record_is_not_written_by_a_failure
        free_failure_frees_the_key
        released_first_attempt_leaves_nothing
        released_later_attempt_keeps_the_fence
        abandoned_attempt_frees_the_key
        abandoned_attempt_blocks_the_key
        armed_key_blocks_when_its_lease_is_over
        unarmed_key_is_taken_over
        arming_renews_and_may_be_repeated
        lost_attempt_cannot_arm
        armed_key_can_be_released
        armed_attempt_ends_like_any_other
        answer_expires_exactly_at_the_end_of_its_retention
        retention_counts_from_completion
        unfinished_record_outlives_its_lease
        failed_record_lives_for_its_retention
        renew_extends_the_lease
        renew_never_shortens
        renew_of_a_lost_attempt_changes_nothing
        get_shows_the_whole_record
        forget_deletes_what_nobody_holds
        forget_frees_a_held_key_only_by_force
        forget_again_keeps_the_lost_attempt_out
        resolve_ends_an_unknown_outcome
        resolve_leaves_known_outcomes_alone
        values_are_kept_byte_for_byte
        large_values_are_kept_byte_for_byte
        no_value_is_not_an_empty_value
        hostile_keys_are_kept_apart
        value_does_not_outlive_its_record
        many_begins_are_answered_in_order
        many_arms_are_answered_in_order
        many_completes_are_answered_in_order
        many_renewals_are_answered_in_order
        nothing_is_asked_of_nobody
        one_of_many_begins_is_granted
        one_of_many_takes_over
        one_of_many_verbs_ends_the_attempt
        overlapping_verbs_take_effect_one_after_the_other
        keys_do_not_disturb_each_other
        dropped_calls_leave_one_outcome
        watch_wakes_when_the_attempt_ends
        full_store_refuses_only_further_keys
        full_store_lets_granted_attempts_end
        full_store_takes_what_it_must
        expired_records_make_room
        scan_lists_every_record_once
        scan_goes_on_behind_its_cursor
        scan_of_nothing_is_empty
        scan_filters_by_operation
        scan_filters_by_scope
        scan_filters_by_state
        scan_filters_blocked_keys
        scan_lists_only_what_lives
        listed_keys_lead_back_to_their_records
        begin_follows_the_table
        arm_follows_the_table
        complete_follows_the_table
        fail_follows_the_table
        abandon_follows_the_table
        release_follows_the_table
        renew_follows_the_table
        forget_follows_the_table
        resolve_follows_the_table
    } };
}

type Case = for<'a> fn(&'a dyn Subject) -> StoreFuture<'a, ()>;

const CASES: &[(&str, Case)] = __contract_cases! { [list] () };

/// The names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs all cases on one subject, one after the other.
///
/// ```
/// use idempotent_runtime::testing::{MemorySubject, contract};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// contract::all(&MemorySubject::new()).await;
/// # }
/// ```
///
/// # Panics
/// A case failed. The message names every case that did, and why.
pub async fn all(subject: &dyn Subject) {
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if let Err(why) = outcome(case(subject)).await {
            failed.push(format!("\n  {name}: {why}"));
        }
    }
    let (count, total) = (failed.len(), CASES.len());
    assert!(failed.is_empty(), "{count} of {total} cases failed:{}", failed.concat());
}

/// Runs one case on a runtime of its own, as [`contract_tests!`](crate::contract_tests) does.
///
/// # Panics
/// The case failed, or the runtime cannot be started.
pub fn block_on(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime: {error}")).block_on(case);
}

/// Runs a case and says why it panicked, if it did.
async fn outcome(mut case: StoreFuture<'_, ()>) -> Result<(), String> {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut case).poll(context)));
        polled.map_or_else(|panic| Poll::Ready(Err(text(&*panic))), |poll| poll.map(Ok))
    })
    .await
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
