//! What the end of a sub-job means for the task that stands for it.

use serde_json::{Map, Value};

use super::job::JobState;

/// How many bytes the output of a sub-job may have.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// What the end of a child means for its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It is not over.
    Wait,
    /// As result 0.
    Success,
    /// As any other result: another attempt, with a new child, may follow.
    Failure,
    /// A person ended the child, or it was never started: another attempt would go against that.
    FinalFailure,
}

/// Reads the end of a child.
pub fn meaning(state: JobState, timed_out: bool) -> Meaning {
    match state {
        JobState::Created | JobState::Running | JobState::Terminating => Meaning::Wait,
        JobState::Finished => Meaning::Success,
        JobState::Failed => Meaning::Failure,
        // It was ended before it began, because the time of its task was over.
        JobState::Terminated if timed_out => Meaning::Failure,
        JobState::Terminated | JobState::Skipped => Meaning::FinalFailure,
    }
}

/// Why a task failed whose child ended so: "job load (7be0d21c) failed: 1 task failed".
pub fn because(name: &str, short_id: &str, state: JobState, reason: &str) -> String {
    let ended = match state {
        JobState::Skipped => "was skipped",
        JobState::Terminated => "was terminated",
        _ => "failed",
    };
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("job {name} ({short_id}) {ended}{colon}{reason}")
}

/// The output of a job for the task that stands for it: what its last tasks, those that no other comes after, wrote,
/// merged in the order of the definition, so that the later of two writers of a key counts. What is no map of keys
/// stands under the name of its task. Empty when nothing was written; `Err` is a remark when it is too large.
pub fn output<'o>(last: impl IntoIterator<Item = (&'o str, &'o str)>) -> Result<String, String> {
    let mut merged = Map::new();
    for (task, output) in last {
        match serde_json::from_str(output) {
            Ok(Value::Object(keys)) => merged.extend(keys),
            Ok(Value::Null) | Err(_) => {}
            Ok(other) => drop(merged.insert(task.to_owned(), other)),
        }
    }
    if merged.is_empty() {
        return Ok(String::new());
    }
    let text = Value::Object(merged).to_string();
    if text.len() > OUTPUT_BYTES_MAX {
        return Err(format!("the output of its job is over {OUTPUT_BYTES_MAX} bytes and was dropped"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_child_is_the_result_of_its_task() {
        let table = [
            (JobState::Created, false, Meaning::Wait),
            (JobState::Running, false, Meaning::Wait),
            (JobState::Terminating, true, Meaning::Wait),
            (JobState::Finished, false, Meaning::Success),
            (JobState::Failed, false, Meaning::Failure),
            (JobState::Failed, true, Meaning::Failure),
            (JobState::Terminated, true, Meaning::Failure),
            (JobState::Terminated, false, Meaning::FinalFailure),
            (JobState::Skipped, false, Meaning::FinalFailure),
        ];
        for (state, timed_out, expected) in table {
            assert_eq!(meaning(state, timed_out), expected, "{state:?}, timed out: {timed_out}");
        }
    }

    #[test]
    fn the_output_of_a_job_is_that_of_its_last_tasks() {
        assert_eq!(output([]).unwrap(), "");
        assert_eq!(output([("a", ""), ("b", "null")]).unwrap(), "");
        assert_eq!(output([("a", r#"{"rows":"3"}"#)]).unwrap(), r#"{"rows":"3"}"#);
        let merged = output([("a", r#"{"rows":"3","at":"x"}"#), ("b", r#"{"rows":"4"}"#), ("c", "[1,null]")]).unwrap();
        assert_eq!(merged, r#"{"rows":"4","at":"x","c":[1,null]}"#);
        let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(OUTPUT_BYTES_MAX));
        assert!(output([("a", large.as_str())]).unwrap_err().contains("was dropped"));
    }

    #[test]
    fn a_failure_names_the_child_and_its_reason() {
        assert_eq!(
            because("load", "7be0d21c", JobState::Failed, "1 task failed"),
            "job load (7be0d21c) failed: 1 task failed"
        );
        assert_eq!(because("load", "7be0d21c", JobState::Terminated, ""), "job load (7be0d21c) was terminated");
    }
}
