//! What a task wrote, made safe for a terminal: colours may pass, nothing that moves the cursor, sets the title,
//! fills the clipboard or makes the terminal answer.

/// The longest escape sequence that is taken for a colour.
const SEQUENCE_MAX: usize = 64;

/// Where in a sequence the filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: one more byte ends it.
    Short,
    /// In a control sequence (CSI).
    Control,
    /// In a string (OSC, DCS, SOS, PM, APC): up to BEL or ST.
    String,
    /// In a string, after ESC.
    StringEscape,
}

/// Filters one stream; keeps what is unfinished from one piece to the next.
#[derive(Debug)]
pub struct Filter {
    colors: bool,
    state: State,
    sequence: String,
    /// The beginning of a character whose end has not come yet.
    unfinished: Vec<u8>,
}

impl Filter {
    /// A filter that lets colours pass, or nothing but text.
    pub fn new(colors: bool) -> Self {
        Self { colors, state: State::Text, sequence: String::new(), unfinished: Vec::new() }
    }

    /// What of a piece may be shown. Bytes that are no text become the replacement character.
    pub fn text(&mut self, bytes: &[u8]) -> String {
        let mut input = std::mem::take(&mut self.unfinished);
        input.extend_from_slice(bytes);
        let mut text = String::with_capacity(input.len());
        let mut chunks = input.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|c| self.push(c, &mut text));
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            // At the very end of a piece, a character may only be cut in two.
            if chunks.peek().is_none() && may_continue(invalid) {
                self.unfinished = invalid.to_vec();
            } else {
                self.push(char::REPLACEMENT_CHARACTER, &mut text);
            }
        }
        text
    }

    fn push(&mut self, c: char, text: &mut String) {
        match self.state {
            State::Text => match c {
                '\x1b' => self.state = State::Escape,
                '\u{9b}' => self.begin_control(),
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = State::String,
                '\n' | '\t' | '\r' => text.push(c),
                c if c.is_control() => {}
                c => text.push(c),
            },
            State::Escape => match c {
                '[' => self.begin_control(),
                ']' | 'P' | 'X' | '^' | '_' => self.state = State::String,
                ' '..='/' => self.state = State::Short,
                '\x1b' => {}
                // A line's end must never be swallowed: an unfinished sequence would take the next line with it.
                '\n' => self.back_to_text(c, text),
                _ => self.state = State::Text,
            },
            State::Short => match c {
                ' '..='/' => {}
                '\n' => self.back_to_text(c, text),
                _ => self.state = State::Text,
            },
            State::Control => match c {
                '@'..='~' => {
                    if c == 'm' && self.colors && self.sequence.chars().all(|c| c.is_ascii_digit() || ";:".contains(c))
                    {
                        text.push_str("\x1b[");
                        text.push_str(&self.sequence);
                        text.push('m');
                    }
                    self.state = State::Text;
                }
                '\n' => self.back_to_text(c, text),
                '\x1b' => self.state = State::Escape,
                c if self.sequence.len() < SEQUENCE_MAX => self.sequence.push(c),
                _ => self.state = State::Text,
            },
            State::String => match c {
                '\x07' | '\u{9c}' => self.state = State::Text,
                '\x1b' => self.state = State::StringEscape,
                '\n' => self.back_to_text(c, text),
                _ => {}
            },
            State::StringEscape => match c {
                '\\' => self.state = State::Text,
                '\x1b' => {}
                '\n' => self.back_to_text(c, text),
                _ => self.state = State::String,
            },
        }
    }

    fn begin_control(&mut self) {
        self.sequence.clear();
        self.state = State::Control;
    }

    fn back_to_text(&mut self, c: char, text: &mut String) {
        self.state = State::Text;
        text.push(c);
    }
}

/// Whether bytes that are no character may become one with what follows.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(bytes: &[u8]) -> String {
        Filter::new(true).text(bytes)
    }

    #[test]
    fn colours_pass_and_nothing_else_does() {
        assert_eq!(filtered(b"\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
        assert_eq!(Filter::new(false).text(b"\x1b[1;31mred\x1b[0m"), "red");
        for attack in [
            "\x1b]0;title\x07",
            "\x1b]52;c;ZXZpbA==\x1b\\",
            "\x1bP+q544e\x1b\\",
            "\x1b_application\x1b\\",
            "\x1b[2J",
            "\x1b[1A",
            "\x1b[6n",
            "\x1b[?1049h",
            "\x1b[>4;2m",
            "\x1bc",
            "\x1b(0",
            "\x1b#8",
            "\u{9b}2J",
            "\u{9d}0;title\u{9c}",
            "\x08\x0b\x0c\x0e\x7f",
        ] {
            assert_eq!(filtered(format!("a{attack}b").as_bytes()), "ab", "{attack:?}");
        }
    }

    #[test]
    fn a_sequence_may_be_cut_anywhere() {
        let bytes = "è \x1b[32mgrün\x1b[0m \x1b]0;x\x07 日本".as_bytes();
        let whole = filtered(bytes);
        for cut in 0..=bytes.len() {
            let mut filter = Filter::new(true);
            let parts = filter.text(&bytes[..cut]) + &filter.text(&bytes[cut..]);
            assert_eq!(parts, whole, "cut at {cut}");
        }
    }

    #[test]
    fn an_unfinished_sequence_ends_with_its_line() {
        assert_eq!(filtered(b"\x1b]0;never ended\nnext\n"), "\nnext\n");
        assert_eq!(filtered(b"\x1b[12\nnext"), "\nnext");
    }

    #[test]
    fn bytes_that_are_no_text_are_seen_as_such() {
        assert_eq!(filtered(b"a\xff\x9b2Jb"), "a\u{fffd}\u{fffd}2Jb");
    }
}
