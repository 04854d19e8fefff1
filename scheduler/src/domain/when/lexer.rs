//! The words of a condition.

use std::ops::Range;

use super::super::reference::Fault;

/// A word and the bytes where it stands.
pub(super) type Token = (Word, Range<usize>);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    /// A keyword or a name.
    Name(String),
    /// What stood in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction or exponent.
    Float(f64),
    /// One of `== != < <= > >= ( ) [ ] , . -`.
    Mark(&'static str),
    /// The end of the condition.
    End,
}

/// Two-character marks come first: what begins with one of them is never the shorter one.
const MARKS: [&str; 13] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", ".", "-"];

/// What other languages write, and what it is here.
const FOREIGN: [(&str, &str); 4] = [("&&", "and"), ("||", "or"), ("!", "not"), ("=", "==")];

/// Splits a condition into words; the last one is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (word, len) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first == '\'' || first == '"' {
            quoted(rest, first, at)?
        } else if first.is_ascii_digit() {
            number(rest, at)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Word::Name(rest[..len].to_owned()), len)
        } else if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            (Word::Mark(mark), mark.len())
        } else {
            let foreign = FOREIGN.into_iter().find(|(theirs, _)| rest.starts_with(theirs));
            let len = foreign.map_or(first.len_utf8(), |(theirs, _)| theirs.len());
            let fault = Fault::new(format!("{:?} means nothing here", &rest[..len]), at..at + len);
            return Err(match foreign {
                Some((_, ours)) => fault.suggest(format!("write {ours:?}")),
                None => fault,
            });
        };
        tokens.push((word, at..at + len));
        at += len;
    }
    tokens.push((Word::End, text.len()..text.len()));
    Ok(tokens)
}

fn quoted(rest: &str, quote: char, at: usize) -> Result<(Word, usize), Fault> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, same @ ('\\' | '\'' | '"'))) => text.push(same),
                Some((end, other)) => {
                    let bytes = at + place..at + end + other.len_utf8();
                    return Err(Fault::new(format!("\"\\{other}\" means nothing in a text"), bytes)
                        .suggest("a backslash itself is written \\\\"));
                }
                None => break,
            },
            end if end == quote => return Ok((Word::Text(text), place + 1)),
            plain => text.push(plain),
        }
    }
    Err(Fault::new("this text has no end", at..at + rest.len()).suggest(format!("close it with {quote}")))
}

fn number(rest: &str, at: usize) -> Result<(Word, usize), Fault> {
    let digits = |from: usize| from + rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
    let mut end = digits(0);
    let mut whole = true;
    if rest[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
        whole = false;
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        if digits(end + 1 + sign) > end + 1 + sign {
            end = digits(end + 1 + sign);
            whole = false;
        }
    }
    if rest[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Err(Fault::new("a name does not begin with a digit", at..at + end + 1).suggest("put a text in quotes"));
    }
    let digits = &rest[..end];
    let word = if whole {
        digits.parse().map(Word::Integer).map_err(|_| "this number is too large")
    } else {
        digits.parse().ok().filter(|float: &f64| float.is_finite()).map(Word::Float).ok_or("this number is too large")
    };
    word.map(|word| (word, end)).map_err(|message| Fault::new(message, at..at + end))
}
