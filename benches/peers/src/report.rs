//! The report, as Markdown.

use crate::counts::{Allocations, Counts};
use crate::field::{PACKED, PLAIN, PRODUCT, SAME};
use crate::goals;
use crate::http::CONNECTIONS;
use crate::machine::{description, locked};
use crate::plan::{OnServer, Results};
use crate::quick;
use crate::rounds::Measured;
use crate::statistics::Summary;
use crate::subject::Phase;
use crate::table::{Table, grouped};
use std::fmt::Write as _;

/// Text about what is compared, which does not depend on the measurements.
const SUBJECTS: &str = include_str!("subjects.md");

/// Writes the report.
pub fn write(results: &Results) -> String {
    let mut text = head(results);
    for server in &results.servers {
        text += &on_server(server);
    }
    text += &memory_store(results);
    text
}

fn head(results: &Results) -> String {
    let labels: Vec<_> = results.servers.iter().map(|server| server.label.as_str()).collect();
    let version = |name: &str| format!("{name} {}", locked(name));
    let peers = ["idempotent", "idempotency-kit", "cached", "axum-idempotent"].map(version);
    let clients = ["redis", "tokio", "axum"].map(version);
    format!(
        "# Benchmarks\n\n\
         Written by `scripts/bench`; do not edit.\n\n\
         ![Calls a second by the number of tasks](benchmarks.svg)\n\n\
         | | |\n| --- | --- |\n\
         | machine | {} |\n| servers | {}, on the same machine, over loopback, nothing on disk |\n\
         | peers | {} |\n| libraries | {} |\n| rounds | {}, and {} where something is varied |\n\n{SUBJECTS}",
        description(),
        labels.join(", "),
        peers.join(", "),
        clients.join(", "),
        results.rounds,
        results.axis_rounds,
    )
}

fn on_server(server: &OnServer) -> String {
    let mut text = format!("\n## {}\n", server.label);
    for measured in [&server.crowd, &server.alone] {
        for phase in Phase::ALL {
            let tasks = measured.load.tasks;
            let title = if tasks == 1 { "one by one".to_owned() } else { format!("{tasks} tasks") };
            let table = quick::table(measured, phase).markdown();
            let _ = write!(text, "\n### {}, {}, {title}\n\n{table}", server.label, phase.name());
        }
    }
    let _ =
        write!(text, "\n### {}, counts per call\n\n{}", server.label, counts(server).markdown());
    let _ = write!(
        text,
        "\nMemory is what the server allocates for a record, its share of the table of keys included.\n"
    );
    let tasks =
        server.by_tasks().into_iter().map(|it| (it.load.tasks as f64, it)).collect::<Vec<_>>();
    text += &axis(server, "tasks", "Tasks", &tasks);
    let sizes: Vec<_> = server.sizes.iter().map(|(size, it)| (*size as f64, it)).collect();
    text += &axis(server, "bytes of a value", "Values, 16 tasks", &sizes);
    let records: Vec<_> = server.records.iter().map(|(count, it)| (*count as f64, it)).collect();
    text += &axis(server, "records on the server", "Records, 256 tasks", &records);
    text += &others(server);
    text
}

fn counts(server: &OnServer) -> Table {
    let columns = [
        "",
        "",
        "commands",
        "within scripts",
        "bytes sent",
        "bytes received",
        "allocations",
        "bytes allocated",
        "memory, bytes",
    ];
    let mut table = Table::new(&columns);
    for Counts { name, phase, commands, within_scripts, record } in &server.counts {
        let series = server.crowd.find(name, *phase);
        let bytes = |part: fn(&crate::rounds::Sample) -> f64| {
            series.map_or_else(String::new, |series| format!("{:.0}", series.summary(part).median))
        };
        let allocated = |part: fn(&Allocations) -> f64| {
            let mut all = server.allocations.iter();
            let found = all.find(|it| it.name == *name && it.phase == phase.name());
            found.map_or_else(String::new, |it| format!("{:.1}", part(it)))
        };
        table.row(vec![
            (*name).to_owned(),
            phase.name().to_owned(),
            commands.to_string(),
            within_scripts.to_string(),
            bytes(|sample| sample.sent),
            bytes(|sample| sample.received),
            allocated(|it| it.count),
            allocated(|it| it.bytes),
            record.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
        ]);
    }
    table
}

