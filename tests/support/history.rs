//! Checks a journal against the guarantees.
//!
//! Keys are independent, so each is checked by itself: every start had to be allowed, every answer
//! had to be true, and all answers had to agree. Records must outlive the run: the checker assumes
//! that no key expires and starts again.

mod check;
mod report;

pub use report::{Broken, Counts, Cut, KeyReport, Report, Violation};

use self::check::{Check, calls};
use crate::calls::Terms;
use crate::journal::{Event, Step, What};
use crate::kind::Kind;
use idempotent_runtime::Abandon;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

/// Settings of the calls in a history.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub abandon: Abandon,
    pub lease: Duration,
    /// Time for which a lease is renewed.
    pub max_run: Duration,
    /// The kind of its calls, where the key tells it.
    pub kind: Option<Kind>,
}

impl Rules {
    /// Rules for calls of one kind, whose leases are renewed for so long.
    pub fn new(abandon: Abandon, max_run: Duration) -> Self {
        Self { abandon, lease: max_run, max_run, kind: None }
    }

    /// The rules for a key.
    fn of(self, key: &str) -> Self {
        match Kind::of(key) {
            None => self,
            Some(kind) => Self { abandon: kind.abandon(), kind: Some(kind), ..self },
        }
    }
}

impl From<&Terms> for Rules {
    fn from(terms: &Terms) -> Self {
        let lease = Duration::from_millis(terms.lease);
        Self { lease, ..Self::new(terms.abandon, Duration::from_millis(terms.max_run)) }
    }
}

/// Collects events, and checks keys that are finished.
#[derive(Debug)]
pub struct History {
    rules: Rules,
    keys: HashMap<String, Key>,
    killed: HashMap<u32, u64>,
    /// Processes with a call that had no answer, of keys that are forgotten.
    cut: HashSet<u32>,
    pub restarts: usize,
    /// Times at which the server did not answer as it should, or a process stood still.
    disturbances: Vec<Disturbance>,
}

/// A time in which leases may have run out without their holder being able to tell.
#[derive(Debug)]
struct Disturbance {
    by: String,
    /// The process that it was limited to.
    process: Option<u32>,
    time: Range<u64>,
}

/// Events of one key.
#[derive(Debug, Default)]
struct Key {
    steps: Vec<KeyStep>,
    resolved: Vec<Resolved>,
    /// Times at which a value that is no record was in the place of its record.
    foreign: Vec<Range<u64>>,
}

impl Key {
    /// The processes of calls that had no answer.
    fn cut(&self) -> impl Iterator<Item = u32> + use<> {
        let calls = calls(&self.steps).into_iter();
        calls.filter(|(_, call)| call.answer.is_none()).map(|(id, _)| id.process)
    }

    /// Returns `true` if a call got an answer that all later calls will get.
    fn has_final_answer(&self) -> bool {
        self.steps.iter().any(|KeyStep { step, .. }| match step {
            Step::Value { .. } => true,
            Step::Refused { kind, .. } => kind == "Duplicate" || kind == "Indeterminate",
            _ => false,
        })
    }
}

#[derive(Debug)]
struct KeyStep {
    at: u64,
    call: CallId,
    step: Step,
}

#[derive(Debug)]
struct Resolved {
    at: u64,
    answer: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CallId {
    process: u32,
    number: u64,
}

impl History {
    pub fn new(rules: impl Into<Rules>) -> Self {
        let (keys, killed, cut) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { rules: rules.into(), keys, killed, cut, restarts: 0, disturbances: Vec::new() }
    }

