//! Tasks.

use baton::v1::{GetTaskRequest, ListTasksRequest, ListTasksResponse, Task, TaskKind, TaskState};
use chrono::Utc;

use super::{Paging, id, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{glyphs, table::Table, time},
    selector::{Selector, short_id, task_state},
    view::{bar, tree},
};

/// What `get tasks` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get tasks 7be0d21c                     the tasks of a job, shards folded into their groups
  baton get tasks 7be0d21c --shards            with every shard
  baton get tasks 7be0d21c/resize              a group and its shards
  baton get task 7be0d21c/resize#3 -o json     one shard with its earlier attempts
  baton get tasks --state running              of all jobs")]
pub struct Args {
    /// Those of a job, a task with its shards, or one shard: JOB[/TASK[#SHARD]].
    #[arg(value_name = "JOB[/TASK[#SHARD]]")]
    target: Option<Selector>,
    /// Only those in this state; may be repeated.
    #[arg(long, value_name = "STATE", value_parser = task_state, value_delimiter = ',')]
    state: Vec<TaskState>,
    /// List every shard instead of their groups alone.
    #[arg(long)]
    shards: bool,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    match &args.target {
        Some(target) if target.shard.is_some() => one(context, target).await,
        Some(target) if !target.task.is_empty() && args.state.is_empty() && !args.shards => {
            let found = get(context, target).await?;
            if found.task.as_ref().is_some_and(|task| task.kind() == TaskKind::Group) {
                return list(context, &args).await;
            }
            print_one(context, found)
        }
        _ => list(context, &args).await,
    }
}

async fn get(context: &Context, target: &Selector) -> Result<baton::v1::GetTaskResponse, Error> {
    let request = GetTaskRequest { job_id: target.job.clone(), name: target.task.clone(), shard_index: target.shard };
    context.client().await?.get_task(request).await
}

async fn one(context: &Context, target: &Selector) -> Result<(), Error> {
    print_one(context, get(context, target).await?)
}

fn print_one(context: &Context, response: baton::v1::GetTaskResponse) -> Result<(), Error> {
    if context.output.is_data() {
        return context.output.data(&response);
    }
    let task = response.task.unwrap_or_default();
    table(context, &[task], false).print(context.output)
}

async fn list(context: &Context, args: &Args) -> Result<(), Error> {
    let client = context.client().await?;
    let (job_id, name) = match &args.target {
        Some(target) => (target.job.clone(), target.task.clone()),
        None => (String::new(), String::new()),
    };
    let fold_shards = !args.shards && name.is_empty();
    let all: ListTasksResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListTasksRequest {
                job_id: job_id.clone(),
                states: args.state.iter().map(|state| (*state).into()).collect(),
                name: name.clone(),
                fold_shards,
                page_size,
                page_token,
                namespace: context.namespace.clone(),
            };
            client.list_tasks(request).await
        })
        .await?;
    if context.output.is_data() {
        return context.output.data(&all);
    }
    table(context, &all.tasks, job_id.is_empty()).print(context.output)?;
    if all.tasks.is_empty() {
        context.output.note("no such tasks");
    }
    note_next_page(context.output, &all.next_page_token);
    Ok(())
}

/// One line a task, with its job where they may be of several.
pub fn table(context: &Context, tasks: &[Task], with_job: bool) -> Table {
    let (output, now) = (context.output, Utc::now());
    let mut headers = vec!["TASK", "STATE", "ATTEMPT", "RUNNER", "STARTED", "TOOK", "REASON"];
    if with_job {
        headers.insert(0, "JOB");
    }
    if output.is_wide() {
        headers.extend(["ID", "LEASE", "SLOT", "EXIT", "SHARDS"]);
    }
    let mut table = Table::new(&headers);
    for task in tasks {
        let attempt = if task.kind() == TaskKind::Group {
            "-".to_owned()
        } else if task.max_attempts > 1 {
            format!("{}/{}", task.attempt, task.max_attempts)
        } else {
            task.attempt.to_string()
        };
        let reason = if task.reason.is_empty() && task.kind() == TaskKind::Group {
            bar::line(task).render(false).into()
        } else {
            or_dash(&task.reason)
        };
        let mut cells = vec![
            tree::label(task).into(),
            glyphs::task(task.state()).span(),
            attempt.into(),
            or_dash(&task.runner_id),
            output.instant(task.start_time, now).into(),
            time::elapsed(task.start_time, task.end_time, now).into(),
            reason,
        ];
        if with_job {
            cells.insert(0, id(output, &task.job_id));
        }
        if output.is_wide() {
            cells.extend([
                task.id.as_str().into(),
                task.lease.to_string().into(),
                task.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string()).into(),
                exit(task).into(),
                bar::line(task).render(false).into(),
            ]);
        }
        // A name by which every other command finds it again.
        table.row(format!("{}/{}", short_id(&task.job_id), tree::label(task)), cells);
    }
    table
}

/// "0", "signal 9", or "-".
pub fn exit(task: &Task) -> String {
    match (task.exit_code, task.exit_signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => "-".to_owned(),
    }
}
