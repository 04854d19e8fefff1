//! What a receiver is told of an event, as JSON. `docs/callbacks.md` describes it; fields are added, never changed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Event;
use crate::domain::time::{Timestamp, rfc3339};

/// The version of this form.
pub const VERSION: u32 = 1;
/// Bytes of params, or of an output, that are told; what is longer is left out, and said to be.
pub const PART_MAX: usize = 16 << 10;
/// Bytes of a reason that are told.
pub const REASON_MAX: usize = 4 << 10;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Occurrence<'a> {
    /// Its id, the same for every receiver.
    pub id: Uuid,
    /// What.
    pub event: Event,
    /// When.
    pub time: Timestamp,
    /// The job config that it is about.
    pub config: Config<'a>,
    /// The job; none for a fire that made no job.
    pub job: Option<Job<'a>>,
    /// The task, if it is about one.
    pub task: Option<Task<'a>>,
    /// The fires that made no job.
    pub missed: Option<Missed<'a>>,
}

/// A job config, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Config<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub version: u32,
}

/// A job, as it is told.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Job<'a> {
    pub id: Uuid,
    pub state: &'static str,
    pub reason: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub params: &'a BTreeMap<String, String>,
    pub schedule: Option<&'a str>,
    pub fire_time: Option<Timestamp>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub tasks: u32,
    pub tasks_failed: u32,
}

/// A task, as it is told.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Task<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub state: &'static str,
    pub reason: &'a str,
    pub attempt: u32,
    pub runner: Option<&'a str>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub output: &'a str,
}

/// Fires that made no job, for one reason and one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Missed<'a> {
    pub schedule: &'a str,
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: i64,
    pub reason: &'a str,
}

impl Occurrence<'_> {
    /// What a receiver is told.
    pub fn payload(&self) -> Value {
        let mut told = json!({
            "version": VERSION,
            "id": self.id.to_string(),
            "event": self.event.name(),
            "subject": self.subject(),
            "time": rfc3339(self.time),
            "job_config": {
                "namespace": self.config.namespace, "name": self.config.name, "version": self.config.version,
            },
        });
        if let Some(job) = &self.job {
            told["job"] = job.told();
        }
        if let Some(task) = &self.task {
            told["task"] = task.told();
        }
        if let Some(missed) = &self.missed {
            told["fires"] = json!({
                "schedule": missed.schedule, "first": rfc3339(missed.first), "last": rfc3339(missed.last),
                "count": missed.count, "reason": cut(missed.reason),
            });
        }
        told
    }

    /// What templates know as `event`.
    pub fn scope(&self) -> Value {
        let (state, reason) = match (&self.task, &self.job, &self.missed) {
            (Some(task), ..) => (task.state, task.reason),
            (_, Some(job), _) => (job.state, job.reason),
            (.., Some(missed)) => ("", missed.reason),
            _ => ("", ""),
        };
        let task = self.task.as_ref();
        let schedule = self.missed.map(|missed| missed.schedule).or(self.job.as_ref().and_then(|job| job.schedule));
        json!({
            "name": self.event.name(),
            "task": task.map_or("", |task| task.name),
            "state": state,
            "reason": cut(reason),
            "attempt": task.map_or(0, |task| task.attempt),
            "runner": task.and_then(|task| task.runner).unwrap_or_default(),
            "exit_code": task.and_then(|task| task.exit_code),
            "output": task.map_or(Value::Null, |task| serde_json::from_str(task.output).unwrap_or_default()),
            "time": rfc3339(self.time),
            "schedule": schedule.unwrap_or_default(),
        })
    }

    /// One line that says what happened.
    pub fn headline(&self) -> String {
        let config = self.config.name;
        let event = self.event.name();
        match (&self.task, &self.missed) {
            (Some(task), _) => format!("{config}/{} {event}", task.name),
            (None, Some(missed)) if missed.count == 1 => {
                format!("{config}: a fire of schedule {} {event}", missed.schedule)
            }
            (None, Some(missed)) => format!("{config}: {} fires of schedule {} {event}", missed.count, missed.schedule),
            (None, None) => format!("{config} {event}"),
        }
    }

    fn subject(&self) -> &'static str {
        match (&self.task, &self.job) {
            (Some(_), _) => "task",
            (None, Some(_)) => "job",
            (None, None) => "schedule",
        }
    }
}

impl Job<'_> {
    fn told(&self) -> Value {
        let mut told = json!({
            "id": self.id.to_string(), "state": self.state, "reason": cut(self.reason), "labels": self.labels,
            "create_time": rfc3339(self.created_at), "tasks": self.tasks, "tasks_failed": self.tasks_failed,
        });
        let fields = told.as_object_mut().expect("an object was made");
        times(fields, self.started_at, self.ended_at);
        if let Some(schedule) = self.schedule {
            fields.insert("schedule".to_owned(), schedule.into());
        }
        if let Some(fire_time) = self.fire_time {
            fields.insert("fire_time".to_owned(), rfc3339(fire_time).into());
        }
        let bytes: usize = self.params.iter().map(|(name, value)| name.len() + value.len()).sum();
        part(fields, "params", bytes, || json!(self.params));
        told
    }
}

impl Task<'_> {
    fn told(&self) -> Value {
        let mut told = json!({
            "id": self.id.to_string(), "name": self.name, "state": self.state, "reason": cut(self.reason),
            "attempt": self.attempt,
        });
        let fields = told.as_object_mut().expect("an object was made");
        if let Some(runner) = self.runner {
            fields.insert("runner".to_owned(), runner.into());
        }
        for (name, number) in [("exit_code", self.exit_code), ("exit_signal", self.exit_signal)] {
            if let Some(number) = number {
                fields.insert(name.to_owned(), number.into());
            }
        }
        times(fields, self.started_at, self.ended_at);
        if !self.output.is_empty() {
            part(fields, "output", self.output.len(), || serde_json::from_str(self.output).unwrap_or_default());
        }
        told
    }
}

