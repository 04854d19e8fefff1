//! An event as a letter that a person reads.

use std::fmt::Write as _;

use serde_json::Value;

/// The body of a letter about what is told as JSON.
pub fn body(payload: &str) -> String {
    let told: Value = serde_json::from_str(payload).unwrap_or_default();
    let text = |path: &[&str]| {
        let value = path.iter().fold(&told, |value, key| &value[*key]);
        match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    };
    let (namespace, config) = (text(&["job_config", "namespace"]), text(&["job_config", "name"]));
    let version = text(&["job_config", "version"]);
    let (job, task) = (text(&["job", "id"]), text(&["task", "name"]));
    let about = if task.is_empty() { "job" } else { "task" };
    let mut lines =
        vec![("event", text(&["event"])), ("job config", format!("{namespace}/{config}, version {version}"))];
    if job.is_empty() {
        lines.push(("schedule", text(&["fires", "schedule"])));
        lines.push((
            "fires",
            format!(
                "{}, from {} to {}",
                text(&["fires", "count"]),
                text(&["fires", "first"]),
                text(&["fires", "last"])
            ),
        ));
        lines.push(("reason", text(&["fires", "reason"])));
    } else {
        lines.push(("job", job.clone()));
        lines.push(("task", task.clone()));
        lines.push(("state", text(&[about, "state"])));
        lines.push(("reason", text(&[about, "reason"])));
        lines.push(("attempt", text(&["task", "attempt"])));
        lines.push(("runner", text(&["task", "runner"])));
        lines.push(("exit code", text(&["task", "exit_code"])));
        lines.push(("started", text(&[about, "start_time"])));
        lines.push(("ended", text(&[about, "end_time"])));
    }
    lines.push(("time", text(&["time"])));
    let mut body = String::new();
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let _never_fails = writeln!(body, "{name:<11} {}", value.replace('\n', "\n            "));
    }
    if !job.is_empty() {
        let short = &job[job.len().saturating_sub(8)..];
        let place = if task.is_empty() { short.to_owned() } else { format!("{short}/{task}") };
        let how = if task.is_empty() { "describe job" } else { "explain" };
        let _never_fails = writeln!(body, "\nbaton {how} {place}\nbaton logs {place}");
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_says_what_happened_and_how_to_look_further() {
        let payload = serde_json::json!({
            "event": "failed", "time": "T",
            "job_config": {"namespace": "data", "name": "etl", "version": 7},
            "job": {"id": "0191f0c2-0000-7000-8000-0000deadbeef", "state": "RUNNING"},
            "task": {"name": "load", "state": "FAILED", "reason": "exit code 3", "attempt": 2, "exit_code": 3},
        });
        let body = body(&payload.to_string());
        let expected = "event       failed\n\
                        job config  data/etl, version 7\n\
                        job         0191f0c2-0000-7000-8000-0000deadbeef\n\
                        task        load\n\
                        state       FAILED\n\
                        reason      exit code 3\n\
                        attempt     2\n\
                        exit code   3\n\
                        time        T\n\
                        \n\
                        baton explain deadbeef/load\n\
                        baton logs deadbeef/load\n";
        assert_eq!(body, expected);
    }

    #[test]
    fn a_letter_about_fires_names_the_schedule() {
        let payload = serde_json::json!({
            "event": "missed", "time": "T", "job_config": {"namespace": "d", "name": "e", "version": 1},
            "fires": {"schedule": "nightly", "count": 2, "first": "A", "last": "B", "reason": "skipped"},
        });
        let body = body(&payload.to_string());
        assert!(body.contains("schedule    nightly\nfires       2, from A to B\nreason      skipped\n"), "{body}");
    }
}
