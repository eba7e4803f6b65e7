//! Plans for bodies: fixed, or random.

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Plan of a body and its caller.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub length: Duration,
    pub end: BodyEnd,
    /// The body does not end before this file is there.
    pub until: Option<PathBuf>,
    /// The caller goes away after so long.
    pub cancel: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyEnd {
    #[default]
    Value,
    Error,
    Panic,
}

/// How often what happens, in parts of a thousand. What is left over returns a value at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mix {
    pub errors: u32,
    pub panics: u32,
    /// Callers that go away, at any time.
    pub cancels: u32,
    /// Bodies that take some time, at most `some_millis`.
    pub some: u32,
    pub some_millis: u64,
    /// Bodies that take `long_millis`.
    pub long: u32,
    pub long_millis: u64,
}

impl Mix {
    pub fn draw(&self, rng: &mut impl Rng) -> Plan {
        let length = match rng.random_range(0..1_000) {
            below if below < self.long => Duration::from_millis(self.long_millis),
            below if below < self.long + self.some => {
                Duration::from_micros(rng.random_range(0..=self.some_millis * 1_000))
            }
            _ => Duration::ZERO,
        };
        let end = match rng.random_range(0..1_000) {
            below if below < self.errors => BodyEnd::Error,
            below if below < self.errors + self.panics => BodyEnd::Panic,
            _ => BodyEnd::Value,
        };
        let cancel = rng.random_ratio(self.cancels, 1_000).then(|| {
            // Often within the time that a store takes to answer, sometimes later.
            let longest: u64 = if rng.random() { 1_500 } else { 2_000 * self.some_millis.max(1) };
            Duration::from_micros(rng.random_range(0..=longest))
        });
        Plan { length, end, until: None, cancel }
    }
}

/// Ranks from 0, of which each is the less frequent the higher it is.
#[derive(Clone, Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    pub fn new(ranks: usize) -> Self {
        let mut sum = 0.0;
        let weights = (1..=ranks).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self(weights.collect())
    }

    pub fn draw(&self, rng: &mut impl Rng) -> usize {
        let all = self.0.last().copied().unwrap_or(0.0);
        let at = rng.random_range(0.0..all);
        self.0.partition_point(|sum| *sum <= at)
    }
}
