//! The terminal: draws a picture over the one before.

use std::io::{self, Write as _};

use crossterm::{
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    queue,
    terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, size},
};

use super::tree::Size;
use crate::{errors::Error, output::text::Line};

/// The size of a terminal that does not tell its own.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// Below this, nothing sensible can be shown and lines may wrap.
const WIDTH_MIN: usize = 20;

/// Draws on standard output, in place. Shows the cursor again when dropped.
#[derive(Debug)]
pub struct Screen {
    color: bool,
    /// The widths of the lines that are on the terminal now.
    drawn: Vec<usize>,
}

impl Screen {
    /// Nothing is drawn yet.
    pub fn new(color: bool) -> Self {
        Self { color, drawn: Vec::new() }
    }

    /// The room there is now; asked before each picture, for a window may have been resized.
    pub fn size() -> Size {
        let (columns, rows) = match size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
            _ => SIZE_DEFAULT,
        };
        Size { width: usize::from(columns).max(WIDTH_MIN), height: usize::from(rows) }
    }

    /// Replaces what is drawn.
    pub fn draw(&mut self, lines: &[Line], width: usize) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate, Hide)?;
        let up = rows_at(&self.drawn, width);
        if up > 0 {
            queue!(out, MoveUp(u16::try_from(up).unwrap_or(u16::MAX)))?;
        }
        queue!(out, MoveToColumn(0))?;
        // Line by line: a screen that is cleared as a whole ends up in the scroll-back of some terminals.
        for line in lines {
            write!(out, "{}", line.render(self.color))?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
            writeln!(out)?;
        }
        queue!(out, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
        out.flush()?;
        self.drawn = lines.iter().map(Line::width).collect();
        Ok(())
    }

    /// Leaves what is drawn where it is; the next picture begins below it.
    pub fn keep(&mut self) {
        self.drawn.clear();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        // Nothing can be done for a terminal that is gone.
        let _ = queue!(out, Show);
        let _ = out.flush();
    }
}

/// How many rows lines take on a terminal that may have become narrower since they were drawn.
fn rows_at(widths: &[usize], width: usize) -> usize {
    widths.iter().map(|drawn| drawn.div_ceil(width.max(1)).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrowed_terminal_has_wrapped_what_was_drawn() {
        assert_eq!(rows_at(&[80, 10, 0], 80), 3);
        assert_eq!(rows_at(&[80, 10, 0], 40), 4);
        assert_eq!(rows_at(&[], 40), 0);
    }
}
