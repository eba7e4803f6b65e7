//! Bugs that are planted in a history of calls of several kinds.

use super::*;

const HELD: LeaseSeen = LeaseSeen::Held;
const NONE: LeaseSeen = LeaseSeen::None;

impl Story {
    /// A call whose body starts and returns an error.
    fn failing(self, process: u32, call: u64, number: u32, fence: u64) -> Self {
        self.start(process, call, number, fence)
            .step(process, call, Step::Fail { lease: HELD })
            .step(process, call, Step::OwnError)
    }

    /// A call that is refused without a start.
    fn turned_away(self, process: u32, call: u64, kind: &str) -> Self {
        self.step(process, call, Step::Call).refused(process, call, kind, NONE)
    }

    fn disturbed(self, process: u32, for_nanos: u64) -> Self {
        self.event(process, What::Disturbed { by: "test".to_owned(), for_nanos })
    }

    /// So many calls that come to nothing.
    fn time_passes(mut self, ticks: u64) -> Self {
        for call in 0..ticks.div_ceil(2) {
            self = self.turned_away(9, 1_000 + call, "InProgress");
        }
        self
    }
}

#[test]
fn a_second_start_in_a_window_is_found_whatever_became_of_the_first() {
    let story = || Story::about("window:1");
    story().failing(1, 1, 1, 10).turned_away(2, 1, "Duplicate").keeps_all(RETRY);
    story().failing(1, 1, 1, 10).failing(2, 1, 2, 11).breaks(RETRY, Broken::StartWhileHeld);
    let killed = story().start(1, 1, 1, 10).event(1, What::Killed);
    killed.run(2, 1, 2, 11, "b").breaks(RETRY, Broken::StartWhileHeld);
    // Others may run again after both.
    Story::about("reject:1").failing(1, 1, 1, 10).failing(2, 1, 2, 11).keeps_all(RETRY);
}

#[test]
fn a_start_after_a_duplicate_is_found() {
    let story = || {
        // The answer of the first is recorded, and its process dies before it hears of that.
        let ended = Story::about("reject:1").start(1, 1, 1, 10).end(1, 1, "a", HELD);
        ended.turned_away(2, 1, "Duplicate").event(1, What::Killed)
    };
    story().keeps_all(RETRY);
    story().failing(2, 2, 2, 11).breaks(RETRY, Broken::StartAfterSuccess);
}

#[test]
fn a_duplicate_of_nothing_is_found() {
    let story = Story::about("reject:1").failing(1, 1, 1, 10).turned_away(2, 1, "Duplicate");
    story.breaks(RETRY, Broken::DuplicateOfNothing);
    let story = Story::about("window:1").turned_away(1, 1, "Duplicate");
    story.breaks(RETRY, Broken::DuplicateOfNothing);
    let story = Story::new().run(1, 1, 1, 10, "a").turned_away(2, 1, "Duplicate");
    story.breaks(RETRY, Broken::WrongReport);
}

#[test]
fn an_unknown_outcome_of_a_body_that_never_started_is_found() {
    let story = || Story::about("block:1");
    let refused = story().turned_away(1, 1, "StoreUnavailable").turned_away(2, 1, "Indeterminate");
    refused.breaks(RETRY, Broken::UnknownWithoutStart);
    let late = story().turned_away(2, 1, "Indeterminate").start(1, 1, 1, 10);
    assert!(late.report(RETRY).broken(Broken::UnknownWithoutStart));
    let started = story().start(1, 1, 1, 10).event(1, What::Killed);
    started.turned_away(2, 1, "Indeterminate").keeps_all(RETRY);
    // It may have been killed between the right to start and the start.
    let cut = story().step(1, 1, Step::Call).event(1, What::Killed);
    cut.turned_away(2, 1, "Indeterminate").keeps_all(RETRY);
    // It may be kept from taking the right to start back, but not by what is long over, by what
    // happened to others, or after it was told that another call runs.
    let apart = |story: Story| story.turned_away(2, 1, "Indeterminate");
    let called = || story().step(1, 1, Step::Call);
    let ends = |story: Story| story.refused(1, 1, "StoreUnavailable", NONE);
    ends(apart(called().disturbed(0, 1))).keeps_all(RETRY);
    apart(ends(called().disturbed(0, 1))).keeps_all(RETRY);
    ends(apart(called())).breaks(RETRY, Broken::UnknownWithoutStart);
    ends(apart(called().disturbed(3, 1))).breaks(RETRY, Broken::UnknownWithoutStart);
    let long_over = called().disturbed(0, 1).time_passes(110);
    ends(apart(long_over)).breaks(RETRY, Broken::UnknownWithoutStart);
    let told = called().disturbed(0, 1).refused(1, 1, "InProgress", NONE);
    apart(told).breaks(RETRY, Broken::UnknownWithoutStart);
}

#[test]
fn a_blocking_key_that_starts_again_is_found() {
    let killed = Story::about("block:1").start(1, 1, 1, 10).event(1, What::Killed);
    killed.run(2, 1, 2, 11, "b").breaks(RETRY, Broken::StartWhileHeld);
    Story::about("block:1").failing(1, 1, 1, 10).run(2, 1, 2, 11, "b").keeps_all(RETRY);
}

