//! Checks what a journal tells against what is promised.
//!
//! Keys are independent, so each is checked by itself: every start had to be allowed, every answer
//! had to be true, and all answers had to agree. Records are taken to outlive the run: the checker
//! knows of no second life of a key.

use crate::calls::Terms;
use crate::journal::{Event, LeaseSeen, Source, Step, What};
use idempotent_runtime::Abandon;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// What the calls of a history were made on.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub abandon: Abandon,
    /// For how long a lease is renewed.
    pub max_run: Duration,
}

impl From<&Terms> for Rules {
    fn from(terms: &Terms) -> Self {
        Self { abandon: terms.abandon, max_run: Duration::from_millis(terms.max_run) }
    }
}

/// Collects events, and checks the keys that are told to be finished.
#[derive(Debug)]
pub struct History {
    rules: Rules,
    keys: HashMap<String, Key>,
    killed: HashMap<u32, u64>,
    /// Processes with a call that had no answer, of keys that are forgotten.
    cut: HashSet<u32>,
    pub restarts: usize,
}

/// What is known about one key.
#[derive(Debug, Default)]
struct Key {
    steps: Vec<KeyStep>,
    resolved: Vec<Resolved>,
}

impl Key {
    /// The processes of calls that had no answer.
    fn cut(&self) -> impl Iterator<Item = u32> + use<> {
        let calls = calls(&self.steps).into_iter();
        calls.filter(|(_, call)| call.answer.is_none()).map(|(id, _)| id.process)
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

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub key: String,
    pub broken: Broken,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Two callers got different values that were both recorded.
    SecondValue,
    /// A value that no body had returned by then.
    ValueBeforeEnd,
    /// A body started although a caller had got a recorded value.
    StartAfterSuccess,
    /// A body started although an earlier attempt still held the key, or blocked it.
    StartWhileHeld,
    /// The fence or the number of a start was not greater than that of an earlier one.
    FenceDidNotGrow,
    /// An attempt lost its key although its lease was not over.
    LostWhileHeld,
    /// What the caller was told about its body is not what its body did.
    WrongReport,
    /// A call of a process that lives had no answer.
    NoAnswer,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {:?}: {}", self.key, self.broken, self.detail)
    }
}

/// How often what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: usize,
    /// Bodies that started.
    pub starts: usize,
    /// Keys with a value that was recorded.
    pub succeeded: usize,
    pub keys: usize,
    pub replays: usize,
    pub unrecorded: usize,
    pub own_errors: usize,
    pub dropped: usize,
    pub gone: usize,
    pub refusals: BTreeMap<String, usize>,
    /// Attempts that lost their lease in a process that lived on.
    pub lost: usize,
    pub cut: Cut,
}

/// In which part of a call it was when its process was killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// S1: no body had started.
    pub before_body: usize,
    /// S2: the body ran.
    pub in_body: usize,
    /// S3: the body had returned, and the call had not.
    pub after_body: usize,
    /// S4: the call was for an answer that was there.
    pub after_success: usize,
}

impl Cut {
    pub fn all(&self) -> usize {
        self.before_body + self.in_body + self.after_body + self.after_success
    }
}

/// What one key came to.
#[derive(Clone, Debug, Default)]
pub struct KeyReport {
    pub counts: Counts,
    /// The value that was recorded.
    pub value: Option<String>,
    pub violations: Vec<Violation>,
}

impl History {
    pub fn new(rules: impl Into<Rules>) -> Self {
        let (keys, killed, cut) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { rules: rules.into(), keys, killed, cut, restarts: 0 }
    }

