//! Worker processes that make calls: started, paused and killed by tests.

use crate::calls::Terms;
use crate::journal::{Journal, What};
use crate::patience::Patience;
use crate::plan::Mix;
use crate::redis::signal;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Orders of a worker: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub reach: Reach,
    pub journal: PathBuf,
    /// Its number in the journal.
    pub process: u32,
    pub terms: Terms,
    pub tasks: usize,
    pub work: Work,
    pub mix: Mix,
    /// It makes no call before this file is there.
    pub begin_when: Option<PathBuf>,
    /// Its bodies do not end before this file is there.
    pub end_when: Option<PathBuf>,
    /// Drain time after a request to terminate, in milliseconds.
    pub grace: u64,
    /// The seed of what it draws at random.
    pub seed: u64,
}

/// The address at which a worker reaches its server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reach {
    Url(String),
    /// The master that these sentinels name. What it writes counts when so many replicas have it.
    Sentinels {
        urls: Vec<String>,
        replicas: usize,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Each task calls all of these, each until it is answered for good; then the worker ends.
    Answers { keys: Vec<String> },
    /// Each task calls keys that are the rarer the higher their rank, until it is told to end. The
    /// keys are others after each `generation`, in milliseconds.
    Endless { ranks: usize, generation: u64 },
    /// As `Endless`, with calls of all kinds.
    Mixed { ranks: usize, generation: u64 },
}

/// The generation of the keys at this time: the number of times that so many milliseconds have
/// passed.
pub fn nth(generation: u64) -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() / u128::from(generation)
}

/// A worker process, which is killed with this value.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    process: u32,
}

impl Worker {
    pub fn start(binary: &Path, orders: &Orders) -> Self {
        Self::start_told(binary, &serde_json::to_string(orders).unwrap(), orders.process)
    }

    /// Starts a process that is told other orders.
    pub fn start_told(binary: &Path, orders: &str, process: u32) -> Self {
        Self { child: spawn(binary, orders, Stdio::null()), process }
    }

    /// Starts the worker that was built with this program.
    pub fn start_beside(orders: &Orders) -> Self {
        let binary = std::env::current_exe().unwrap().with_file_name("redis-worker");
        Self::start(&binary, orders)
    }

    /// The same, and waits for the first line that it prints.
    pub fn start_talking(binary: &Path, orders: &str, process: u32) -> (Self, String) {
        let mut child = spawn(binary, orders, Stdio::piped());
        let printed = child.stdout.take().expect("what it prints is piped");
        let mut line = String::new();
        BufReader::new(printed).read_line(&mut line).unwrap();
        (Self { child, process }, line)
    }

    /// Its number in the journal.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// The memory that it uses, in bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1_024)
    }

    /// Returns `true` if the worker has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills it if it lives, and notes that before.
    pub fn kill(mut self, journal: &Journal) {
        if !self.has_ended() {
            journal.note_about(self.process, What::Killed);
        }
    }

    /// Stops it where it is; [`go_on`](Self::go_on) lets it continue.
    pub fn pause(&self) {
        signal(self.child.id(), "STOP");
        let mut patience = Patience::usual();
        while !is_stopped(self.child.id()) {
            assert!(!patience.is_over(), "worker {} does not stop", self.process);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn go_on(&self) {
        signal(self.child.id(), "CONT");
    }

    /// Asks it to drain and to end.
    pub fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    /// Waits until it ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut patience = Patience::of(Duration::from_secs(120));
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(!patience.is_over(), "worker {} does not end", self.process);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(binary: &Path, orders: &str, printed: Stdio) -> Child {
    let mut command = Command::new(binary);
    // A worker whose standard input is closed ends: nobody is left to give orders.
    command.arg(orders).stdin(Stdio::piped()).stdout(printed);
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()))
}

/// Ends this process when its standard input is closed.
pub fn end_with_whoever_started_this() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        #[expect(clippy::exit, reason = "nobody is left who could be told")]
        std::process::exit(1);
    });
}

/// Returns `true` if every thread of a process is stopped.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold anything.
        state.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}
