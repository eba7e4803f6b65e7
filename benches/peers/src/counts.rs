//! Counts per call that do not depend on the speed of the machine.

use crate::capture::capture;
use crate::command::runtime;
use crate::field::{Field, line_up};
use crate::servers::Server;
use crate::subject::{Contestant, Load, Phase};
use crate::workload::{Body, VALUE_BYTES, fresh_ids};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// Calls over which memory is averaged.
const RECORDS: Load = Load { tasks: 50, each: 1_000 };

/// Counts of one contestant in one phase.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The contestant.
    pub name: &'static str,
    /// The phase.
    pub phase: Phase,
    /// Commands that it sends.
    pub commands: usize,
    /// Commands that its scripts call.
    pub within_scripts: usize,
    /// Bytes that the server allocates for a record; nothing for a replay.
    pub record: Option<f64>,
}

/// Counts of every contestant.
pub async fn measure(server: &Server, contestants: &[Contestant]) -> Vec<Counts> {
    const ONE: Load = Load { tasks: 1, each: 1 };
    let mut all = Vec::new();
    for contestant in contestants {
        server.flush().await;
        // The first call may have to send the text of a script.
        contestant.run(Phase::First, fresh_ids(1), ONE).await;
        let id = fresh_ids(1);
        for phase in Phase::ALL {
            let calls = async { drop(contestant.run(phase, id, ONE).await) };
            let captured = capture(server, calls).await;
            let record = match phase {
                Phase::First => Some(record(server, contestant).await),
                Phase::Replay => None,
            };
            // `record` has emptied the server.
            if phase == Phase::First {
                contestant.run(phase, id, ONE).await;
            }
            let (commands, within_scripts) = (captured.sent.len(), captured.within_scripts);
            all.push(Counts { name: contestant.name, phase, commands, within_scripts, record });
        }
    }
    server.flush().await;
    all
}

async fn record(server: &Server, contestant: &Contestant) -> f64 {
    server.flush().await;
    let before = server.memory().await;
    contestant.run(Phase::First, fresh_ids(RECORDS.calls()), RECORDS).await;
    let after = server.memory().await;
    server.flush().await;
    (after - before) / RECORDS.calls() as f64
}

/// Allocations of one contestant in one phase, per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocations {
    /// The contestant.
    pub name: String,
    /// The name of the phase.
    pub phase: String,
    /// The number of allocations.
    pub count: f64,
    /// Bytes that were allocated.
    pub bytes: f64,
}

/// Counts allocations in a program of its own, whose allocator counts. That of this program does not, because it takes time.
///
/// # Errors
/// The program does not run.
pub fn allocations(server: &Path) -> Result<Vec<Allocations>, String> {
    let failed = |why: String| format!("allocations were not counted: {why}");
    let this = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(this.with_file_name("allocations")).arg(server).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Allocations of a process since it started.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// The number of allocations.
    pub count: usize,
    /// Bytes that were allocated.
    pub bytes: usize,
}

/// One task, so that what is allocated for a task and for the list of times does not count.
const COUNTED: Load = Load { tasks: 1, each: 5_000 };

/// Counts allocations of every contestant with the allocator of this process, and returns them as JSON.
///
/// # Errors
/// The server does not start.
pub fn count_allocations(
    server: &Path,
    allocated: &dyn Fn() -> Allocated,
) -> Result<String, String> {
    let counted = runtime()?.block_on(async {
        let server = Server::start(server).await?;
        let contestants = line_up(&server, &Body::of_size(VALUE_BYTES), Field::All).await?;
        let mut all = Vec::new();
        for contestant in &contestants {
            let (warm, ids) = (fresh_ids(COUNTED.calls()), fresh_ids(COUNTED.calls()));
            for phase in Phase::ALL {
                contestant.run(phase, warm, COUNTED).await;
                let before = allocated();
                contestant.run(phase, ids, COUNTED).await;
                let after = allocated();
                let per_call = |count: usize| count as f64 / COUNTED.calls() as f64;
                all.push(Allocations {
                    name: contestant.name.to_owned(),
                    phase: phase.name().to_owned(),
                    count: per_call(after.count - before.count),
                    bytes: per_call(after.bytes - before.bytes),
                });
            }
        }
        Ok::<_, String>(all)
    })?;
    serde_json::to_string(&counted).map_err(|error| error.to_string())
}
