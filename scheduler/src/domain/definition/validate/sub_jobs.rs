//! Tasks that stand for another job, and jobs that come after others. Whether those others exist, and whether they lead
//! back to this one, is asked when the definition is applied.

use std::collections::BTreeSet;

use super::{
    super::{
        JobConfig, OnFailure, Shards, Split, Target, TaskConfig,
        limits::AFTER_JOBS_MAX,
        placement::Placement,
        problem::{Part, Path, Problem},
    },
    names,
};

/// Checks a `job` task: a name, and nothing that only means something on a runner.
pub(super) fn task(config: &JobConfig, task: &TaskConfig, path: &Path, problems: &mut Vec<Problem>) {
    let Target::Job(job) = &task.target else { return };
    let name = path.key("job").key("name");
    names::check("the job of the task", &job.name, &name, problems);
    if !job.name.is_empty() && job.name == config.name {
        problems.push(itself(name));
    }
    let mut foreign = |key: &'static str, set: bool, instead: &str| {
        if set {
            let message =
                format!("task {:?} stands for a job and runs on no runner: {key} means nothing here", task.name);
            problems.push(Problem::new(path.key(key), message).about(Part::Key).suggest(instead.to_owned()));
        }
    };
    foreign("env", !task.env.is_empty(), "hand values to the job: job: {params: {…}}");
    foreign("working_dir", !task.working_dir.is_empty(), "set it on the tasks of the job");
    let placed = !task.match_labels.is_empty() || task.placement != Placement::default();
    foreign("runner", placed, "set it on the tasks of the job");
    foreign("priority", task.priority.is_some(), "set it on the tasks of the job");
    foreign("concurrency", task.concurrency.is_some(), "set it on the tasks of the job");
    foreign("queue_timeout", task.queue_timeout.is_some(), "it waits in no queue: set timeout");
    foreign("when_cut_off", task.when_cut_off.is_some(), "set it on the tasks of the job");
    foreign("warn_after", task.warn_after.is_some(), "set it in the definition of the job");
    let transfers = task.on_failure.is_some_and(OnFailure::transfers);
    foreign("on_failure", transfers, "write on_failure: fail, with retry for another child job");
    if matches!(&task.shards, Some(Shards { split: Split::OnePerRunner, .. })) {
        let message = format!("task {:?} stands for a job and runs on no runner", task.name);
        let problem = Problem::new(path.key("shards").key("one_per_runner"), message);
        problems.push(problem.suggest("use shards.count or shards.items".to_owned()));
    }
}

/// Checks `after_jobs`.
pub(super) fn after(config: &JobConfig, problems: &mut Vec<Problem>) {
    let path = Path::default().key("after_jobs");
    if config.after_jobs.len() > AFTER_JOBS_MAX {
        let message = format!("{} job configs to come after; at most {AFTER_JOBS_MAX}", config.after_jobs.len());
        problems.push(Problem::new(path, message));
        return;
    }
    let mut seen = BTreeSet::new();
    for (place, name) in config.after_jobs.iter().enumerate() {
        let here = path.index(place);
        names::check("the job to come after", name, &here, problems);
        if !name.is_empty() && *name == config.name {
            problems.push(itself(here));
        } else if !seen.insert(name) {
            problems.push(Problem::new(here, format!("{name:?} stands here twice")));
        }
    }
}

fn itself(path: Path) -> Problem {
    Problem::new(path, "a job that leads to itself would run without end").suggest("name another job config".to_owned())
}