    /// Takes events in. Their order does not matter.
    pub fn add(&mut self, events: impl IntoIterator<Item = Event>) {
        for Event { at, process, what } in events {
            match what {
                What::Up | What::ToldToEnd | What::Drained { .. } => {}
                What::Killed => drop(self.killed.insert(process, at)),
                What::ServerRestarted => self.restarts += 1,
                What::Disturbed { by, for_nanos } => {
                    let process = (process != 0).then_some(process);
                    self.disturbances.push(Disturbance { by, process, time: at..at + for_nanos });
                }
                What::Resolved { key, answer } => {
                    let key = self.keys.entry(key).or_default();
                    key.resolved.push(Resolved { at, answer });
                }
                What::Foreign { key, for_nanos } => {
                    self.keys.entry(key).or_default().foreign.push(at..at + for_nanos);
                }
                What::Of { key, call: number, step } => {
                    let call = CallId { process, number };
                    self.keys.entry(key).or_default().steps.push(KeyStep { at, call, step });
                }
            }
        }
    }

    /// The steps of a key and the disturbances until its last one, in their order, one a line.
    pub fn story(&self, key: &str) -> String {
        let steps = self.keys.get(key).map_or(&[][..], |it| &it.steps);
        let line = |KeyStep { at, call, step }: &KeyStep| {
            (*at, format!("{at} process {} call {}: {step:?}\n", call.process, call.number))
        };
        let mut lines: Vec<_> = steps.iter().map(line).collect();
        let times = || steps.iter().map(|step| step.at);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            let time = |it: &&Disturbance| it.time.start <= last && first <= it.time.end;
            let line = |Disturbance { by, process, time }: &Disturbance| {
                let whom = process.map_or("the server".to_owned(), |it| format!("process {it}"));
                (time.start, format!("{} {whom}: {by} until {}\n", time.start, time.end))
            };
            lines.extend(self.disturbances.iter().filter(time).map(line));
        }
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Number of processes that were killed.
    pub fn kills(&self) -> usize {
        self.killed.len()
    }

    /// Number of processes that were killed during a call.
    pub fn kills_at_work(&self) -> usize {
        let cut: HashSet<u32> = self.keys.values().flat_map(Key::cut).collect();
        let hit = |process: &&u32| cut.contains(process) || self.cut.contains(process);
        self.killed.keys().filter(hit).count()
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Checks one key.
    pub fn check(&self, key: &str) -> KeyReport {
        let Some(found) = self.keys.get(key) else { return KeyReport::default() };
        let mut steps: Vec<&KeyStep> = found.steps.iter().collect();
        steps.sort_by_key(|step| step.at);
        let calls = calls(&found.steps);
        let rules = self.rules.of(key);
        Check { history: self, rules, name: key, key: found, steps, calls }.run()
    }

    /// Checks all keys after each of them was called once more and to the end: none is stuck.
    pub fn check_swept(&self) -> Report {
        let mut report = self.check_all();
        for (name, key) in &self.keys {
            if !key.has_final_answer() {
                let (key, broken) = (name.clone(), Broken::Stuck);
                let detail = "no call of it was answered for good".to_owned();
                report.violations.push(Violation { key, broken, detail });
            }
        }
        report
    }

    /// The number of disturbances of the run, by kind.
    pub fn disturbances(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for disturbance in &self.disturbances {
            *counts.entry(&*disturbance.by).or_default() += 1;
        }
        counts
    }

    /// `true` if a lease of this process may have run out in this time, or just before it.
    fn was_disturbed(&self, process: u32, time: &Range<u64>) -> bool {
        let lease = self.rules.lease.as_nanos() as u64;
        self.disturbances.iter().any(|it| {
            it.process.is_none_or(|only| only == process)
                && it.time.start <= time.end
                && it.time.end + lease >= time.start
        })
    }

    /// Checks the keys for which `finished` holds, and forgets them.
    pub fn check_and_forget(&mut self, finished: impl Fn(&str) -> bool) -> Report {
        let names: Vec<String> = self.keys().filter(|key| finished(key)).map(Into::into).collect();
        let mut report = Report::default();
        for name in names {
            report.add(self.check(&name));
            let forgotten = self.keys.remove(&name);
            self.cut.extend(forgotten.iter().flat_map(Key::cut));
        }
        report
    }

    /// Checks all keys.
    pub fn check_all(&self) -> Report {
        let mut report = Report::default();
        for key in self.keys.keys() {
            report.add(self.check(key));
        }
        report
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