    /// Takes events in. Their order does not matter.
    pub fn add(&mut self, events: impl IntoIterator<Item = Event>) {
        for Event { at, process, what } in events {
            match what {
                What::Up | What::ToldToEnd | What::Drained { .. } => {}
                What::Killed => drop(self.killed.insert(process, at)),
                What::ServerRestarted => self.restarts += 1,
                What::Resolved { key, answer } => {
                    let key = self.keys.entry(key).or_default();
                    key.resolved.push(Resolved { at, answer });
                }
                What::Of { key, call: number, step } => {
                    let call = CallId { process, number };
                    self.keys.entry(key).or_default().steps.push(KeyStep { at, call, step });
                }
            }
        }
    }

    /// How many processes were killed.
    pub fn kills(&self) -> usize {
        self.killed.len()
    }

    /// How many processes were killed while one of their calls was under way.
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
        let check = Check { history: self, name: key, key: found, steps, calls };
        check.run()
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

/// What many keys came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub counts: Counts,
    pub violations: Vec<Violation>,
}

impl Report {
    fn add(&mut self, key: KeyReport) {
        self.merge(Self { counts: key.counts, violations: key.violations });
    }

    pub fn merge(&mut self, other: Self) {
        let (sum, Counts { cut, .. }) = (&mut self.counts, other.counts.clone());
        sum.calls += other.counts.calls;
        sum.starts += other.counts.starts;
        sum.succeeded += other.counts.succeeded;
        sum.keys += other.counts.keys;
        sum.replays += other.counts.replays;
        sum.unrecorded += other.counts.unrecorded;
        sum.own_errors += other.counts.own_errors;
        sum.dropped += other.counts.dropped;
        sum.gone += other.counts.gone;
        sum.lost += other.counts.lost;
        sum.cut.before_body += cut.before_body;
        sum.cut.in_body += cut.in_body;
        sum.cut.after_body += cut.after_body;
        sum.cut.after_success += cut.after_success;
        for (kind, count) in other.counts.refusals {
            *sum.refusals.entry(kind).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    /// # Panics
    /// A promise was broken.
    pub fn assert_kept(&self) {
        let shown: Vec<String> = self.violations.iter().take(10).map(ToString::to_string).collect();
        assert!(shown.is_empty(), "{} violations: {shown:#?}", self.violations.len());
    }

    pub fn broken(&self, broken: Broken) -> bool {
        self.violations.iter().any(|violation| violation.broken == broken)
    }
}

/// One call, put together from its steps.
#[derive(Debug, Default)]
struct Call {
    start: Option<Attempt>,
    /// The end of its body: value, error or drop.
    end: Option<u64>,
    value: Option<String>,
    /// The body returned an error.
    failed: bool,
    answer: Option<u64>,
    gone: bool,
    unrecorded: bool,
    lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    at: u64,
    number: u32,
    fence: u64,
}

fn calls(steps: &[KeyStep]) -> HashMap<CallId, Call> {
    let mut calls: HashMap<CallId, Call> = HashMap::new();
    for KeyStep { at, call, step } in steps {
        let call = calls.entry(*call).or_default();
        match step {
            Step::Call => {}
            Step::Lost => call.lost = true,
            Step::Start { number, fence } => {
                call.start = Some(Attempt { at: *at, number: *number, fence: *fence });
            }
            Step::End { value, lease } => {
                call.end = Some(*at);
                call.value = Some(value.clone());
                call.lost |= *lease == LeaseSeen::Lost;
            }
            Step::Fail { lease } => {
                call.end = Some(*at);
                call.failed = true;
                call.lost |= *lease == LeaseSeen::Lost;
            }
            Step::Drop { lease } => {
                call.end = Some(*at);
                call.lost |= *lease == LeaseSeen::Lost;
            }
            Step::Value { from, lease, .. } => {
                call.answer = Some(*at);
                call.unrecorded = *from == Source::RanUnrecorded;
                call.lost |= *lease == LeaseSeen::Lost;
            }
            Step::Refused { lease, .. } => {
                call.answer = Some(*at);
                call.lost |= *lease == LeaseSeen::Lost;
            }
            Step::OwnError => call.answer = Some(*at),
            Step::Gone => {
                call.answer = Some(*at);
                call.gone = true;
            }
        }
    }
    calls
}

struct Check<'a> {
    history: &'a History,
    name: &'a str,
    key: &'a Key,
    steps: Vec<&'a KeyStep>,
    calls: HashMap<CallId, Call>,
}

impl Check<'_> {
    fn run(&self) -> KeyReport {
        let mut report = self.count();
        self.check_starts(&mut report);
        self.check_values(&mut report);
        self.check_answers(&mut report);
        report
    }

