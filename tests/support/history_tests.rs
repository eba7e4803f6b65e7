//! Bugs that are planted in a history and have to be found.

#[path = "history/mixed_tests.rs"]
mod mixed;

use super::*;
use crate::journal::{LeaseSeen, Source};

/// A history in which one thing happens each tick.
struct Story {
    key: &'static str,
    events: Vec<Event>,
}

impl Story {
    fn new() -> Self {
        Self::about("k")
    }

    fn about(key: &'static str) -> Self {
        Self { key, events: Vec::new() }
    }

    fn event(mut self, process: u32, what: What) -> Self {
        let at = self.events.len() as u64;
        self.events.push(Event { at, process, what });
        self
    }

    fn step(self, process: u32, call: u64, step: Step) -> Self {
        let key = self.key.to_owned();
        self.event(process, What::Of { key, call, step })
    }

    /// A call whose body starts.
    fn start(self, process: u32, call: u64, number: u32, fence: u64) -> Self {
        self.step(process, call, Step::Call).step(process, call, Step::Start { number, fence })
    }

    fn end(self, process: u32, call: u64, value: &str, lease: LeaseSeen) -> Self {
        self.step(process, call, Step::End { value: value.to_owned(), lease })
    }

    fn value(self, process: u32, call: u64, from: Source, number: u32, value: &str) -> Self {
        let lease = if from == Source::Replayed { LeaseSeen::None } else { LeaseSeen::Held };
        self.step(process, call, Step::Value { from, number, value: value.to_owned(), lease })
    }

    /// A call that runs its body and gets its value.
    fn run(self, process: u32, call: u64, number: u32, fence: u64, value: &str) -> Self {
        self.start(process, call, number, fence).end(process, call, value, LeaseSeen::Held).value(
            process,
            call,
            Source::Ran,
            number,
            value,
        )
    }

    fn replay(self, process: u32, call: u64, number: u32, value: &str) -> Self {
        let called = self.step(process, call, Step::Call);
        called.value(process, call, Source::Replayed, number, value)
    }

    fn refused(self, process: u32, call: u64, kind: &str, lease: LeaseSeen) -> Self {
        let (kind, body_ran) = (kind.to_owned(), kind == "Superseded");
        self.step(process, call, Step::Refused { kind, body_ran, lease })
    }

    fn history(self, abandon: Abandon) -> History {
        let mut history = History::new(Rules::new(abandon, MAX_RUN));
        // The order of the lines is not that of the events.
        history.add(self.events.into_iter().rev());
        history
    }

    fn report(self, abandon: Abandon) -> Report {
        self.history(abandon).check_all()
    }

    fn keeps_all(self, abandon: Abandon) -> Counts {
        let report = self.report(abandon);
        report.assert_kept();
        report.counts
    }

    /// Nothing but this is wrong.
    fn breaks(self, abandon: Abandon, broken: Broken) {
        let violations = self.report(abandon).violations;
        assert!(!violations.is_empty(), "{broken:?} is not found");
        for violation in violations {
            assert_eq!(violation.broken, broken, "{violation}");
        }
    }
}

const MAX_RUN: Duration = Duration::from_nanos(100);
const RETRY: Abandon = Abandon::Retry;
const BLOCK: Abandon = Abandon::Block;

#[test]
fn one_run_and_its_replays_are_fine() {
    for abandon in [RETRY, BLOCK] {
        let counts = Story::new().run(1, 1, 1, 10, "a").replay(2, 1, 1, "a").keeps_all(abandon);
        assert_eq!((counts.starts, counts.replays, counts.succeeded), (1, 1, 1));
    }
}

#[test]
fn a_second_value_is_found() {
    // Both were granted at once: nothing but the values tells.
    let story = Story::new()
        .start(1, 1, 1, 10)
        .end(1, 1, "a", LeaseSeen::Lost)
        .start(2, 1, 2, 11)
        .end(2, 1, "b", LeaseSeen::Held)
        .value(1, 1, Source::Ran, 1, "a")
        .value(2, 1, Source::Ran, 2, "b");
    story.breaks(RETRY, Broken::SecondValue);
    let replays = Story::new()
        .start(1, 1, 1, 10)
        .end(1, 1, "a", LeaseSeen::Lost)
        .start(2, 1, 2, 11)
        .end(2, 1, "b", LeaseSeen::Held)
        .value(2, 1, Source::Ran, 2, "b")
        .refused(1, 1, "Superseded", LeaseSeen::Lost)
        .replay(1, 2, 1, "a");
    replays.breaks(RETRY, Broken::SecondValue);
}

