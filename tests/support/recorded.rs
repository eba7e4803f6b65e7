//! Figures that are kept in a file of the repository and compared with those of a run.

use std::fmt;
use std::num::ParseFloatError;
use std::path::PathBuf;

/// A table of figures: a row for each case.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// The figures of a case, one for each column. Some cases have no figure in some columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub case: String,
    pub figures: Vec<Option<f64>>,
}

/// Fractions by which a figure may be above and below the one that is recorded. The second one is there so that a figure
/// that has fallen is recorded: with the old one, it could grow back unseen.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub above: f64,
    pub below: f64,
}

/// Figures are written with one digit after the point.
const ROUNDING: f64 = 0.05;

impl Table {
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|it| (*it).to_owned()).collect(), rows: Vec::new() }
    }

    pub fn push(&mut self, case: &str, figures: Vec<Option<f64>>) {
        assert_eq!(figures.len(), self.columns.len(), "{case}");
        self.rows.push(Row { case: case.to_owned(), figures });
    }

    /// Reads the text of a table. Lines that start with `#` are comments; two spaces or more are between cells.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let head = cells(lines.next().ok_or("the table is empty")?);
        let mut table = Self::new(&head[1..]);
        for line in lines {
            let cells = cells(line);
            let figures: Result<Vec<_>, _> = cells[1..].iter().map(|cell| figure(cell)).collect();
            let figures = figures.ok().filter(|it| it.len() == table.columns.len());
            table.push(cells[0], figures.ok_or_else(|| format!("`{line}` is not a row"))?);
        }
        Ok(table)
    }

    /// A line for each figure that is not the recorded one.
    pub fn differences(&self, recorded: &Self, tolerance: Tolerance) -> Vec<String> {
        let mut found = Vec::new();
        for row in &self.rows {
            if recorded.row(&row.case).is_none() {
                found.push(format!("{}: not in the file", row.case));
            }
        }
        for old in &recorded.rows {
            let Some(row) = self.row(&old.case) else {
                found.push(format!("{}: in the file, but not measured", old.case));
                continue;
            };
            let differences = self.columns.iter().enumerate().filter_map(|(at, column)| {
                let was = recorded.columns.iter().position(|it| it == column);
                let was = was.and_then(|at| old.figures[at]);
                let difference = difference(was, row.figures[at], tolerance)?;
                Some(format!("{}: {column} {difference}", row.case))
            });
            found.extend(differences);
        }
        found
    }

    fn row(&self, case: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case)
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// The figure of a cell, which may have none.
fn figure(cell: &str) -> Result<Option<f64>, ParseFloatError> {
    if cell == "-" { Ok(None) } else { cell.parse().map(Some) }
}

fn difference(was: Option<f64>, is: Option<f64>, tolerance: Tolerance) -> Option<String> {
    let (was, is) = match (was, is) {
        (None, None) => return None,
        (None, Some(is)) => return Some(format!("is {is:.1}, and not in the file")),
        (Some(was), None) => return Some(format!("was {was:.1}, and is not measured")),
        (Some(was), Some(is)) => (was, is),
    };
    let change = 100.0 * (is - was) / was;
    let (verb, limit) = if is > was.mul_add(1.0 + tolerance.above, ROUNDING) {
        ("grew", format!("at most +{:.0} %", 100.0 * tolerance.above))
    } else if is < was.mul_add(1.0 - tolerance.below, -ROUNDING) {
        ("fell", format!("at most -{:.0} % before it is to be recorded", 100.0 * tolerance.below))
    } else {
        return None;
    };
    Some(format!("{verb} from {was:.1} to {is:.1} ({change:+.1} %, {limit})"))
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = self.rows.iter().map(|row| row.case.len()).max().unwrap_or(0);
        write!(formatter, "{:case$}", "case")?;
        for column in &self.columns {
            write!(formatter, "  {column:>8}")?;
        }
        for row in &self.rows {
            write!(formatter, "\n{:case$}", row.case)?;
            for (figure, column) in row.figures.iter().zip(&self.columns) {
                let figure = figure.map_or("-".to_owned(), |figure| format!("{figure:.1}"));
                write!(formatter, "  {figure:>0$}", column.len().max(8))?;
            }
        }
        writeln!(formatter)
    }
}