    fn violate(&self, report: &mut KeyReport, broken: Broken, detail: impl Into<String>) {
        let key = self.name.to_owned();
        report.violations.push(Violation { key, broken, detail: detail.into() });
    }

    fn count(&self) -> KeyReport {
        let success = self.first_success();
        let value = success.as_ref().map(|(_, value)| value.clone());
        let succeeded = usize::from(success.is_some());
        let mut counts = Counts { keys: 1, succeeded, ..Counts::default() };
        for KeyStep { step, .. } in &self.steps {
            match step {
                Step::Call => counts.calls += 1,
                Step::Start { .. } => counts.starts += 1,
                Step::Drop { .. } => counts.dropped += 1,
                Step::OwnError => counts.own_errors += 1,
                Step::Gone => counts.gone += 1,
                Step::Value { from: Source::Replayed, .. } => counts.replays += 1,
                Step::Value { from: Source::RanUnrecorded, .. } => counts.unrecorded += 1,
                Step::Refused { kind, .. } => {
                    *counts.refusals.entry(kind.clone()).or_default() += 1
                }
                Step::Lost | Step::End { .. } | Step::Fail { .. } | Step::Value { .. } => {}
            }
        }
        counts.lost = self.calls.values().filter(|call| call.lost).count();
        for (id, call) in self.cut_calls() {
            let called = self.steps.iter().find(|step| step.call == *id).map_or(0, |step| step.at);
            let stage = match (&call.start, call.end) {
                (Some(_), Some(_)) => &mut counts.cut.after_body,
                (Some(_), None) => &mut counts.cut.in_body,
                (None, _) => match &success {
                    Some((at, _)) if *at < called => &mut counts.cut.after_success,
                    _ => &mut counts.cut.before_body,
                },
            };
            *stage += 1;
        }
        KeyReport { counts, value, violations: Vec::new() }
    }

    /// Calls without an answer, of processes that were killed.
    fn cut_calls(&self) -> impl Iterator<Item = (&CallId, &Call)> {
        self.calls.iter().filter(|(id, call)| {
            call.answer.is_none() && self.history.killed.contains_key(&id.process)
        })
    }

    /// The first time that somebody could know of a recorded value, and the value.
    fn first_success(&self) -> Option<(u64, String)> {
        let answers = self.steps.iter().filter_map(|KeyStep { at, step, .. }| match step {
            Step::Value { from: Source::Ran | Source::Replayed, value, .. } => {
                Some((*at, value.clone()))
            }
            _ => None,
        });
        let resolved = self.key.resolved.iter();
        let resolved = resolved.filter_map(|it| it.answer.clone().map(|answer| (it.at, answer)));
        answers.chain(resolved).min()
    }

    fn check_starts(&self, report: &mut KeyReport) {
        let success = self.first_success();
        let mut earlier: Vec<(CallId, Attempt)> = Vec::new();
        for KeyStep { call: id, step, .. } in &self.steps {
            let Step::Start { .. } = step else { continue };
            let Some(start) = self.calls[id].start else { continue };
            if let Some((at, _)) = &success
                && *at < start.at
            {
                let detail = format!("attempt {} started after the success", start.number);
                self.violate(report, Broken::StartAfterSuccess, detail);
            }
            for (other, before) in &earlier {
                if start.fence <= before.fence || start.number <= before.number {
                    let detail = format!("{start:?} after {before:?}");
                    self.violate(report, Broken::FenceDidNotGrow, detail);
                }
                if !self.had_let_go(*other, before, start.at) {
                    let detail = format!("{start:?} while {before:?} of {other:?} held the key");
                    self.violate(report, Broken::StartWhileHeld, detail);
                }
            }
            earlier.push((*id, start));
        }
    }

