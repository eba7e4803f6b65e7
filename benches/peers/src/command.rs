//! The program: measures, and writes the report.
//!
//! Everything is behind functions that block, so that futures are compiled with this library, once, and not with each binary.

use crate::options::{Extent, Options};
use crate::plan::Plan;
use crate::servers::{Server, find};
use crate::{quick, report, svg, waiters};
use std::path::{Path, PathBuf};
use tokio::runtime::{Builder, Runtime};

/// The runtime that all subjects run on.
///
/// # Errors
/// It does not start.
pub fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| format!("tokio does not start: {error}"))
}

/// Measures, and prints or writes what was measured.
///
/// # Errors
/// There is no server, or one of them does not start, or the report cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let runtime = runtime()?;
    let servers = chosen(options)?;
    match options.extent {
        Extent::Quick => runtime.block_on(async {
            let server = Server::start(&servers[0]).await?;
            println!("{}", quick::run(&server, options.rounds.unwrap_or(11)).await?);
            Ok(())
        }),
        Extent::Waiters => runtime.block_on(async {
            let server = Server::start(&servers[0]).await?;
            println!("{}", waiters::run(&server, options.rounds.unwrap_or(11)).await);
            Ok(())
        }),
        Extent::Usual | Extent::Full => {
            let plan = Plan::new(options.extent, options.rounds);
            let mut results = plan.start();
            for path in &servers {
                results.servers.push(runtime.block_on(plan.on(path))?);
                // After each server, so that a run that is cut short has written what it measured.
                save(&options.output.join("benchmarks.md"), &report::write(&results))?;
                save(&options.output.join("benchmarks.svg"), &svg::draw(&results.servers))?;
            }
            println!("{}", report::targets(&results).trim());
            Ok(())
        }
    }
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error| format!("`{}` was not written: {error}", path.display());
    std::fs::write(path, text).map_err(failed)
}

/// The servers that are measured.
fn chosen(options: &Options) -> Result<Vec<PathBuf>, String> {
    let mut servers = find(options.servers.as_deref())?;
    if !options.only.is_empty() {
        let named = |path: &PathBuf, only: &String| path.to_string_lossy().contains(only);
        if let Some(only) =
            options.only.iter().find(|it| !servers.iter().any(|path| named(path, it)))
        {
            return Err(format!("no server has `{only}` in its path"));
        }
        servers.retain(|path| options.only.iter().any(|only| named(path, only)));
    }
    Ok(servers)
}
