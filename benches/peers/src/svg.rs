//! The plot: throughput by the number of tasks, a panel for each server and phase.

use crate::field::{CACHED, FENCED, KIT, PACKED, PLAIN, PRODUCT, SAME};
use crate::plan::OnServer;
use crate::subject::Phase;
use std::fmt::Write as _;

const PANEL: (f64, f64) = (300.0, 190.0);
/// Room around a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (52.0, 34.0, 14.0, 40.0);
const LEGEND: f64 = 64.0;

/// The contestants in the order of the legend, each with its class of style.
const LINES: [(&str, &str); 7] = [
    (PRODUCT, "product"),
    (FENCED, "fenced"),
    (KIT, "kit"),
    (CACHED, "cached"),
    (PLAIN, "plain"),
    (SAME, "same"),
    (PACKED, "packed"),
];

/// Colours for both backgrounds; floors are grey and differ by their dashes.
const STYLE: &str = "\
text { font: 11px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600; font-size: 12px }
.grid { stroke: #ddd; stroke-width: 1 }
.line { fill: none; stroke-width: 1.6 }
.product { stroke: #1d4ed8; stroke-width: 3 } .fenced { stroke: #b45309 }
.kit { stroke: #047857 } .cached { stroke: #a21caf }
.plain, .same, .packed { stroke: #6b7280 }
.same { stroke-dasharray: 6 3 } .packed { stroke-dasharray: 1.5 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .grid { stroke: #444 }
  .product { stroke: #60a5fa } .fenced { stroke: #fbbf24 }
  .kit { stroke: #34d399 } .cached { stroke: #e879f9 }
  .plain, .same, .packed { stroke: #9ca3af }
}";

/// Draws the results of all servers.
pub fn draw(servers: &[OnServer]) -> String {
    let (width, height) = cell();
    let (total_width, total_height) = (width * servers.len() as f64, 2.0 * height + LEGEND);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width} {total_height}\" \
         width=\"{total_width}\" height=\"{total_height}\" role=\"img\">\n\
         <title>Calls a second by the number of tasks</title>\n<style>{STYLE}</style>\n"
    );
    for (row, phase) in Phase::ALL.into_iter().enumerate() {
        for (column, server) in servers.iter().enumerate() {
            let at = (width * column as f64 + MARGIN.0, height * row as f64 + MARGIN.1);
            svg += &panel(server, phase, at);
        }
    }
    svg += &legend(2.0 * height + 16.0, total_width);
    svg += "</svg>\n";
    svg
}

/// The size of a panel with the room around it.
fn cell() -> (f64, f64) {
    (PANEL.0 + MARGIN.0 + MARGIN.2, PANEL.1 + MARGIN.1 + MARGIN.3)
}

fn panel(server: &OnServer, phase: Phase, (left, top): (f64, f64)) -> String {
    let measured = server.by_tasks();
    let rates = |name: &str| -> Vec<(u64, f64)> {
        let points = measured.iter().filter_map(|measured| {
            let rate = measured.find(name, phase)?.summary(|sample| sample.rate).median;
            Some((measured.load.tasks, rate))
        });
        points.collect()
    };
    let highest = LINES.iter().flat_map(|(name, _)| rates(name)).map(|(_, rate)| rate);
    let step = round_step(highest.fold(1.0, f64::max) / 4.0);
    let limit = step
        * (LINES.iter().flat_map(|(name, _)| rates(name)))
            .map(|(_, rate)| (rate / step).ceil())
            .fold(1.0, f64::max);
    let most = measured.last().map_or(1, |measured| measured.load.tasks).max(2);
    let x = |tasks: u64| left + PANEL.0 * (tasks as f64).log2() / (most as f64).log2();
    let y = |rate: f64| top + PANEL.1 * (1.0 - rate / limit);
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{left}\" y=\"{}\">{}: {}, calls a second</text>",
        top - 14.0,
        server.label,
        phase.name()
    );
    let mut rate = 0.0;
    while rate <= limit {
        let (height, right) = (y(rate), left + PANEL.0);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{left} {height:.1}H{right}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}k</text>",
            left - 6.0,
            height + 4.0,
            rate / 1e3
        );
        rate += step;
    }
    for measured in &measured {
        let tasks = measured.load.tasks;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{tasks}</text>",
            x(tasks),
            top + PANEL.1 + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">tasks</text>",
        left + PANEL.0 / 2.0,
        top + PANEL.1 + 31.0
    );
    // The product is drawn last, above the others.
    for (name, class) in LINES.iter().rev() {
        let points =
            rates(name).into_iter().map(|(tasks, rate)| format!("{:.1} {:.1}", x(tasks), y(rate)));
        let path = points.collect::<Vec<_>>().join("L");
        if !path.is_empty() {
            let _ = writeln!(svg, "<path class=\"line {class}\" d=\"M{path}\"/>");
        }
    }
    svg
}

fn legend(top: f64, width: f64) -> String {
    let mut svg = String::new();
    let columns = ((width / 190.0) as usize).clamp(1, 4);
    for (index, (name, class)) in LINES.iter().enumerate() {
        let left = MARGIN.0 + 190.0 * (index % columns) as f64;
        let middle = 20.0f64.mul_add((index / columns) as f64, top);
        let name = name.trim_matches('`');
        let _ = writeln!(
            svg,
            "<path class=\"line {class}\" d=\"M{left} {middle}h28\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            left + 34.0,
            middle + 4.0
        );
    }
    svg
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_grid_are_round() {
        assert_eq!(
            [0.9, 1.0, 1.1, 45_000.0, 60_000.0].map(round_step),
            [1.0, 1.0, 2.0, 50_000.0, 100_000.0]
        );
    }

    #[test]
    fn every_line_has_a_style() {
        for (_, class) in LINES {
            assert!(STYLE.contains(&format!(".{class}")), "{class}");
        }
    }
}