    /// Whether an attempt could no longer keep others from starting at `at`.
    fn had_let_go(&self, id: CallId, attempt: &Attempt, at: u64) -> bool {
        let call = &self.calls[&id];
        let by_then = |time: u64| time <= at;
        let ended = call.end.is_some_and(by_then);
        let retried = |it: &Resolved| it.answer.is_none() && attempt.at <= it.at && by_then(it.at);
        if (call.failed && ended) || self.key.resolved.iter().any(retried) {
            return true;
        }
        if self.history.rules.abandon == Abandon::Block {
            return false;
        }
        let dropped = ended && call.value.is_none();
        let gone = call.gone && call.answer.is_some_and(by_then);
        // Whoever was killed cannot tell that its lease had run out before.
        let unrenewed = at - attempt.at >= self.history.rules.max_run.as_nanos() as u64;
        let killed = call.answer.is_none()
            && self.history.killed.get(&id.process).is_some_and(|time| by_then(*time) || unrenewed);
        // That a lease is over may be seen late, and only by its holder.
        dropped || gone || killed || call.lost || call.unrecorded
    }

    fn check_values(&self, report: &mut KeyReport) {
        let recorded = report.value.clone();
        for KeyStep { at, call: id, step } in &self.steps {
            let Step::Value { from, number, value, .. } = step else { continue };
            if *from != Source::RanUnrecorded && recorded.as_ref() != Some(value) {
                let detail = format!("{value} beside {recorded:?}");
                self.violate(report, Broken::SecondValue, detail);
            }
            let made_it = |(maker, call): (&CallId, &Call)| {
                call.value.as_ref() == Some(value)
                    && call.end.is_some_and(|end| end <= *at)
                    && call.start.is_some_and(|start| start.number == *number)
                    && (*from == Source::Replayed || maker == id)
            };
            let resolved = self.key.resolved.iter().any(|resolved| {
                *from == Source::Replayed
                    && resolved.at <= *at
                    && resolved.answer.as_ref() == Some(value)
            });
            if !self.calls.iter().any(made_it) && !resolved {
                let detail = format!("{value} of attempt {number}, to {id:?}");
                self.violate(report, Broken::ValueBeforeEnd, detail);
            }
        }
    }

    fn check_answers(&self, report: &mut KeyReport) {
        for KeyStep { call: id, step, .. } in &self.steps {
            let call = &self.calls[id];
            let (started, ended) = (call.start.is_some(), call.value.is_some());
            let is_true = match step {
                Step::Value { from: Source::Replayed, .. } => !started,
                Step::Value { .. } => ended,
                Step::OwnError => call.failed,
                Step::Refused { kind, body_ran, .. } => {
                    *body_ran == started && self.may_be_refused(kind, ended)
                }
                _ => true,
            };
            if !is_true {
                self.violate(report, Broken::WrongReport, format!("{step:?}, but {call:?}"));
            }
            if let Step::Refused { kind, lease: LeaseSeen::Held, .. } = step
                && kind == "Superseded"
                && self.key.resolved.is_empty()
            {
                self.violate(report, Broken::LostWhileHeld, format!("{call:?}"));
            }
        }
        for (id, call) in &self.calls {
            if call.answer.is_none() && !self.history.killed.contains_key(&id.process) {
                self.violate(report, Broken::NoAnswer, format!("{id:?}: {call:?}"));
            }
        }
    }

    fn may_be_refused(&self, kind: &str, ended: bool) -> bool {
        match kind {
            "InProgress" | "StoreUnavailable" | "ShuttingDown" => true,
            "Superseded" => ended,
            "Indeterminate" => self.history.rules.abandon == Abandon::Block,
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
