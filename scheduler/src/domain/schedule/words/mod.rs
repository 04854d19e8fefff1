//! What a schedule means, said in words: shown whenever one is saved or previewed, so that a misreading shows too.

mod en;
mod recognise;
mod zh;

use std::fmt::Write;

use super::{
    cron::{Bits, Expression, numbers},
    firing::{Note, Schedule},
    rule::{Rule, SECOND, Source},
    text::{self, Language},
};
use crate::domain::time::Timestamp;

impl Expression {
    /// Says it: in the words of the grammar where there are such, else field by field.
    pub fn describe(&self, language: Language) -> String {
        match (recognise::rule(self), language) {
            (Some(rule), _) => rule.describe(language),
            (None, Language::English) => en::expression(self),
            (None, Language::Chinese) => zh::expression(self),
        }
    }

    /// The words of the grammar that mean the same, if there are such.
    pub fn as_text(&self) -> Option<text::Rule> {
        recognise::rule(self)
    }
}

impl Schedule {
    /// Says its rule.
    pub fn describe(&self, language: Language) -> String {
        match (&self.rule, language) {
            (Rule::Wall { source: Source::Cron(expression), .. }, _) => expression.describe(language),
            (Rule::Wall { source: Source::Text(rule), .. }, _) => rule.describe(language),
            (Rule::Rate { period, anchor }, Language::English) => {
                format!("every {}, counted from {}", span(*period), self.local(Timestamp(*anchor)))
            }
            (Rule::Rate { period, anchor }, Language::Chinese) => {
                format!("每{}，从{}起算", span(*period), self.local(Timestamp(*anchor)))
            }
            (Rule::Delay { period }, Language::English) => format!("{} after the job before has ended", span(*period)),
            (Rule::Delay { period }, Language::Chinese) => format!("上一次运行结束后{}", span(*period)),
            (Rule::Once(at), Language::English) => format!("once at {}", self.local(Timestamp(*at))),
            (Rule::Once(at), Language::Chinese) => format!("{}运行一次", self.local(Timestamp(*at))),
        }
    }

    /// The cron expression with the same fires, if there is one.
    pub fn cron(&self) -> Option<String> {
        match &self.rule {
            Rule::Wall { source: Source::Cron(expression), .. } => Some(expression.text().to_owned()),
            Rule::Wall { source: Source::Text(rule), .. } => rule.cron(),
            _ => None,
        }
    }

    /// Says what is odd about a fire.
    pub fn explain(&self, note: &Note, time: Timestamp, language: Language) -> String {
        let reading = self.zone.civil(time.0.div_euclid(SECOND));
        match language {
            Language::English => en::note(note, reading),
            Language::Chinese => zh::note(note, reading),
        }
    }

    /// An instant as the clocks of the zone show it, with their offset.
    pub(super) fn local(&self, time: Timestamp) -> String {
        let instant = time.0.div_euclid(SECOND);
        let offset = self.zone.offset_at(instant);
        let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
        let reading = self.zone.civil(instant).datetime();
        let mut text = reading.format("%Y-%m-%dT%H:%M:%S").to_string();
        let micros = time.0.rem_euclid(SECOND);
        if micros != 0 {
            text += format!(".{micros:06}").trim_end_matches('0');
        }
        let _ = write!(text, "{sign}{:02}:{:02}", offset / 3_600, offset / 60 % 60);
        // Offsets with seconds are history, but 1972 is within reach.
        if offset % 60 == 0 { text } else { format!("{text}:{:02}", offset % 60) }
    }
}

/// A span in the largest units that say it exactly: `90m`, `2h`, `1d 6h`.
fn span(micros: i64) -> String {
    let mut rest = micros;
    let mut parts = Vec::new();
    for (unit, size) in
        [("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", 1_000), ("us", 1)]
    {
        if rest >= size {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    parts.join(" ")
}

/// A set as runs of numbers: `1`, `3 to 5`, `9`.
fn runs(bits: Bits) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in numbers(bits) {
        match runs.last_mut() {
            Some(last) if last.1 + 1 == n => last.1 = n,
            _ => runs.push((n, n)),
        }
    }
    runs
}
