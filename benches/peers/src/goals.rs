//! Goals, and what was measured.

use crate::field::{FENCED, KIT, PACKED, PLAIN, PRODUCT, SAME};
use crate::http::{MEMORY, REDIS, Row};
use crate::memory::Memory;
use crate::plan::OnServer;
use crate::rounds::Measured;
use crate::statistics::Summary;
use crate::subject::Phase;
use crate::table::Table;

/// A ratio that is to be reached.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The ratio, in words.
    pub name: String,
    /// The limit.
    pub limit: Limit,
    /// The measurement, if there is one.
    pub measured: Option<Summary>,
}

/// The limit of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A throughput, where more is better.
    AtLeast(f64),
    /// A time, where less is better.
    AtMost(f64),
}

impl Limit {
    fn is_kept(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(limit) => ratio >= limit,
            Self::AtMost(limit) => ratio <= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {limit:.2}"),
            Self::AtMost(limit) => format!("at most {limit:.2}"),
        }
    }
}

/// The ability of a server that decides what a call sends, and so what can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swaps {
    /// It swaps by a script.
    ByScript,
    /// It has `SET IFEQ` and is Redis.
    ByCommand,
    /// It has `SET IFEQ` and is Valkey.
    ByCommandOfValkey,
}

impl Swaps {
    /// One of three numbers.
    fn pick(self, of: [f64; 3]) -> f64 {
        match self {
            Self::ByScript => of[0],
            Self::ByCommand => of[1],
            Self::ByCommandOfValkey => of[2],
        }
    }
}

/// The goals of first executions and replays by 256 tasks.
pub fn of_throughput(measured: &Measured, swaps: Swaps) -> Vec<Goal> {
    let rate = |phase, to| measured.ratio(phase, PRODUCT, to, |sample| sample.rate);
    let goal = |name: &str, limit, measured| Goal { name: name.to_owned(), limit, measured };
    let least = |name: &str, limit, measured| goal(name, Limit::AtLeast(limit), measured);
    let mut goals = vec![
        least("first execution, of the same commands raw", 0.90, rate(Phase::First, SAME)),
        least(
            "first execution, of plain commands",
            swaps.pick([0.74, 0.81, 0.84]),
            rate(Phase::First, PLAIN),
        ),
        least("first execution, of the same commands packed", 0.90, rate(Phase::First, PACKED)),
        least("replay, of `SET NX GET`", 0.90, rate(Phase::Replay, PLAIN)),
        least("replay, of `SET NX GET`, packed", 1.10, rate(Phase::Replay, PLAIN)),
        least(
            "first execution, of idempotent",
            swaps.pick([2.0, 2.4, 2.6]),
            rate(Phase::First, FENCED),
        ),
        least("first execution, of idempotent, packed", 3.0, rate(Phase::First, FENCED)),
    ];
    if swaps != Swaps::ByScript {
        goals.push(least("first execution, of idempotency-kit", 1.0, rate(Phase::First, KIT)));
    }
    goals.into_iter().filter(|goal| goal.measured.is_some()).collect()
}

/// The goals of calls one after the other.
pub fn of_latency(measured: &Measured) -> Vec<Goal> {
    let p50 = |phase| measured.ratio(phase, PRODUCT, PLAIN, |sample| sample.p50);
    let most = |name: &str, limit, measured| Goal {
        name: name.to_owned(),
        limit: Limit::AtMost(limit),
        measured,
    };
    vec![
        most("p50 one by one, first execution, of plain commands", 1.10, p50(Phase::First)),
        most("p50 one by one, replay, of `SET NX GET`", 1.05, p50(Phase::Replay)),
    ]
}

/// All goals of a server.
pub fn of_server(results: &OnServer) -> Vec<Goal> {
    let mut goals = of_throughput(&results.crowd, results.swaps);
    let many = results.tasks.iter().find(|measured| measured.load.tasks == 1024);
    let many = many.and_then(|it| it.ratio(Phase::First, PRODUCT, SAME, |sample| sample.rate));
    let least = |name: &str, limit, measured| {
        let limit = Limit::AtLeast(limit);
        Goal { name: name.to_owned(), limit, measured }
    };
    let http = |name, phase| {
        let mut rows = results.http.iter();
        rows.find(|row| row.name == name && row.phase == phase).map(|Row { ratio, .. }| *ratio)
    };
    goals.push(least("first execution, 1,024 tasks, of the same commands raw", 0.85, many));
    goals.extend(of_latency(&results.alone));
    goals.push(least(
        "`run_batch` of 1,000 keys, of two pipelines",
        0.80,
        Some(results.batches.ratio),
    ));
    goals.push(least("HTTP, memory, of the bare service", 0.75, http(MEMORY, Phase::First)));
    goals.push(least("HTTP, Redis, of the bare service", 0.45, http(REDIS, Phase::First)));
    goals.push(least("HTTP, Redis, replay, of the bare service", 0.60, http(REDIS, Phase::Replay)));
    goals.push(Goal {
        name: "last of 10,000 waiters, of a bare subscription".to_owned(),
        limit: Limit::AtMost(1.30),
        measured: Some(results.waiters.ratio),
    });
    goals
}

/// The goals of the memory store.
pub fn of_memory(memory: &Memory) -> Vec<Goal> {
    let most = |name: &str, measured| {
        let limit = Limit::AtMost(1.60);
        Goal { name: name.to_owned(), limit, measured: Some(measured) }
    };
    vec![
        most("memory store, first execution, of its floor", memory.first.ratio),
        most("memory store, replay, of its floor", memory.replay.ratio),
    ]
}

/// A line for each goal.
pub fn table(goals: &[Goal]) -> Table {
    let mut table = Table::new(&["ratio", "measured", "goal", "reached"]);
    for Goal { name, limit, measured } in goals {
        let (text, reached) = match measured {
            Some(summary) => (summary.to_string(), limit.is_kept(summary.median)),
            None => ("not measured".to_owned(), false),
        };
        let reached = if reached { "yes" } else { "no" };
        table.row(vec![name.clone(), text, limit.text(), reached.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_has_a_least_and_time_a_most() {
        assert!(Limit::AtLeast(0.9).is_kept(0.95) && !Limit::AtLeast(0.9).is_kept(0.85));
        assert!(Limit::AtMost(1.1).is_kept(1.05) && !Limit::AtMost(1.1).is_kept(1.15));
    }

    #[test]
    fn a_goal_that_was_not_measured_is_not_reached() {
        let goal = Goal { name: "x".to_owned(), limit: Limit::AtLeast(0.0), measured: None };
        let text = table(&[goal]).markdown();
        assert!(text.contains("not measured") && text.contains("no |"), "{text}");
    }
}