/// Calls a second of floors and the product where one thing is varied.
fn axis(server: &OnServer, what: &str, title: &str, measured: &[(f64, &Measured)]) -> String {
    let mut text = format!("\n### {}, {}\n", server.label, title.to_lowercase());
    for phase in Phase::ALL {
        let columns = [
            what,
            "plain, calls/s",
            "the same, raw",
            "packed",
            "product",
            "of plain",
            "of the same",
        ];
        let mut table = Table::new(&columns);
        for (value, measured) in measured {
            let rate = |name: &str| match measured.find(name, phase) {
                Some(series) => grouped(series.summary(|sample| sample.rate).median),
                None => String::new(),
            };
            let ratio = |to: &str| {
                let ratio = measured.ratio(phase, PRODUCT, to, |sample| sample.rate);
                ratio.map_or_else(String::new, |it: Summary| it.to_string())
            };
            table.row(vec![
                grouped(*value),
                rate(PLAIN),
                rate(SAME),
                rate(PACKED),
                rate(PRODUCT),
                ratio(PLAIN),
                ratio(SAME),
            ]);
        }
        let name = phase.name();
        let name = name[..1].to_uppercase() + &name[1..];
        let _ = write!(text, "\n{name}:\n\n{}", table.markdown());
    }
    text
}

fn others(server: &OnServer) -> String {
    let mut table = Table::new(&["", "", "requests/s", "of bare"]);
    for row in &server.http {
        let cells = [row.name, row.phase.name()].map(str::to_owned);
        let [name, phase] = cells;
        table.row(vec![name, phase, grouped(row.rate.median), row.ratio.to_string()]);
    }
    let mut text = format!(
        "\n### {}, HTTP, {CONNECTIONS} connections\n\n\
         Clients share the machine with the service. The bare service runs its handler for repeats too.\n\n{}",
        server.label,
        table.markdown()
    );
    let mut table = Table::new(&["", "floor", "product", "ratio"]);
    let (batches, waiters) = (&server.batches, &server.waiters);
    table.row(vec![
        "`run_batch` of 1,000 new keys against two pipelines, µs a key; ratio of throughput"
            .to_owned(),
        format!("{:.1}", batches.pipelines.median),
        format!("{:.1}", batches.product.median),
        batches.ratio.to_string(),
    ]);
    table.row(waiters.row());
    let _ = write!(text, "\n### {}, batches and waiters\n\n{}", server.label, table.markdown());
    text
}

fn memory_store(results: &Results) -> String {
    let mut table = Table::new(&["", "floor, ns", "product, ns", "ratio of times"]);
    let memory = &results.memory;
    for (phase, compared) in Phase::ALL.into_iter().zip([memory.first, memory.replay]) {
        table.row(vec![
            phase.name().to_owned(),
            format!("{:.0}", compared.floor.median),
            format!("{:.0}", compared.product.median),
            compared.ratio.to_string(),
        ]);
    }
    format!(
        "\n## Memory store\n\nOne thread, 20,000 keys. The floor of a first execution is an insert into and an update of a \
         concurrent map, a random token, and the value as JSON; that of a replay is a lookup and JSON.\n\n{}",
        table.markdown()
    )
}

/// The goals with what was measured, for printing.
pub fn targets(results: &Results) -> String {
    let mut text = "\n## Targets\n".to_owned();
    for server in &results.servers {
        let table = goals::table(&goals::of_server(server)).markdown();
        let _ = write!(text, "\n{}:\n\n{table}", server.label);
    }
    let table = goals::table(&goals::of_memory(&results.memory)).markdown();
    let _ = write!(text, "\nMemory store:\n\n{table}");
    text
}
