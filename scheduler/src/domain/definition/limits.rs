//! How large a definition may be. Each bound is checked in one place, and each is named in the message that refuses.

use std::{ops::RangeInclusive, time::Duration};

/// Bytes of one job file.
pub const FILE_MAX: usize = 4 << 20;
/// Documents in one job file.
pub const DOCUMENTS_MAX: usize = 256;
/// Values in one job file, those that aliases repeat counted each time.
pub const VALUES_MAX: usize = 1_000_000;
/// How deep a job file may be nested; a definition needs 6.
pub const DEPTH_MAX: usize = 24;
/// How many problems are told; who has repaired these asks again.
pub const PROBLEMS_MAX: usize = 1_000;

/// Tasks of a job.
pub const TASKS_MAX: usize = 100_000;
/// Edges of a job's graph.
pub const EDGES_MAX: usize = 1_000_000;
/// Shards of a task.
pub const SHARDS_MAX: u32 = 100_000;
/// Shards of all tasks of a job that say how many they have.
pub const SHARDS_TOTAL_MAX: u64 = 1_000_000;
/// Attempts of a task.
pub const ATTEMPTS: RangeInclusive<u32> = 1..=100;
/// By how much a wait for a retry may grow each time.
pub const FACTORS: RangeInclusive<f64> = 1.0..=100.0;
/// Shares of a wait by which chance may change it.
pub const JITTER_RATIOS: RangeInclusive<f64> = 0.0..=1.0;
/// Exit codes of failures.
pub const EXIT_CODES: RangeInclusive<i32> = 1..=255;
/// Exit codes that a policy names.
pub const EXIT_CODES_MAX: usize = 255;
/// Priorities.
pub const PRIORITIES: RangeInclusive<i32> = -100..=100;
/// Shares of a group that must finish.
pub const PERCENTS: RangeInclusive<u32> = 1..=100;
/// Spans of time: ten years.
pub const SPAN_MAX: Duration = Duration::from_hours(10 * 365 * 24);

/// Conditions on labels of a selector, and values of one.
pub const EXPRESSIONS_MAX: usize = 32;
/// Values of one condition on a label, and runners named in a selector.
pub const VALUES_OF_ONE_MAX: usize = 64;
/// Bytes of a routing key, as it is written and as it is filled in.
pub const ROUTING_KEY_MAX: usize = 1_024;
/// Bytes of a concurrency key.
pub const CONCURRENCY_KEY_MAX: usize = 200;
/// Tasks that may hold one key, and jobs of one config that may run.
pub const AT_ONCE: RangeInclusive<u32> = 1..=100_000;

/// Schedules of a job config.
pub const SCHEDULES_MAX: usize = 100;
/// Job configs that one comes after.
pub const AFTER_JOBS_MAX: usize = 100;
/// Fires of a job config that wait.
pub const QUEUE_LIMITS: RangeInclusive<u32> = 1..=1_000;
/// Bytes of a schedule's cron expression or words.
pub const RULE_MAX: usize = 1_024;

/// Callbacks of a job config or a task.
pub const CALLBACKS_MAX: usize = 16;
/// Bytes of a webhook's url.
pub const URL_MAX: usize = 2_048;
/// Headers of a webhook.
pub const HEADERS_MAX: usize = 32;
/// Bytes of a header's name or value.
pub const HEADER_MAX: usize = 1_024;
/// Receivers of a mail.
pub const RECIPIENTS_MAX: usize = 50;
/// Bytes of a mail's subject.
pub const SUBJECT_MAX: usize = 256;

/// Characters of a name.
pub const NAME_MAX: usize = 100;
/// Bytes of the name of an environment variable.
pub const ENV_NAME_MAX: usize = 256;
/// Labels of a config or a selector.
pub const LABELS_MAX: usize = 64;
/// Bytes of a label's key or value.
pub const LABEL_MAX: usize = 256;
/// Bytes of a path.
pub const PATH_MAX: usize = 4096;
/// Bytes of a condition.
pub const WHEN_MAX: usize = 4096;

/// Parameters of a job.
pub const PARAMS_MAX: usize = 256;
/// Bytes of a parameter's value.
pub const PARAM_MAX: usize = 64 << 10;
/// Bytes of all parameters of a job: each task gets them all in its environment.
pub const PARAMS_TOTAL_MAX: usize = 512 << 10;

/// Bytes of one argument or one `NAME=value`: the kernel takes 128 KiB with the byte that ends it.
pub const ARGUMENT_MAX: usize = (128 << 10) - 1;
/// Bytes of a command, or of a script, with its environment. The kernel takes a quarter of the stack limit, mostly
/// 2 MiB, which params and what the runner adds must fit into as well.
pub const EXEC_MAX: usize = 1 << 20;

/// Refuses what the kernel would not start, once templates have become text.
pub fn check_exec<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    env: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    let mut total = 0;
    for (place, argument) in arguments.into_iter().enumerate() {
        if argument.len() > ARGUMENT_MAX {
            return Err(format!("argument {place} has {} bytes; at most {ARGUMENT_MAX}", argument.len()));
        }
        total += argument.len() + 1;
    }
    for (name, value) in env {
        let len = name.len() + 1 + value.len();
        if len > ARGUMENT_MAX {
            return Err(format!("env {name:?} has {len} bytes with its name; at most {ARGUMENT_MAX}"));
        }
        total += len + 1;
    }
    if total > EXEC_MAX {
        return Err(format!("the command and its env have {total} bytes; at most {EXEC_MAX}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_refused_with_the_limit() {
        let fits = "x".repeat(ARGUMENT_MAX - 2);
        assert_eq!(check_exec(["true"], [("A", fits.as_str())]), Ok(()));
        let large = "x".repeat(140 << 10);
        let refusal = check_exec(["true"], [("A", large.as_str())]).expect_err("too large");
        assert!(refusal.contains("131071"), "{refusal}");
        let many = vec![fits.as_str(); 9];
        assert!(check_exec(many, []).expect_err("too much").contains("1048576"));
    }
}
