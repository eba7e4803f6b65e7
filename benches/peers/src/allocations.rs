//! Counts allocations of calls, and prints them as JSON. `bench` starts it.

use idempotent_bench::counts::Allocations;
use idempotent_bench::field::{Field, line_up};
use idempotent_bench::servers::Server;
use idempotent_bench::subject::{Load, Phase};
use idempotent_bench::workload::{Body, VALUE_BYTES, fresh_ids};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One task, so that what is allocated for a task and for the list of times does not count.
const LOAD: Load = Load { tasks: 1, each: 5_000 };

fn main() -> ExitCode {
    let Some(server) = std::env::args().nth(1) else {
        eprintln!("usage: allocations SERVER");
        return ExitCode::from(2);
    };
    match run(Path::new(&server)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(server: &Path) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("tokio does not start: {error}"))?;
    let counted = runtime.block_on(async {
        let server = Server::start(server).await?;
        let contestants = line_up(&server, &Body::of_size(VALUE_BYTES), Field::All).await?;
        let mut all = Vec::new();
        for contestant in &contestants {
            let ids = fresh_ids(LOAD.calls());
            let warm = fresh_ids(LOAD.calls());
            for phase in Phase::ALL {
                contestant.run(phase, warm, LOAD).await;
                let region = Region::new(ALLOCATOR);
                contestant.run(phase, ids, LOAD).await;
                let change = region.change();
                let per_call = |count: usize| count as f64 / LOAD.calls() as f64;
                all.push(Allocations {
                    name: contestant.name.to_owned(),
                    phase: phase.name().to_owned(),
                    count: per_call(change.allocations + change.reallocations),
                    bytes: per_call(change.bytes_allocated),
                });
            }
        }
        Ok::<_, String>(all)
    })?;
    serde_json::to_string(&counted).map_err(|error| error.to_string())
}
