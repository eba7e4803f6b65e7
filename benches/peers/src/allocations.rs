//! Counts allocations of calls, and prints them as JSON. `bench` starts it.

use idempotent_bench::counts::{Allocated, count_allocations};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let Some(server) = std::env::args().nth(1) else {
        eprintln!("usage: allocations SERVER");
        return ExitCode::from(2);
    };
    let allocated = || {
        let stats = ALLOCATOR.stats();
        Allocated { count: stats.allocations + stats.reallocations, bytes: stats.bytes_allocated }
    };
    match count_allocations(Path::new(&server), &allocated) {
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
