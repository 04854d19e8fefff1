//! From what is written to what is understood, or everything that is wrong with it at once.

use chrono::{DateTime, NaiveDate, Utc};

use super::{
    calendar::{Calendar, Exclusions},
    cron::Expression,
    firing::{Fire, Next, NotForward, Schedule},
    pattern::Pattern,
    rule::{Rule, SECOND, Source},
    spec::{After, CALENDARS_MAX, CATCHUP_LIMIT_MAX, JITTER_MAX, Misfire, PERIOD_MAX, PERIOD_MIN, RuleSpec, Spec},
    text,
    wall::{Manner, Wall},
    zone::Zone,
};
use crate::domain::time::{Timestamp, micros};

/// Something that is wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Problem {
    /// The field, as in the job file.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Schedule {
    /// Understands a schedule.
    ///
    /// `key` names it within its job config and, with the fire's time, decides jitter. `created` is where intervals
    /// count from when the schedule has no `start_time`. `calendars` are those there are; one that is named and missing
    /// is a problem.
    pub fn new(spec: &Spec, key: &str, created: Timestamp, calendars: &[Calendar]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let zone = Zone::parse(&spec.time_zone).unwrap_or_else(|error| {
            problems.push(Problem { field: "time_zone", message: error.to_string() });
            Zone::utc()
        });
        let start = spec.start_time.map(instant);
        let end = spec.end_time.map(instant);
        let anchor = start.unwrap_or(created.0);
        let rule = rule(&spec.rule, zone, anchor).map_err(|problem| problems.push(problem)).ok();
        check_bounds(spec, &mut problems);
        let mut chosen = Vec::new();
        for name in &spec.calendars {
            match calendars.iter().find(|calendar| calendar.name == *name) {
                Some(calendar) => chosen.push(calendar),
                None => problems.push(Problem {
                    field: "calendars",
                    message: format!("calendar {name:?} does not exist; apply it first, or remove it here"),
                }),
            }
        }
        let Some(rule) = rule.filter(|_| problems.is_empty()) else { return Err(problems) };
        Ok(Self {
            rule,
            zone,
            start,
            end,
            exclusions: Exclusions::new(chosen, zone),
            key: key.to_owned(),
            jitter: spec.jitter,
            misfire: spec.misfire,
            misfire_after: spec.misfire_after,
            catchup_window: spec.catchup_window,
            catchup_limit: spec.catchup_limit,
        })
    }

    /// The fire that a new schedule waits for. One that will never fire is refused, and so is a single time in the past,
    /// unless its misfire policy is written out and says to run it.
    pub fn first_fire(&self, now: Timestamp) -> Result<Fire, Problem> {
        if let Rule::Once(at) = self.rule
            && at <= now.0
        {
            let runs = matches!(self.misfire, Some(Misfire::RunOnce | Misfire::RunAll));
            if runs && now.since(Timestamp(at)) <= self.catchup_window {
                return Ok(Fire { time: Timestamp(at), notes: Vec::new() });
            }
            let message = format!(
                "{} is in the past; choose a later time, or set misfire: run_once (and a catchup_window that reaches it)",
                rfc3339(at)
            );
            return Err(Problem { field: "at", message });
        }
        let field = self.rule.field();
        let refused = |message: &str| Err(Problem { field, message: message.to_owned() });
        match self.next(now) {
            Ok(Next::At(fire)) => Ok(fire),
            Ok(Next::Over) => refused("its last fire has passed; move its end_time or its years"),
            Ok(Next::Beyond2100) => refused("its next fire lies after the year 2100, where schedules end"),
            Ok(Next::Never) => refused("it never fires: check its days, its window and its calendars"),
            Err(fault @ NotForward { .. }) => refused(&fault.to_string()),
        }
    }
}

impl Rule {
    fn field(&self) -> &'static str {
        match self {
            Self::Wall { source: Source::Cron(_), .. } => "cron",
            Self::Wall { source: Source::Text(_), .. } => "text",
            Self::Rate { .. } | Self::Delay { .. } => "every",
            Self::Once(_) => "at",
        }
    }
}

fn rule(spec: &RuleSpec, zone: Zone, anchor: i64) -> Result<Rule, Problem> {
    match spec {
        RuleSpec::Cron(expression) => {
            let expression =
                Expression::parse(expression).map_err(|error| Problem { field: "cron", message: error.to_string() })?;
            let manner = if expression.is_interval_like() { Manner::Elapsed } else { Manner::Fixed };
            let wall = Wall { pattern: Pattern::grids([expression.grid().clone()]), zone, manner };
            Ok(Rule::Wall { wall, source: Source::Cron(expression) })
        }
        RuleSpec::Text(text) => {
            let problem = |message: String| Problem { field: "text", message };
            let rule = text::Rule::parse(text).map_err(|error| problem(error.to_string()))?;
            let origin = origin(zone, anchor);
            let pattern =
                rule.pattern(origin).ok_or_else(|| problem("no date fits it; check where it starts".to_owned()))?;
            Ok(Rule::Wall { wall: Wall { pattern, zone, manner: rule.manner() }, source: Source::Text(rule) })
        }
        RuleSpec::Every { period, after } => {
            if !(PERIOD_MIN..=PERIOD_MAX).contains(period) {
                let message = "an interval is from 1 second to 10 years".to_owned();
                return Err(Problem { field: "every", message });
            }
            let period = micros(*period);
            Ok(match after {
                After::Start => Rule::Rate { period, anchor },
                After::Completion => Rule::Delay { period },
            })
        }
        RuleSpec::At(time) => Ok(Rule::Once(instant(*time))),
    }
}

/// The date on the wall where intervals of the calendar begin to count.
fn origin(zone: Zone, anchor: i64) -> NaiveDate {
    zone.civil(anchor.div_euclid(SECOND)).date()
}

fn check_bounds(spec: &Spec, problems: &mut Vec<Problem>) {
    let mut refuse = |field, message: String| problems.push(Problem { field, message });
    if let (Some(start), Some(end)) = (spec.start_time, spec.end_time)
        && start >= end
    {
        refuse("end_time", "it must be later than start_time".to_owned());
    }
    if spec.jitter > JITTER_MAX {
        refuse("jitter", "it is 24 hours at most".to_owned());
    }
    if let RuleSpec::Every { period, .. } = spec.rule
        && !spec.jitter.is_zero()
        && spec.jitter >= period
    {
        refuse("jitter", "it must be shorter than the interval, or fires would overtake each other".to_owned());
    }
    if !(1..=CATCHUP_LIMIT_MAX).contains(&spec.catchup_limit) {
        refuse("catchup_limit", format!("it is from 1 to {CATCHUP_LIMIT_MAX}"));
    }
    if spec.calendars.len() > CALENDARS_MAX {
        refuse("calendars", format!("a schedule names {CALENDARS_MAX} calendars at most"));
    }
}

fn instant(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

fn rfc3339(at: i64) -> String {
    DateTime::from_timestamp_micros(at).unwrap_or_default().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}
