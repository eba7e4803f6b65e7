//! First executions and replays on one server, for comparing two versions of the product.

use crate::field::{Field, PLAIN, PRODUCT, SAME, line_up};
use crate::goals;
use crate::rounds::{Ground, Measured, alternate};
use crate::servers::Server;
use crate::subject::{Load, Phase};
use crate::table::{Table, grouped};
use crate::workload::{Body, VALUE_BYTES};

/// Many tasks, then one.
pub const CROWD: Load = Load { tasks: 256, each: 40 };
/// One call after the other.
pub const ALONE: Load = Load { tasks: 1, each: 1_000 };

/// Measures, and returns what is to be printed.
///
/// # Errors
/// The product does not send the commands of a begin and a complete.
pub async fn run(server: &Server, rounds: usize) -> Result<String, String> {
    let body = Body::of_size(VALUE_BYTES);
    let contestants = line_up(server, &body, Field::All).await?;
    let crowd = alternate(server, &contestants, CROWD, Ground::Empty, rounds).await;
    let alone = alternate(server, &contestants, ALONE, Ground::Empty, rounds).await;
    let mut goals = goals::of_throughput(&crowd, server.swaps());
    goals.extend(goals::of_latency(&alone));
    Ok(format!(
        "{}, {rounds} rounds; medians, quartiles in brackets\n\n{}\n{}\n{}",
        server.label(),
        sections(&crowd),
        sections(&alone),
        goals::table(&goals).markdown()
    ))
}

/// A table for each phase.
pub fn sections(measured: &Measured) -> String {
    let Load { tasks, .. } = measured.load;
    let each = Phase::ALL.map(|phase| {
        let text = table(measured, phase).markdown();
        format!("{}, {tasks} {}\n\n{text}", phase.name(), if tasks == 1 { "task" } else { "tasks" })
    });
    each.join("\n")
}

/// A row for each contestant.
pub fn table(measured: &Measured, phase: Phase) -> Table {
    let columns = [
        "",
        "calls/s",
        "of plain",
        "of the same",
        "p50 µs",
        "p99 µs",
        "client CPU µs",
        "server CPU µs",
    ];
    let mut table = Table::new(&columns);
    for series in measured.series.iter().filter(|series| series.phase == phase) {
        let ratio = |to| match measured.ratio(phase, series.name, to, |sample| sample.rate) {
            Some(summary) if series.name != to => summary.to_string(),
            _ => "1".to_owned(),
        };
        let micros = |summary: crate::statistics::Summary| format!("{:.1}", summary.median);
        table.row(vec![
            name(series.name),
            grouped(series.summary(|sample| sample.rate).median),
            ratio(PLAIN),
            ratio(SAME),
            micros(series.summary(|sample| sample.p50)),
            micros(series.summary(|sample| sample.p99)),
            micros(series.summary(|sample| sample.client)),
            micros(series.summary(|sample| sample.server)),
        ]);
    }
    table
}

/// The product in bold.
fn name(name: &str) -> String {
    match name {
        PRODUCT => format!("**{name}**"),
        _ => name.to_owned(),
    }
}
