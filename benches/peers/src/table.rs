//! Tables, in Markdown and aligned, so that they can be read as text too.

use std::fmt::Write as _;

/// A table whose first column is left-aligned, and whose others are right-aligned.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|it| (*it).to_owned()).collect()] }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// It does not have as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells =
                row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
            if index == 0 {
                let lines = widths.iter().enumerate().map(|(column, width)| match column {
                    0 => "-".repeat(*width),
                    _ => format!("{}:", "-".repeat(width - 1)),
                });
                let _ = writeln!(text, "| {} |", lines.collect::<Vec<_>>().join(" | "));
            }
        }
        text
    }
}

/// A number with a comma after every three digits.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["a".to_owned(), "1,000".to_owned()]);
        let expected = "| name |     n |\n| ---- | ----: |\n| a    | 1,000 |\n";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn digits_are_grouped() {
        let texts = [0.0, 999.0, 1000.0, 1_234_567.4, -1000.0].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567", "-1,000"]);
    }
}
