//! Runs a scenario under many schedules.
//!
//! `SHUTTLE_ITERATIONS` sets their number. `SHUTTLE_SCHEDULE`, set to the output of a failed test,
//! replays that schedule.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::sync::Arc;

const ITERATIONS: usize = 2_000;
/// Number of preemptions in the schedules with few of them.
const PREEMPTIONS: usize = 3;

/// Checks `scenario` under random schedules, and under some with few preemptions, which find bugs
/// that need a task to run undisturbed for long.
pub(crate) fn many(scenario: impl Fn() + Send + Sync + 'static) {
    if let Some(schedule) = replayed() {
        return run(ReplayScheduler::new_from_encoded(&schedule), scenario);
    }
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    run(RandomScheduler::new(iterations()), move || scenario());
    run(PctScheduler::new(PREEMPTIONS, iterations()), move || again());
}

/// Checks `scenario`, which uses no random numbers, under every schedule, or as many as there is
/// time for.
pub(crate) fn all(scenario: impl Fn() + Send + Sync + 'static) {
    match replayed() {
        Some(schedule) => run(ReplayScheduler::new_from_encoded(&schedule), scenario),
        None => run(DfsScheduler::new(Some(10 * iterations()), false), scenario),
    }
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 0x20000;
    // The warning says that the checker treats every atomic access as sequentially consistent.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}

fn iterations() -> usize {
    std::env::var("SHUTTLE_ITERATIONS")
        .ok()
        .map_or(ITERATIONS, |text| text.parse().expect("`SHUTTLE_ITERATIONS` is a number"))
}

fn replayed() -> Option<String> {
    std::env::var("SHUTTLE_SCHEDULE").ok()
}
