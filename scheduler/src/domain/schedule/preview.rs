//! What a schedule will do, before it does it.
//!
//! The fires come from the same [`Schedule::next`] that fires them.

use chrono::{DateTime, SecondsFormat};

use super::{
    firing::{Next, NotForward, Schedule},
    text::Language,
};
use crate::domain::time::Timestamp;

/// The most fires of one preview.
pub const COUNT_MAX: u32 = 1_000;

/// What a schedule will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The first fires, in order.
    pub fires: Vec<Shown>,
    /// The cron expression with the same fires, if there is one.
    pub cron: Option<String>,
    /// The rule in words.
    pub description: String,
    /// Why no more fires are shown, when the schedule has no more: never [`Next::At`].
    pub end: Option<Next>,
}

/// A fire as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its instant.
    pub time: Timestamp,
    /// The instant in UTC, as RFC 3339.
    pub utc: String,
    /// What the clocks of the zone show then, as RFC 3339.
    pub local: String,
    /// What is odd about it; empty when nothing is.
    pub note: String,
}

impl Schedule {
    /// The first `count` fires (at most [`COUNT_MAX`]) strictly after an instant.
    ///
    /// A delay shows one: the others depend on when its jobs end.
    pub fn preview(&self, after: Timestamp, count: u32, language: Language) -> Result<Preview, NotForward> {
        let mut preview =
            Preview { fires: Vec::new(), cron: self.cron(), description: self.describe(language), end: None };
        let count = if self.follows_completion() { count.min(1) } else { count.min(COUNT_MAX) };
        let mut from = after;
        for _ in 0..count {
            match self.next(from)? {
                Next::At(fire) => {
                    from = fire.time;
                    let mut notes: Vec<_> =
                        fire.notes.iter().map(|note| self.explain(note, fire.time, language)).collect();
                    let delay = self.due(fire.time).since(fire.time);
                    if !delay.is_zero() {
                        notes.push(match language {
                            Language::English => format!("starts {:.1} s later (jitter)", delay.as_secs_f64()),
                            Language::Chinese => format!("推迟{:.1}秒启动（抖动）", delay.as_secs_f64()),
                        });
                    }
                    preview.fires.push(Shown {
                        time: fire.time,
                        utc: utc(fire.time),
                        local: self.local(fire.time),
                        note: notes.join("; "),
                    });
                }
                nothing => {
                    preview.end = Some(nothing);
                    break;
                }
            }
        }
        Ok(preview)
    }
}

fn utc(time: Timestamp) -> String {
    DateTime::from_timestamp_micros(time.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