#[test]
fn a_value_of_nobody_is_found() {
    Story::new().replay(1, 1, 1, "a").breaks(RETRY, Broken::ValueBeforeEnd);
}

#[test]
fn a_replay_before_the_body_ended_is_found() {
    let story = Story::new()
        .start(1, 1, 1, 10)
        .replay(2, 1, 1, "a")
        .end(1, 1, "a", LeaseSeen::Held)
        .value(1, 1, Source::Ran, 1, "a");
    story.breaks(RETRY, Broken::ValueBeforeEnd);
}

#[test]
fn a_value_under_the_number_of_another_attempt_is_found() {
    Story::new().run(1, 1, 1, 10, "a").replay(2, 1, 2, "a").breaks(RETRY, Broken::ValueBeforeEnd);
}

#[test]
fn a_start_after_a_success_is_found() {
    // Even where the first attempt would excuse another one.
    let story = Story::new()
        .start(1, 1, 1, 10)
        .end(1, 1, "a", LeaseSeen::Lost)
        .value(1, 1, Source::Ran, 1, "a")
        .start(2, 1, 2, 11)
        .step(2, 1, Step::Fail { lease: LeaseSeen::Held })
        .step(2, 1, Step::OwnError);
    story.breaks(RETRY, Broken::StartAfterSuccess);
}

#[test]
fn a_fence_that_does_not_grow_is_found() {
    let failed = |story: Story, process, fence, number| {
        story
            .start(process, 1, number, fence)
            .step(process, 1, Step::Fail { lease: LeaseSeen::Held })
            .step(process, 1, Step::OwnError)
    };
    for (fence, number) in [(10, 2), (9, 2), (11, 1)] {
        let story = failed(failed(Story::new(), 1, 10, 1), 2, fence, number);
        story.breaks(RETRY, Broken::FenceDidNotGrow);
    }
    failed(failed(Story::new(), 1, 10, 1), 2, 11, 2).keeps_all(BLOCK);
}

#[test]
fn a_start_while_another_body_runs_is_found() {
    let overlap = |lease| {
        Story::new()
            .start(1, 1, 1, 10)
            .start(2, 1, 2, 11)
            .end(2, 1, "b", LeaseSeen::Held)
            .value(2, 1, Source::Ran, 2, "b")
            .end(1, 1, "a", lease)
            .refused(1, 1, "Superseded", LeaseSeen::Lost)
    };
    overlap(LeaseSeen::Lost).keeps_all(RETRY);
    overlap(LeaseSeen::Lost).breaks(BLOCK, Broken::StartWhileHeld);
    let story = Story::new()
        .start(1, 1, 1, 10)
        .start(2, 1, 2, 11)
        .step(1, 1, Step::Fail { lease: LeaseSeen::Held })
        .step(1, 1, Step::OwnError)
        .end(2, 1, "b", LeaseSeen::Held)
        .value(2, 1, Source::Ran, 2, "b");
    story.breaks(RETRY, Broken::StartWhileHeld);
}

#[test]
fn an_attempt_that_loses_its_key_within_its_lease_is_found() {
    let story = Story::new().start(1, 1, 1, 10).end(1, 1, "a", LeaseSeen::Held).refused(
        1,
        1,
        "Superseded",
        LeaseSeen::Held,
    );
    story.breaks(RETRY, Broken::LostWhileHeld);
}

#[test]
fn a_kill_allows_one_more_start_under_retry_and_none_under_block() {
    let story = || {
        let killed = Story::new().start(1, 1, 1, 10).event(1, What::Killed);
        killed.run(2, 1, 2, 11, "b")
    };
    let counts = story().keeps_all(RETRY);
    assert_eq!(counts.cut, Cut { in_body: 1, ..Cut::default() });
    story().breaks(BLOCK, Broken::StartWhileHeld);
    // A start before the kill is not excused by it.
    let early = Story::new().start(1, 1, 1, 10).run(2, 1, 2, 11, "b").event(1, What::Killed);
    early.breaks(RETRY, Broken::StartWhileHeld);
}

