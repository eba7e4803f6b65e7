//! Journal of bodies and callers: a file that many processes append to.
//!
//! The file lies outside the store under test. Each event is one line and one write. A process that
//! is killed in the middle of it leaves half a line, which counts as not written. The machine's
//! clock orders the events: the time of a start is taken before anything else in the body, the time
//! of an answer after it was received. So a slow disk does not change the order.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the machine's clock.
    pub at: u64,
    /// The process it happened in, or which it is about. Each has a number that is not used again.
    pub process: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// The process is connected.
    Up,
    /// The process is about to be killed, or has left calls behind.
    Killed,
    /// The process has heard that it is to end.
    ToldToEnd,
    /// The process has drained on request.
    Drained {
        all: bool,
    },
    ServerRestarted,
    /// The server, or the process that this is about, was kept from its work for so long.
    Disturbed {
        by: String,
        for_nanos: u64,
    },
    /// An operator resolves the key: with an answer, or so that it runs again.
    Resolved {
        key: String,
        answer: Option<String>,
    },
    /// A value that is no record was where the record of the key is to be, for so long.
    Foreign {
        key: String,
        for_nanos: u64,
    },
    /// A step of one call.
    Of {
        key: String,
        call: u64,
        step: Step,
    },
}

/// A step of one call. Calls are told apart by process and number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// The call is about to be made.
    Call,
    /// Its body starts. Both are 0 where the body stands for many attempts.
    Start { number: u32, fence: u64 },
    /// Its body is told that its lease is lost.
    Lost,
    /// Its body returns a value.
    End { value: String, lease: LeaseSeen },
    /// Its body returns an error.
    Fail { lease: LeaseSeen },
    /// Its body is dropped or panics.
    Drop { lease: LeaseSeen },
    /// The caller gets a value.
    Value { from: Source, number: u32, value: String, lease: LeaseSeen },
    /// The caller gets the body's own error.
    OwnError,
    /// The caller is refused.
    Refused { kind: String, body_ran: bool, lease: LeaseSeen },
    /// The caller was cancelled, or went down with the panic of its body.
    Gone,
}

/// The attempt's view of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseSeen {
    Held,
    Lost,
    /// The call had no attempt.
    None,
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The call's own body, and the store has acknowledged it.
    Ran,
    /// The call's own body, and the store had not acknowledged it when the call returned.
    RanUnrecorded,
    /// It was stored before.
    Replayed,
}

/// Writes the events of one process.
#[derive(Clone, Debug)]
pub struct Journal {
    file: Arc<File>,
    process: u32,
}

impl Journal {
    /// Appends to `path` as `process`.
    pub fn open(path: &Path, process: u32) -> Self {
        let file = File::options().create(true).append(true).open(path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { file: Arc::new(file), process }
    }

    pub fn process(&self) -> u32 {
        self.process
    }

    pub fn note(&self, what: What) {
        self.note_about(self.process, what);
    }

    /// Notes what is done to another process.
    pub fn note_about(&self, process: u32, what: What) {
        self.note_at(now(), process, what);
    }

    /// Notes what was done to another process, or to the server if that is 0.
    pub fn note_at(&self, at: u64, process: u32, what: What) {
        let event = Event { at, process, what };
        // A process that is killed may leave half a line: the next one begins on a line of its own.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, &event).unwrap();
        line.push(b'\n');
        let written = (&*self.file).write(&line).unwrap();
        assert_eq!(written, line.len(), "a line is one write");
    }

    pub fn step(&self, key: &str, call: u64, step: Step) {
        self.note(What::Of { key: key.to_owned(), call, step });
    }
}

/// The time of an event that happens now.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Reads a journal while it is written.
#[derive(Debug)]
pub struct Reader {
    file: File,
    /// The beginning of a line whose end was not there yet.
    rest: Vec<u8>,
}

impl Reader {
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { file, rest: Vec::new() }
    }

    /// The events since the last call.
    pub fn read(&mut self) -> Vec<Event> {
        self.file.read_to_end(&mut self.rest).unwrap();
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let parse = |line: &[u8]| match serde_json::from_slice(line) {
            Ok(event) => Some(event),
            // Whoever wrote it was killed before it could go on: what it says did not happen.
            Err(error) if error.is_eof() => None,
            Err(error) => panic!("{error} in the line {:?}", String::from_utf8_lossy(line)),
        };
        lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .filter_map(parse)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::TempDirectory;

    #[test]
    fn half_a_line_of_a_killed_process_is_no_event() {
        let directory = TempDirectory::new();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 1);
        journal.note(What::Up);
        let mut killed = File::options().append(true).open(&path).unwrap();
        killed.write_all(b"\n{\"at\":1,\"proc").unwrap();
        journal.note(What::Killed);
        let events = Reader::open(&path).read();
        let what: Vec<_> = events.into_iter().map(|event| event.what).collect();
        assert_eq!(what, [What::Up, What::Killed]);
    }
}