/// A file with a table.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub path: PathBuf,
    /// Comment of the file: its lines, without their marks.
    pub comment: String,
    /// The command that measures again, and the variable with which it writes the file.
    pub command: &'static str,
    pub variable: &'static str,
    pub tolerance: Tolerance,
    /// Start of the names of cases that this run could not measure.
    pub left_out: Option<&'static str>,
}

impl Recorded {
    /// Compares what was measured with the file, or writes the file if the variable is set.
    ///
    /// # Errors
    /// A text for people, if a figure is not the recorded one.
    pub fn settle(&self, measured: &Table) -> Result<(), String> {
        let path = self.path.display();
        if std::env::var_os(self.variable).is_some() {
            if let Some(cases) = self.left_out {
                return Err(format!("{path} is not written: this run has no cases of {cases}"));
            }
            let comment = self.comment.lines().map(|line| format!("# {line}"));
            let comment = comment.map(|line| format!("{}\n", line.trim_end()));
            let text = format!("{}\n{measured}", comment.collect::<String>());
            return std::fs::write(&self.path, text).map_err(|error| format!("{path}: {error}"));
        }
        let text =
            std::fs::read_to_string(&self.path).map_err(|error| format!("{path}: {error}"))?;
        let mut recorded = Table::parse(&text).map_err(|error| format!("{path}: {error}"))?;
        if let Some(cases) = self.left_out {
            recorded.rows.retain(|row| !row.case.starts_with(cases));
        }
        let differences = measured.differences(&recorded, self.tolerance);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!(
            "figures are not those of {path}\n\n{}\n\n\
             help: if the change is meant, `{}=1 {}` writes the file; look at its difference",
            differences.join("\n"),
            self.variable,
            self.command,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { above: 0.03, below: 0.1 };

    fn table(figures: &[(&str, Option<f64>)]) -> Table {
        let mut table = Table::new(&["bytes"]);
        figures.iter().for_each(|(case, figure)| table.push(case, vec![*figure]));
        table
    }

    fn differences(was: f64, is: f64) -> Vec<String> {
        table(&[("a", Some(is))]).differences(&table(&[("a", Some(was))]), TOLERANCE)
    }

    #[test]
    fn a_table_reads_back_equal() {
        let table = table(&[("a case, long", Some(12.5)), ("b", None)]);
        assert_eq!(Table::parse(&format!("# a comment\n\n{table}")), Ok(table));
    }

    #[test]
    fn text_that_is_not_a_table_is_refused() {
        for text in
            ["", "# a comment", "case  bytes\na  many", "case  bytes\na", "case  bytes\na  1  2"]
        {
            assert!(Table::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_near_the_recorded_one_are_no_difference() {
        for is in [90.0, 100.0, 103.0] {
            assert_eq!(differences(100.0, is), Vec::<String>::new());
        }
    }

    #[test]
    fn a_figure_that_grew_and_one_that_fell_far_are_told() {
        assert_eq!(
            differences(100.0, 104.0),
            ["a: bytes grew from 100.0 to 104.0 (+4.0 %, at most +3 %)"]
        );
        assert_eq!(
            differences(100.0, 80.0),
            [
                "a: bytes fell from 100.0 to 80.0 (-20.0 %, at most -10 % before it is to be recorded)"
            ]
        );
    }

    #[test]
    fn a_case_on_one_side_only_is_a_difference() {
        let (one, other) = (table(&[("a", Some(1.0))]), table(&[("b", Some(1.0))]));
        let found = one.differences(&other, TOLERANCE);
        assert_eq!(found, ["a: not in the file", "b: in the file, but not measured"]);
        let (one, other) = (table(&[("a", Some(1.0))]), table(&[("a", None)]));
        assert_eq!(one.differences(&other, TOLERANCE), ["a: bytes is 1.0, and not in the file"]);
        assert_eq!(other.differences(&one, TOLERANCE), ["a: bytes was 1.0, and is not measured"]);
    }
}
