//! How a user names things: `JOB[/TASK[#SHARD]]`, `key=value`, `90s`, states in lower case.

use std::{fmt, str::FromStr, time::Duration};

use baton::v1::{CallbackState, JobState, TaskState, TriggerKind};

/// A job, one task of it, or one shard of that task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// An id, or a unique prefix or suffix of at least 4 hex digits. The scheduler resolves it.
    pub job: String,
    /// The task's name; empty means the job.
    pub task: String,
    /// Which shard of the task.
    pub shard: Option<u32>,
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (job, rest) = match text.split_once('/') {
            Some((job, rest)) => (job, Some(rest)),
            None => (text, None),
        };
        if job.len() < 4 || !job.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(format!("\"{job}\" is not a job id: give at least 4 hex digits of its beginning or end"));
        }
        let Some(rest) = rest else { return Ok(Self { job: job.to_owned(), task: String::new(), shard: None }) };
        let (task, shard) = match rest.split_once('#') {
            Some((task, shard)) => {
                let number = shard.parse().map_err(|_| format!("\"{shard}\" is not the number of a shard"))?;
                (task, Some(number))
            }
            None => (rest, None),
        };
        if task.is_empty() {
            return Err("a task's name must follow the \"/\"".to_owned());
        }
        Ok(Self { job: job.to_owned(), task: task.to_owned(), shard })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.job)?;
        if !self.task.is_empty() {
            write!(f, "/{}", self.task)?;
        }
        self.shard.map_or(Ok(()), |shard| write!(f, "#{shard}"))
    }
}

/// A selector that must name a task.
#[derive(Debug, Clone)]
pub struct TaskSelector(pub Selector);

impl FromStr for TaskSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let selector: Selector = text.parse()?;
        if selector.task.is_empty() {
            return Err(format!("name the task too: {text}/TASK"));
        }
        Ok(Self(selector))
    }
}

/// The last 8 hex digits of an id: the leading ones are shared by all ids of a minute.
pub fn short_id(id: &str) -> &str {
    let cut = id.len().saturating_sub(8);
    id.get(cut..).unwrap_or(id)
}

/// `key=value`; the value may hold further "=" and may be empty.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value".to_owned()),
    }
}

/// A span such as `90s`, `15m`, `1h30m`, `2d`, `500ms`.
pub fn span(text: &str) -> Result<Duration, String> {
    let refuse = || format!("\"{text}\" is not a span of time such as 90s, 15m, 6h, 2d or 1h30m");
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return Err(refuse());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let number: u64 = rest[..digits].parse().map_err(|_| refuse())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let milliseconds = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(refuse()),
        };
        rest = &rest[letters..];
        let part = number.checked_mul(milliseconds).ok_or_else(refuse)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(refuse)?;
    }
    Ok(total)
}

/// A job's state by its word, in any case.
pub fn job_state(text: &str) -> Result<JobState, String> {
    JobState::from_str_name(&format!("JOB_STATE_{}", text.to_uppercase()))
        .filter(|state| *state != JobState::Unspecified)
        .ok_or_else(|| "a job is created, running, finished, failed, skipped, terminating or terminated".to_owned())
}

/// A callback's state by its word, in any case; one that failed was given up.
pub fn callback_state(text: &str) -> Result<CallbackState, String> {
    match text.to_lowercase().replace(['_', ' '], "-").as_str() {
        "pending" => Ok(CallbackState::Pending),
        "delivered" => Ok(CallbackState::Delivered),
        "failed" | "given-up" => Ok(CallbackState::GivenUp),
        _ => Err("a callback is pending, delivered or failed (given up)".to_owned()),
    }
}

/// What made a job, by its word, in any case: `sub-job`, `sub_job` and the like.
pub fn trigger_kind(text: &str) -> Result<TriggerKind, String> {
    TriggerKind::from_str_name(&format!("TRIGGER_KIND_{}", text.to_uppercase().replace('-', "_")))
        .filter(|kind| *kind != TriggerKind::Unspecified)
        .ok_or_else(|| "a job is made by manual, schedule, backfill, sub-job, after-jobs or callback".to_owned())
}

/// A task's state by its word, in any case.
pub fn task_state(text: &str) -> Result<TaskState, String> {
    TaskState::from_str_name(&format!("TASK_STATE_{}", text.to_uppercase()))
        .filter(|state| *state != TaskState::Unspecified)
        .ok_or_else(|| {
            "a task is created, queued, dispatched, running, callback, finished, failed, skipped, terminating or \
             terminated"
                .to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_reads_job_task_and_shard() {
        let read = |text: &str| text.parse::<Selector>().unwrap();
        assert_eq!(read("7be0d21c"), Selector { job: "7be0d21c".into(), task: String::new(), shard: None });
        assert_eq!(read("7be0d21c/join").task, "join");
        let shard = read("019366ab-7be0-7d21-8c00-0000deadbeef/resize#12");
        assert_eq!((shard.task.as_str(), shard.shard), ("resize", Some(12)));
        assert_eq!(shard.to_string(), "019366ab-7be0-7d21-8c00-0000deadbeef/resize#12", "it prints as it was read");
    }

    #[test]
    fn a_selector_that_names_nothing_is_refused() {
        for text in ["", "abc", "orders-etl", "7be0d21c/", "7be0d21c/join#", "7be0d21c/join#-1", "7be0d21c/#3"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
        assert!("7be0d21c".parse::<TaskSelector>().is_err());
    }

    #[test]
    fn spans_carry_their_units() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(span("2d"), Ok(Duration::from_hours(48)));
        for text in ["", "90", "s", "-5s", "1.5h", "5 m", "99999999999999999999s"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn states_are_words() {
        assert_eq!(job_state("failed"), Ok(JobState::Failed));
        assert_eq!(task_state("Queued"), Ok(TaskState::Queued));
        assert!(job_state("unspecified").is_err());
        assert!(task_state("lost").is_err());
    }

    #[test]
    fn every_trigger_has_a_word_and_a_wrong_one_is_told_all_of_them() {
        let told = trigger_kind("cron").unwrap_err();
        let kinds = (1..).map_while(|number| TriggerKind::try_from(number).ok());
        for kind in kinds {
            let word = kind.as_str_name().trim_start_matches("TRIGGER_KIND_").to_lowercase();
            assert_eq!(trigger_kind(&word), Ok(kind));
            assert!(told.contains(&word.replace('_', "-")), "{told} names {word}");
        }
        assert_eq!(trigger_kind("sub-job"), Ok(TriggerKind::SubJob));
        assert!(trigger_kind("unspecified").is_err());
    }

    #[test]
    fn pairs_keep_everything_after_the_first_equals_sign() {
        assert_eq!(pair("query=a=b"), Ok(("query".into(), "a=b".into())));
        assert_eq!(pair("empty="), Ok(("empty".into(), String::new())));
        assert!(pair("=x").is_err());
        assert!(pair("x").is_err());
    }
}
