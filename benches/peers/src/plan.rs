//! The measurements of a run, one axis at a time.

use crate::batch::{self, Batches};
use crate::counts::{self, Allocations, Counts};
use crate::field::{Field, line_up};
use crate::goals::Swaps;
use crate::http;
use crate::memory::{self, Memory};
use crate::options::Extent;
use crate::quick::{ALONE, CROWD};
use crate::rounds::{Ground, Measured, alternate};
use crate::servers::Server;
use crate::subject::Load;
use crate::waiters::{self, Waiters};
use crate::workload::{Body, VALUE_BYTES};
use std::path::Path;

/// Calls of a turn where the number of tasks is varied.
const CALLS: u64 = 10_240;

/// Tasks where the size of values is varied.
const TASKS_OF_SIZES: u64 = 16;

/// Bytes of values in a turn where their size is varied.
const BYTES: usize = 32 << 20;

/// Everything that was measured.
#[derive(Debug)]
pub struct Results {
    /// Rounds that were counted where nothing is varied.
    pub rounds: usize,
    /// Rounds that were counted where something is varied.
    pub axis_rounds: usize,
    /// On each server.
    pub servers: Vec<OnServer>,
    /// On the memory store.
    pub memory: Memory,
}

/// Measurements on one server.
#[derive(Debug)]
pub struct OnServer {
    /// The server.
    pub label: String,
    /// The way in which it swaps.
    pub swaps: Swaps,
    /// 256 tasks.
    pub crowd: Measured,
    /// One task.
    pub alone: Measured,
    /// Other numbers of tasks.
    pub tasks: Vec<Measured>,
    /// Values by their size in bytes.
    pub sizes: Vec<(usize, Measured)>,
    /// Records that the server holds.
    pub records: Vec<(u64, Measured)>,
    /// Commands and memory.
    pub counts: Vec<Counts>,
    /// Allocations.
    pub allocations: Vec<Allocations>,
    /// Batches.
    pub batches: Batches,
    /// The HTTP layer.
    pub http: Vec<http::Row>,
    /// Callers that wait.
    pub waiters: Waiters,
}

/// The extent of the measurements.
#[derive(Clone, Debug)]
pub struct Plan {
    rounds: usize,
    axis_rounds: usize,
    tasks: &'static [u64],
    sizes: &'static [usize],
    records: &'static [u64],
}

impl Plan {
    /// The plan of a run that writes a report.
    pub fn new(extent: Extent, rounds: Option<usize>) -> Self {
        let full = extent == Extent::Full;
        let rounds = rounds.unwrap_or(if full { 21 } else { 11 });
        Self {
            rounds,
            axis_rounds: (rounds / 2).max(3),
            tasks: if full { &[2, 4, 8, 16, 32, 64, 128, 512, 1024] } else { &[4, 16, 64, 1024] },
            sizes: if full {
                &[64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000]
            } else {
                &[64, 1_000, 16_000, 128_000, 1_000_000]
            },
            records: if full {
                &[1_000, 10_000, 100_000, 1_000_000, 10_000_000]
            } else {
                &[1_000, 100_000, 1_000_000]
            },
        }
    }

    /// Measures the memory store. Servers are added with [`on`](Self::on).
    pub fn start(&self) -> Results {
        progress("memory store");
        Results {
            rounds: self.rounds,
            axis_rounds: self.axis_rounds,
            servers: Vec::new(),
            memory: memory::measure(4 * self.rounds),
        }
    }

    /// Measures on a server.
    ///
    /// # Errors
    /// The server does not start, or the product does not send the commands of a begin and a complete.
    pub async fn on(&self, path: &Path) -> Result<OnServer, String> {
        let server = Server::start(path).await?;
        let label = server.label().to_owned();
        let step = |what: &str| progress(&format!("{label}: {what}"));
        let body = Body::of_size(VALUE_BYTES);
        let all = line_up(&server, &body, Field::All).await?;
        step("256 tasks");
        let crowd = alternate(&server, &all, CROWD, Ground::Empty, self.rounds).await;
        step("one task");
        let alone = alternate(&server, &all, ALONE, Ground::Empty, self.rounds).await;
        let mut tasks = Vec::new();
        for count in self.tasks {
            step(&format!("{count} tasks"));
            let load = Load::spread(*count, CALLS);
            tasks.push(alternate(&server, &all, load, Ground::Empty, self.axis_rounds).await);
        }
        step("commands, memory and allocations");
        let counts = counts::measure(&server, &all).await;
        let allocations = counts::allocations(path)?;
        drop(all);
        let mut sizes = Vec::new();
        for size in self.sizes {
            step(&format!("values of {size} bytes"));
            let some = line_up(&server, &Body::of_size(*size), Field::Floors).await?;
            let calls = (BYTES / size).clamp(64, 4_096) as u64;
            let load = Load::spread(TASKS_OF_SIZES, calls);
            sizes.push((
                *size,
                alternate(&server, &some, load, Ground::Empty, self.axis_rounds).await,
            ));
        }
        let some = line_up(&server, &body, Field::Floors).await?;
        let mut records = Vec::new();
        for count in self.records {
            step(&format!("{count} records"));
            let ground = Ground::Records(*count);
            let load = Load { tasks: 256, each: 10 };
            let measured = alternate(&server, &some, load, ground, self.axis_rounds).await;
            records.push((*count, measured));
        }
        step("batches");
        let batches = batch::measure(&server, self.rounds).await?;
        step("HTTP");
        let http = http::measure(&server, self.rounds).await;
        step("waiters");
        let waiters = waiters::measure(&server, self.rounds).await;
        Ok(OnServer {
            swaps: server.swaps(),
            label,
            crowd,
            alone,
            tasks,
            sizes,
            records,
            counts,
            allocations,
            batches,
            http,
            waiters,
        })
    }
}

impl OnServer {
    /// Every number of tasks, the least first.
    pub fn by_tasks(&self) -> Vec<&Measured> {
        let mut all = vec![&self.alone, &self.crowd];
        all.extend(&self.tasks);
        all.sort_by_key(|measured| measured.load.tasks);
        all
    }
}

fn progress(what: &str) {
    eprintln!("{what}");
}