#[test]
fn a_lease_that_ran_out_before_a_kill_allows_one_more_start() {
    let told = Story::new().start(1, 1, 1, 10).step(1, 1, Step::Lost);
    told.run(2, 1, 2, 11, "b").event(1, What::Killed).keeps_all(RETRY);
    // Nobody knows, but it was not renewed for so long.
    let mut story = Story::new().start(1, 1, 1, 10);
    for call in 0..MAX_RUN.as_nanos() as u64 / 2 {
        story = story.step(3, call, Step::Call).refused(3, call, "InProgress", LeaseSeen::None);
    }
    story.run(2, 1, 2, 11, "b").event(1, What::Killed).keeps_all(RETRY);
}

#[test]
fn kills_are_counted_by_where_they_hit() {
    let story = Story::new()
        .step(1, 1, Step::Call)
        .event(1, What::Killed)
        .start(2, 1, 1, 10)
        .end(2, 1, "a", LeaseSeen::Held)
        .event(2, What::Killed)
        .replay(3, 1, 1, "a")
        .step(4, 1, Step::Call)
        .event(4, What::Killed);
    let expected = Cut { before_body: 1, in_body: 0, after_body: 1, after_success: 1 };
    assert_eq!(story.keeps_all(RETRY).cut, expected);
}

#[test]
fn what_was_not_recorded_may_be_run_again_and_differ() {
    let story = |from| {
        Story::new()
            .start(1, 1, 1, 10)
            .end(1, 1, "a", LeaseSeen::Held)
            .value(1, 1, from, 1, "a")
            .run(2, 1, 2, 11, "b")
    };
    story(Source::RanUnrecorded).keeps_all(RETRY);
    story(Source::RanUnrecorded).breaks(BLOCK, Broken::StartWhileHeld);
    assert!(!story(Source::Ran).report(RETRY).violations.is_empty());
}

#[test]
fn a_blocked_key_runs_again_when_it_is_resolved() {
    let resolved = |answer: Option<&str>| {
        Story::new()
            .start(1, 1, 1, 10)
            .step(1, 1, Step::Drop { lease: LeaseSeen::Held })
            .step(1, 1, Step::Gone)
            .step(2, 1, Step::Call)
            .refused(2, 1, "Indeterminate", LeaseSeen::None)
            .event(0, What::Resolved { key: "k".to_owned(), answer: answer.map(Into::into) })
    };
    resolved(None).run(2, 2, 2, 11, "b").keeps_all(BLOCK);
    resolved(Some("r")).replay(2, 2, 1, "r").keeps_all(BLOCK);
    let ran = resolved(Some("r"))
        .start(2, 2, 2, 11)
        .step(2, 2, Step::Drop { lease: LeaseSeen::Held })
        .step(2, 2, Step::Gone);
    assert!(ran.report(BLOCK).broken(Broken::StartAfterSuccess));
    Story::new()
        .step(2, 1, Step::Call)
        .refused(2, 1, "Indeterminate", LeaseSeen::None)
        .breaks(RETRY, Broken::WrongReport);
}

#[test]
fn a_call_that_is_told_something_untrue_about_its_body_is_found() {
    let replayed_after_a_run = Story::new().run(1, 1, 1, 10, "a").step(2, 1, Step::Call).step(
        2,
        1,
        Step::Refused { kind: "InProgress".to_owned(), body_ran: true, lease: LeaseSeen::None },
    );
    replayed_after_a_run.breaks(RETRY, Broken::WrongReport);
    let refused_and_run = Story::new()
        .start(1, 1, 1, 10)
        .step(1, 1, Step::Fail { lease: LeaseSeen::Held })
        .refused(1, 1, "StoreUnavailable", LeaseSeen::Held);
    refused_and_run.breaks(RETRY, Broken::WrongReport);
}

#[test]
fn a_call_without_an_answer_is_found() {
    Story::new().step(1, 1, Step::Call).breaks(RETRY, Broken::NoAnswer);
}
