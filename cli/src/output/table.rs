//! Rows and columns.

use unicode_width::UnicodeWidthStr as _;

use super::text::{Line, Span, Tone};
use super::{Format, Output};
use crate::errors::Error;

/// How many spaces stand between two columns.
const GAP: usize = 3;

/// Rows under named columns. The first column holds the name or id that `-o name` prints.
#[derive(Debug, Clone, Default)]
pub struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<Span>>,
    names: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(headers: &[&'static str]) -> Self {
        Self { headers: headers.to_vec(), ..Self::default() }
    }

    /// Adds a row; `name` is what `-o name` prints for it.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Span>) {
        debug_assert_eq!(cells.len(), self.headers.len(), "a row has a cell for each column");
        self.names.push(name.into());
        self.rows.push(cells);
    }

    /// Prints the table in the form that was asked for.
    pub fn print(&self, output: Output) -> Result<(), Error> {
        if output.is_name() {
            return output.names(&self.names);
        }
        if output.is_tsv() {
            return output.raw(self.tsv().as_bytes());
        }
        let cut = output.terminal && output.format != Some(Format::Wide);
        output.lines(&self.aligned(if cut { output.width() } else { usize::MAX }))
    }

    /// One line a row, the cells separated by tabs.
    pub fn tsv(&self) -> String {
        let mut text = self.headers.join("\t");
        text.push('\n');
        for row in &self.rows {
            // Cells hold no control characters, so a tab always separates.
            let cells: Vec<_> = row.iter().map(Span::text).collect();
            text.push_str(&cells.join("\t"));
            text.push('\n');
        }
        text
    }

    /// The header and the rows, each at most `width` columns.
    pub fn aligned(&self, width: usize) -> Vec<Line> {
        let column = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].width());
            cells.max().unwrap_or(0).max(self.headers[index].width())
        };
        let widths: Vec<_> = (0..self.headers.len()).map(column).collect();
        let header = self.headers.iter().map(|header| Span::new(header, Tone::Dim)).collect();
        let line = |cells: &Vec<Span>| {
            let mut line = Line::new();
            let mut start = 0;
            for (cell, width) in cells.iter().zip(&widths) {
                line.pad_to(start);
                line.push(cell.clone());
                start += width + GAP;
            }
            line.cut(width)
        };
        std::iter::once(&header).chain(&self.rows).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row("a", vec!["订单".into(), Span::new("✔ finished", Tone::Good)]);
        table.row("b", vec!["resize-images".into(), "▶ running".into()]);
        table
    }

    #[test]
    fn columns_line_up_by_the_width_of_what_is_seen() {
        let lines: Vec<_> = table().aligned(80).iter().map(|line| line.render(false)).collect();
        assert_eq!(lines, ["NAME            STATE", "订单            ✔ finished", "resize-images   ▶ running"]);
    }

    #[test]
    fn a_pipe_gets_tabs_and_no_colour() {
        assert_eq!(table().tsv(), "NAME\tSTATE\n订单\t✔ finished\nresize-images\t▶ running\n");
    }

    #[test]
    fn a_narrow_terminal_cuts_instead_of_wrapping() {
        assert!(table().aligned(20).iter().all(|line| line.width() <= 20));
    }
}