#[test]
fn a_start_within_the_lease_of_a_batch_is_found() {
    let story = |ticks| {
        let first = Story::about("batch:1").start(1, 1, 0, 0).time_passes(ticks);
        first.run(2, 1, 0, 0, "b").end(1, 1, "a", NONE).refused(1, 1, "Superseded", NONE)
    };
    story(10).breaks(RETRY, Broken::StartWhileHeld);
    // A batch cannot tell that it lost a lease, but no other takes over before half of it is over.
    story(60).keeps_all(RETRY);
}

#[test]
fn a_start_while_a_detached_body_runs_on_is_found() {
    let left = |key| {
        let gone = Story::about(key).start(1, 1, 1, 10).step(1, 1, Step::Gone);
        gone.run(2, 1, 2, 11, "b").end(1, 1, "a", HELD)
    };
    left("detach:1").breaks(RETRY, Broken::StartWhileHeld);
    left("retry:1").keeps_all(RETRY);
}

#[test]
fn a_disturbance_excuses_what_the_killed_and_the_left_cannot_tell() {
    let killed = |story: Story| story.run(2, 1, 2, 11, "b").event(1, What::Killed);
    let running = || Story::new().start(1, 1, 1, 10);
    killed(running()).breaks(RETRY, Broken::StartWhileHeld);
    killed(running().disturbed(0, 1)).keeps_all(RETRY);
    killed(running().disturbed(1, 1)).keeps_all(RETRY);
    // Another process stood still, or long before.
    killed(running().disturbed(3, 1)).breaks(RETRY, Broken::StartWhileHeld);
    let before = Story::new().disturbed(0, 1).time_passes(110).start(1, 1, 1, 10);
    killed(before).breaks(RETRY, Broken::StartWhileHeld);
    let left = Story::about("detach:1").start(1, 1, 1, 10).step(1, 1, Step::Gone).disturbed(0, 1);
    left.end(1, 1, "a", HELD).run(2, 1, 2, 11, "b").keeps_all(RETRY);
    // A process that lives on is told, and says so.
    let alive = running().disturbed(0, 1).run(2, 1, 2, 11, "b");
    let alive = alive.end(1, 1, "a", HELD).refused(1, 1, "Superseded", LeaseSeen::Lost);
    alive.keeps_all(RETRY);
    let silent = running().disturbed(0, 1).run(2, 1, 2, 11, "b").end(1, 1, "a", HELD);
    let silent = silent.value(1, 1, Source::Ran, 1, "a");
    assert!(silent.report(RETRY).broken(Broken::StartWhileHeld));
}

#[test]
fn an_error_of_the_server_that_nobody_provoked_is_found() {
    for kind in ["StoreFull", "NotReplicated", "Misconfigured"] {
        Story::new().turned_away(1, 1, kind).breaks(RETRY, Broken::WrongReport);
        Story::new().disturbed(0, 1).turned_away(1, 1, kind).keeps_all(RETRY);
    }
}

#[test]
fn a_key_that_is_stuck_is_found() {
    let stuck = Story::new().failing(1, 1, 1, 10).turned_away(2, 1, "InProgress");
    let report = stuck.history(RETRY).check_swept();
    let broken: Vec<_> = report.violations.iter().map(|violation| violation.broken).collect();
    assert_eq!(broken, [Broken::Stuck]);
    let fine = [
        Story::new().failing(1, 1, 1, 10).run(2, 1, 2, 11, "b"),
        Story::about("window:1").failing(1, 1, 1, 10).turned_away(2, 1, "Duplicate"),
        Story::about("block:1").start(1, 1, 1, 10).event(1, What::Killed).turned_away(
            2,
            1,
            "Indeterminate",
        ),
    ];
    for story in fine {
        story.history(RETRY).check_swept().assert_kept();
    }
}

#[test]
fn a_foreign_value_excuses_refusals_of_its_key_while_it_is_there_and_nothing_else() {
    let foreign = |story: Story, key: &str| {
        story.event(0, What::Foreign { key: key.to_owned(), for_nanos: 2 })
    };
    let story = || foreign(Story::about("retry:1"), "retry:1");
    let refused = |story: Story| story.turned_away(1, 1, "Undecodable");
    refused(story()).run(2, 1, 1, 10, "a").keeps_all(RETRY);
    refused(foreign(Story::about("retry:1"), "retry:2")).breaks(RETRY, Broken::WrongReport);
    refused(story().time_passes(3)).breaks(RETRY, Broken::WrongReport);
    foreign(refused(Story::about("retry:1")), "retry:1").breaks(RETRY, Broken::WrongReport);
    // Its body runs once and is told of, as any other, and a call gets through in the end.
    let twice = refused(story()).run(1, 2, 1, 10, "a").run(2, 1, 2, 11, "b").report(RETRY);
    assert!(twice.broken(Broken::StartAfterSuccess));
    let ran = story().start(1, 1, 1, 10).refused(1, 1, "Undecodable", HELD);
    ran.breaks(RETRY, Broken::WrongReport);
    assert!(refused(story()).history(RETRY).check_swept().broken(Broken::Stuck));
}
