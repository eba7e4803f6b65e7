//! Checks one key.

use super::report::{Broken, Counts, KeyReport, Violation};
use super::{CallId, History, Key, KeyStep, Resolved, Rules};
use crate::journal::{LeaseSeen, Source, Step};
use crate::kind::Kind;
use idempotent_runtime::Abandon;
use std::collections::HashMap;

/// One call, put together from its steps.
#[derive(Debug, Default)]
pub(super) struct Call {
    start: Option<Attempt>,
    /// The end of its body: value, error or drop.
    end: Option<u64>,
    value: Option<String>,
    /// The body returned an error.
    failed: bool,
    pub(super) answer: Option<u64>,
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

pub(super) fn calls(steps: &[KeyStep]) -> HashMap<CallId, Call> {
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

pub(super) struct Check<'a> {
    pub(super) history: &'a History,
    pub(super) rules: Rules,
    pub(super) name: &'a str,
    pub(super) key: &'a Key,
    pub(super) steps: Vec<&'a KeyStep>,
    pub(super) calls: HashMap<CallId, Call>,
}

impl Check<'_> {
    pub(super) fn run(&self) -> KeyReport {
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
        let value = self.first_value().map(|(_, value)| value);
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
            let called = self.called(*id);
            let stage = match (&call.start, call.end) {
                (Some(_), Some(_)) => &mut counts.cut.after_body,
                (Some(_), None) => &mut counts.cut.in_body,
                (None, _) => match &success {
                    Some(at) if *at < called => &mut counts.cut.after_success,
                    _ => &mut counts.cut.before_body,
                },
            };
            *stage += 1;
        }
        KeyReport { counts, value, violations: Vec::new() }
    }

    /// The time at which a call was made.
    fn called(&self, id: CallId) -> u64 {
        self.steps.iter().find(|step| step.call == id).map_or(0, |step| step.at)
    }

    /// Calls without an answer, of processes that were killed.
    fn cut_calls(&self) -> impl Iterator<Item = (&CallId, &Call)> {
        self.calls.iter().filter(|(id, call)| {
            call.answer.is_none() && self.history.killed.contains_key(&id.process)
        })
    }

    /// The first time that a caller could know of a success.
    fn first_success(&self) -> Option<u64> {
        let duplicates = self.steps.iter().filter_map(|KeyStep { at, step, .. }| match step {
            Step::Refused { kind, .. } if self.is(Kind::Reject) && kind == "Duplicate" => Some(*at),
            _ => None,
        });
        duplicates.chain(self.first_value().map(|(at, _)| at)).min()
    }

    fn is(&self, kind: Kind) -> bool {
        self.rules.kind == Some(kind)
    }

    /// The first time that a caller could know of a recorded value, and the value.
    fn first_value(&self) -> Option<(u64, String)> {
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
            if success.is_some_and(|at| at < start.at) {
                let detail = format!("attempt {} started after the success", start.number);
                self.violate(report, Broken::StartAfterSuccess, detail);
            }
            for (other, before) in &earlier {
                let told = start.fence != 0 && before.fence != 0;
                if told && (start.fence <= before.fence || start.number <= before.number) {
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

    /// `true` if an attempt could not keep others from starting at `at`.
    fn had_let_go(&self, id: CallId, attempt: &Attempt, at: u64) -> bool {
        if self.is(Kind::Window) {
            return false;
        }
        let call = &self.calls[&id];
        let by_then = |time: u64| time <= at;
        let ended = call.end.is_some_and(by_then);
        let retried = |it: &Resolved| it.answer.is_none() && attempt.at <= it.at && by_then(it.at);
        if (call.failed && ended) || self.key.resolved.iter().any(retried) {
            return true;
        }
        if self.rules.abandon == Abandon::Block {
            return false;
        }
        let dropped = ended && call.value.is_none();
        let gone = call.gone && call.answer.is_some_and(by_then);
        // A body that outlives its caller holds its key on; nobody is told what became of it.
        let gone = gone && !self.is(Kind::Detach);
        let untold = call.answer.is_none() || call.gone;
        let disturbed = untold && self.history.was_disturbed(id.process, &(attempt.at..at));
        // A process that was killed cannot tell that its lease had run out before.
        let unrenewed = at - attempt.at >= self.rules.max_run.as_nanos() as u64;
        let killed = self
            .history
            .killed
            .get(&id.process)
            .is_some_and(|time| untold && (by_then(*time) || unrenewed || disturbed));
        let left_alone = call.gone && self.is(Kind::Detach) && disturbed;
        // A batch hears nothing of its leases. Half of one is left when a body starts.
        let unseen =
            self.is(Kind::Batch) && at - attempt.at >= self.rules.lease.as_nanos() as u64 / 2;
        // That a lease is over may be seen late, and only by its holder.
        dropped || gone || killed || left_alone || unseen || call.lost || call.unrecorded
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
                    && call.start.is_some_and(|start| [0, *number].contains(&start.number))
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
        for KeyStep { at, call: id, step } in &self.steps {
            let call = &self.calls[id];
            let (started, ended) = (call.start.is_some(), call.value.is_some());
            let is_true = match step {
                Step::Value { from: Source::Replayed, .. } => !started,
                Step::Value { .. } => ended,
                Step::OwnError => call.failed,
                Step::Refused { kind, body_ran, .. } => {
                    *body_ran == started && self.may_be_refused(kind, ended, *id, *at)
                }
                _ => true,
            };
            if !is_true {
                self.violate(report, Broken::WrongReport, format!("{step:?}, but {call:?}"));
            }
            if let Step::Refused { kind, .. } = step
                && is_true
                && let Some(broken) = self.is_groundless(kind, *id, *at)
            {
                self.violate(report, broken, format!("{id:?}: {kind}"));
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

    fn may_be_refused(&self, kind: &str, ended: bool, id: CallId, at: u64) -> bool {
        match kind {
            "InProgress" | "StoreUnavailable" | "ShuttingDown" => true,
            "Superseded" => ended,
            "Indeterminate" => self.rules.abandon == Abandon::Block,
            "Duplicate" => self.is(Kind::Reject) || self.is(Kind::Window),
            "StoreFull" | "NotReplicated" | "Misconfigured" => {
                !self.history.disturbances.is_empty()
            }
            "Undecodable" => {
                let called = self.called(id);
                self.key.foreign.iter().any(|time| time.start <= at && called <= time.end)
            }
            _ => false,
        }
    }

    /// `true` if a call without a start may have left its key blocked at that time. The right to
    /// start was granted, and then the call and its server were kept apart: until it has taken the
    /// right back, nobody else can tell that it did not start.
    fn may_block(&self, id: CallId, call: &Call, at: u64) -> bool {
        let gave_up = |it: &&KeyStep| match &it.step {
            Step::Refused { kind, .. } => kind == "StoreUnavailable",
            Step::Gone => true,
            _ => false,
        };
        let called = self.called(id);
        let under_way = call.answer.is_none_or(|answer| at < answer);
        let left = self.steps.iter().copied().filter(|it| it.call == id).any(|it| gave_up(&it));
        call.start.is_none()
            && called <= at
            && (under_way || left)
            && self.history.was_disturbed(id.process, &(called..at))
            && self.history.was_disturbed(id.process, &(at..at))
    }

    /// A refusal for something that had not happened at that time.
    fn is_groundless(&self, kind: &str, id: CallId, at: u64) -> Option<Broken> {
        let mut others = self.calls.iter().filter(|(other, _)| **other != id);
        match kind {
            "Duplicate" if self.is(Kind::Window) => {
                // Taken when it was asked for, whether or not its body started.
                let mut steps = self.steps.iter();
                let called = steps.any(|it| it.call != id && it.step == Step::Call && it.at <= at);
                (!called).then_some(Broken::DuplicateOfNothing)
            }
            "Duplicate" => {
                let done =
                    |call: &Call| call.value.is_some() && call.end.is_some_and(|end| end <= at);
                (!others.any(|(_, call)| done(call))).then_some(Broken::DuplicateOfNothing)
            }
            "Indeterminate" => {
                let started = |call: &Call| call.start.is_some_and(|start| start.at <= at);
                // Killed between the right to start and the start.
                let cut = self.cut_calls().any(|(_, call)| call.start.is_none());
                let grounds = cut
                    || self.calls.values().any(started)
                    || others.any(|(other, call)| self.may_block(*other, call, at));
                (!grounds).then_some(Broken::UnknownWithoutStart)
            }
            _ => None,
        }
    }
}
