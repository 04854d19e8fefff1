//! `baton watch`: a job as it goes, until it ends.

mod last_words;
mod session;

use baton::v1::{Job, JobState};
use chrono::Utc;

use crate::{
    context::Context,
    errors::{Error, Exit},
    follow::{Event, Family, JobWatch},
    selector::Selector,
    view::ending,
};
use session::Session;

/// What `watch` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton watch 7be0d21c
  baton watch 7be0d21c -o json        every change as proto JSON
  baton watch 7be0d21c | cat          one line a change

Below a task that stands for another job the tasks of that job are shown while it runs.

Ctrl-C stops watching and leaves the job alone; pressed twice it offers to terminate the job.
The exit code tells how the job ended: 0 finished · 7 failed · 8 terminated · 9 skipped")]
pub struct Args {
    /// The job, by its id or a unique end or beginning of it.
    #[arg(value_name = "JOB")]
    job: Selector,
}

/// Watches until the job has ended.
pub async fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    if !args.job.task.is_empty() {
        return Err(Error::Usage(format!("a job is watched as a whole: baton watch {}", args.job.job)));
    }
    show(context, &args.job.job).await
}

/// Shows a job until it has ended, in the form that was asked for.
pub async fn show(context: &Context, job_id: &str) -> Result<Exit, Error> {
    let client = context.client().await?.clone();
    let watch = JobWatch::start(client.clone(), job_id);
    if context.output.is_data() {
        return print_messages(context, watch).await;
    }
    Session::new(context, job_id, watch, Family::new(client)).run().await
}

/// Waits without a word until a job has ended.
pub async fn wait(context: &Context, job_id: &str) -> Result<Exit, Error> {
    let mut watch = JobWatch::start(context.client().await?.clone(), job_id);
    let mut job = Job::default();
    while let Some(event) = watch.next().await {
        if let Event::Changed(message) = event?
            && let Some(changed) = message.job
        {
            job = changed;
        }
    }
    if job.state() != JobState::Finished {
        context.output.note(&ending::summary(&job, Utc::now()).render(context.output.error_color));
    }
    Ok(exit_of(job.state()))
}

async fn print_messages(context: &Context, mut watch: JobWatch) -> Result<Exit, Error> {
    let mut state = JobState::Unspecified;
    while let Some(event) = watch.next().await {
        match event? {
            Event::Changed(message) => {
                if let Some(job) = &message.job {
                    state = job.state();
                }
                context.output.data(message.as_ref())?;
            }
            Event::Lost(cause) => context.output.note(&format!("connection lost ({cause}); dialling again")),
            Event::Back => {}
        }
    }
    Ok(exit_of(state))
}

/// How a job's end is told to the shell.
pub fn exit_of(state: JobState) -> Exit {
    match state {
        JobState::Finished => Exit::Ok,
        JobState::Failed => Exit::JobFailed,
        JobState::Terminated => Exit::JobTerminated,
        JobState::Skipped => Exit::JobSkipped,
        _ => Exit::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_learns_how_a_job_ended() {
        for (state, code) in [
            (JobState::Finished, 0),
            (JobState::Failed, 7),
            (JobState::Terminated, 8),
            (JobState::Skipped, 9),
            (JobState::Running, 1),
        ] {
            assert_eq!(exit_of(state) as u8, code);
        }
    }
}