fn times(fields: &mut Map<String, Value>, started: Option<Timestamp>, ended: Option<Timestamp>) {
    for (name, time) in [("start_time", started), ("end_time", ended)] {
        if let Some(time) = time {
            fields.insert(name.to_owned(), rfc3339(time).into());
        }
    }
}

/// A part that may be too long to tell.
fn part(fields: &mut Map<String, Value>, name: &str, bytes: usize, value: impl FnOnce() -> Value) {
    if bytes > PART_MAX {
        fields.insert(format!("{name}_omitted"), true.into());
    } else {
        fields.insert(name.to_owned(), value());
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence<'a>(params: &'a BTreeMap<String, String>, output: &'a str) -> Occurrence<'a> {
        Occurrence {
            id: Uuid::nil(),
            event: Event::Failed,
            time: Timestamp(1_764_500_000_123_456),
            config: Config { namespace: "data", name: "etl", version: 7 },
            job: Some(Job {
                id: Uuid::nil(),
                state: "RUNNING",
                reason: "",
                labels: params,
                params,
                schedule: None,
                fire_time: None,
                created_at: Timestamp(1_764_500_000_000_000),
                started_at: None,
                ended_at: None,
                tasks: 2,
                tasks_failed: 1,
            }),
            task: Some(Task {
                id: Uuid::nil(),
                name: "load",
                state: "FAILED",
                reason: "exit code 3",
                attempt: 2,
                runner: Some("etl-1"),
                exit_code: Some(3),
                exit_signal: None,
                started_at: None,
                ended_at: Some(Timestamp(1_764_500_000_123_456)),
                output,
            }),
            missed: None,
        }
    }

    #[test]
    fn a_receiver_is_told_what_happened_where_and_why() {
        let params = BTreeMap::from([("day".to_owned(), "today".to_owned())]);
        let told = occurrence(&params, r#"{"rows":3}"#).payload();
        assert_eq!(told["event"], "failed");
        assert_eq!(told["subject"], "task");
        assert_eq!(told["time"], "2025-11-30T10:53:20.123456Z");
        assert_eq!(told["job_config"], json!({"namespace": "data", "name": "etl", "version": 7}));
        assert_eq!(told["job"]["params"]["day"], "today");
        assert_eq!((&told["task"]["exit_code"], &told["task"]["reason"]), (&json!(3), &json!("exit code 3")));
        assert_eq!(told["task"]["output"]["rows"], 3);
        assert_eq!(told.get("fires"), None);
    }

    /// Tells every field that the schema does not know.
    fn unknown(told: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
        let (Value::Object(fields), Some(known)) = (told, schema["properties"].as_object()) else { return };
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            match known.get(name) {
                Some(schema) => unknown(value, schema, &path, found),
                None => found.push(path),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        found.extend(
            required.filter(|name| !fields.contains_key(*name)).map(|name| format!("{path}.{name} is missing")),
        );
    }

    #[test]
    fn the_published_schema_knows_every_field() {
        let schema: Value = serde_json::from_str(include_str!("../../../../docs/callback.schema.json")).unwrap();
        let params = BTreeMap::new();
        let mut of = occurrence(&params, "{}");
        let at = Some(Timestamp(1));
        let (job, task) = (of.job.as_mut().unwrap(), of.task.as_mut().unwrap());
        (job.schedule, job.fire_time, job.started_at, job.ended_at) = (Some("s"), at, at, at);
        (task.exit_signal, task.started_at) = (Some(9), at);
        of.missed = Some(Missed { schedule: "s", first: Timestamp(0), last: Timestamp(0), count: 1, reason: "" });
        let mut found = Vec::new();
        unknown(&of.payload(), &schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        for event in Event::ALL {
            assert!(schema["properties"]["event"]["enum"].as_array().unwrap().contains(&event.name().into()));
        }
    }

    #[test]
    fn what_is_too_long_to_tell_is_said_to_be_left_out() {
        let params = BTreeMap::from([("day".to_owned(), "x".repeat(PART_MAX))]);
        let output = format!("{:?}", "y".repeat(PART_MAX));
        let mut long = occurrence(&params, &output);
        let reason = "é".repeat(REASON_MAX);
        long.task.as_mut().unwrap().reason = &reason;
        let told = long.payload();
        assert_eq!((told["job"].get("params"), &told["job"]["params_omitted"]), (None, &json!(true)));
        assert_eq!((told["task"].get("output"), &told["task"]["output_omitted"]), (None, &json!(true)));
        assert_eq!(told["task"]["reason"].as_str().unwrap().len(), REASON_MAX);
    }

    #[test]
    fn a_headline_says_it_in_a_line() {
        let params = BTreeMap::new();
        let mut of = occurrence(&params, "");
        assert_eq!(of.headline(), "etl/load failed");
        (of.task, of.event) = (None, Event::Slow);
        assert_eq!(of.headline(), "etl slow");
        let at = Timestamp(0);
        (of.job, of.event) = (None, Event::Missed);
        of.missed = Some(Missed { schedule: "nightly", first: at, last: at, count: 3, reason: "skipped" });
        assert_eq!(of.headline(), "etl: 3 fires of schedule nightly missed");
    }
}
