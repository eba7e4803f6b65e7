//! The result of a history: counts, and promises that were broken.

use std::collections::BTreeMap;
use std::fmt;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub key: String,
    pub broken: Broken,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The caller was told something about its body that its body did not do.
    WrongReport,
    /// A call of a process that lives had no answer.
    NoAnswer,
    /// A call was a duplicate of something that had not happened.
    DuplicateOfNothing,
    /// The outcome of a key was unknown although no body of it had started.
    UnknownWithoutStart,
    /// A key could not be brought to an end.
    Stuck,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {:?}: {}", self.key, self.broken, self.detail)
    }
}

/// Counts of events, by kind.
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

/// One count a line.
impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "calls            {}", self.calls)?;
        writeln!(formatter, "keys             {} ({} succeeded)", self.keys, self.succeeded)?;
        writeln!(formatter, "executions       {}", self.starts)?;
        writeln!(formatter, "replays          {}", self.replays)?;
        writeln!(formatter, "own errors       {}", self.own_errors)?;
        writeln!(formatter, "dropped bodies   {}", self.dropped)?;
        writeln!(formatter, "callers gone     {}", self.gone)?;
        writeln!(formatter, "lost leases      {}", self.lost)?;
        writeln!(formatter, "unrecorded       {}", self.unrecorded)?;
        for (kind, count) in &self.refusals {
            writeln!(formatter, "refused          {count} {kind}")?;
        }
        writeln!(formatter, "calls cut        {:?}", self.cut)
    }
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

/// The result of one key.
#[derive(Clone, Debug, Default)]
pub struct KeyReport {
    pub counts: Counts,
    /// The value that was recorded.
    pub value: Option<String>,
    pub violations: Vec<Violation>,
}

/// The result of many keys.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub counts: Counts,
    pub violations: Vec<Violation>,
}

impl Report {
    pub(super) fn add(&mut self, key: KeyReport) {
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

    /// The number of times that each promise was broken.
    pub fn violated(&self) -> BTreeMap<Broken, usize> {
        let mut counts = BTreeMap::new();
        for violation in &self.violations {
            *counts.entry(violation.broken).or_default() += 1;
        }
        counts
    }

    pub fn broken(&self, broken: Broken) -> bool {
        self.violations.iter().any(|violation| violation.broken == broken)
    }
}
