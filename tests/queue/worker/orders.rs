//! Orders of a consumer in a process of its own, and the ledger in which its bodies are noted.

use crate::place::Place;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Orders of a consumer: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) place: Place,
    /// The Redis with the records.
    pub(crate) redis: String,
    pub(crate) ledger: PathBuf,
    /// The place at which it prints a line, and stays.
    pub(crate) stop: Option<Point>,
    pub(crate) lease_ms: u64,
    pub(crate) heartbeat_ms: u64,
    pub(crate) concurrency: usize,
    pub(crate) max_attempts: u32,
}

/// A point on the way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    BeforeTheBody,
    InTheBody,
    AfterTheBody,
    BeforeTheAck,
    AfterTheAck,
}

/// A message whose key begins so ends the process of its body.
pub(crate) const POISON: &str = "poison";
/// A message whose key begins so ends its process before a record knows of it, as if the record had been rolled back.
pub(crate) const UNTRACED: &str = "untraced";

/// A file to which processes append a line for each start and each end of a body.
#[derive(Debug)]
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// One write, which the system does not mix with those of others.
    pub(crate) fn note(&self, event: &str, key: &str) {
        (&self.0).write_all(format!("{event} {key}\n").as_bytes()).unwrap();
    }

    /// The number of times that an event was noted of each key.
    pub(crate) fn counts(path: &Path, event: &str) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            if let Some((noted, key)) = line.split_once(' ')
                && noted == event
            {
                *counts.entry(key.to_owned()).or_default() += 1;
            }
        }
        counts
    }
}
