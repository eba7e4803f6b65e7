//! Instructions of a call, counted by valgrind and compared with those in `counts/instructions.txt`.
//!
//! `scripts/test-long instructions`. Each case runs in a process under valgrind, once with some calls and once with twice as
//! many: the difference is what the calls took, without the start of the process. One thread makes one call at a time, so
//! that it waits for the server equally often in each run; time that it waits takes no instructions.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::{Command, ExitCode};
use support::counted::{FIRST_ID, Orders};
use support::recorded::{Recorded, Table, Tolerance};
use support::redis::RedisServer;

/// Calls of the shorter run. From these to twice as many, each of the 64 tables in memory grows once: they do at 112, 224
/// and 448 records.
const CALLS: u64 = 10_000;

/// Keys that are replayed in turn.
const REPLAYED: u64 = 500;

/// Another compiler makes other code of the same source.
const TOLERANCE: Tolerance = Tolerance { above: 0.05, below: 0.15 };

/// The store of the calls.
const STORES: [&str; 2] = ["memory", "redis"];
const PHASES: [&str; 2] = ["first", "replay"];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [] => compare(),
        [store, phase, calls, url] => {
            call(store, phase, calls.parse().expect("a number of calls"), url);
            Ok(())
        }
        _ => Err("usage: instructions".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Makes calls, in a process that valgrind watches.
fn call(store: &str, phase: &str, calls: u64, url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let orders = match store {
            "memory" => Orders::in_memory(),
            _ => Orders::on_redis(url).await,
        };
        let keys = if phase == "first" { u64::MAX } else { REPLAYED };
        for call in 0..calls {
            orders.call(FIRST_ID + call % keys).await;
        }
    });
}

fn compare() -> Result<(), String> {
    let mut table = Table::new(&["instructions"]);
    for store in STORES {
        for phase in PHASES {
            let (once, twice) = (count(store, phase, CALLS)?, count(store, phase, 2 * CALLS)?);
            let each = (twice - once) / CALLS as f64;
            table.push(&format!("{store}, {phase}"), vec![Some(each)]);
        }
    }
    println!("{table}");
    let recorded = Recorded {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("counts/instructions.txt"),
        comment: comment()?,
        command: "scripts/test-long instructions",
        variable: "INSTRUCTIONS_UPDATE",
        tolerance: TOLERANCE,
        left_out: None,
    };
    recorded.settle(&table)
}

/// Instructions of a process that makes so many calls, on a server of its own.
fn count(store: &str, phase: &str, calls: u64) -> Result<f64, String> {
    let server = RedisServer::start();
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this);
    valgrind.args([store, phase, &calls.to_string(), &server.url()]);
    let help = "help: apt-get install valgrind";
    let output =
        valgrind.output().map_err(|error| format!("valgrind does not run: {error}\n{help}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected =
        text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match collected {
        Some(collected) if output.status.success() => Ok(collected),
        _ => Err(format!("valgrind did not count {store}, {phase}:\n{text}")),
    }
}

fn comment() -> Result<String, String> {
    let version = |program: &str| match Command::new(program).arg("--version").output() {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(error) => Err(format!("{program} does not run: {error}")),
    };
    let (compiler, valgrind) = (version("rustc")?, version("valgrind")?);
    let (server, processor) = (version("redis-server")?, std::env::consts::ARCH);
    let server = server.split(" sha=").next().unwrap_or_default();
    Ok(format!(
        "Instructions of one call in a release build with default features, on {processor}, with\n\
         {compiler}, {valgrind},\n\
         {server}. `scripts/test-long instructions` compares its own with these, and\n\
         writes them again with\n\
         \n    INSTRUCTIONS_UPDATE=1 scripts/test-long instructions"
    ))
}
