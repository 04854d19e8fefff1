//! `baton watch`: a job as it goes, until it ends.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use baton::v1::{Job, JobState, ListTasksRequest, LogSelector, ReadRequest, TaskKind, TaskState, TerminateRequest};
use chrono::Utc;

use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    follow::{Event, JobWatch},
    output::text::Line,
    selector::{Selector, short_id},
    view::{
        change,
        ending::{self, Failure},
        picture::Picture,
        screen::Screen,
        tree,
    },
};

/// How often the picture may be drawn anew when things change.
const REDRAW: Duration = Duration::from_millis(100);
/// How often it is drawn anew when nothing changes but the time.
const REDRAW_IDLE: Duration = Duration::from_secs(1);
/// A second Ctrl-C within this time offers to terminate the job.
const SECOND_CTRL_C: Duration = Duration::from_secs(2);
/// How many failed tasks are shown with their last words.
const FAILURES_MAX: usize = 5;
/// How many lines of a failed task's log are shown.
const TAIL_LINES: u32 = 10;
/// How much of a failed task's log is asked for.
const TAIL_BYTES: u32 = 64 * 1024;

/// What `watch` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton watch 7be0d21c
  baton watch 7be0d21c -o json        every change as proto JSON
  baton watch 7be0d21c | cat          one line a change

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
    let watch = JobWatch::start(context.client().await?.clone(), job_id);
    if context.output.is_data() {
        return print_messages(context, watch).await;
    }
    Session { context, watch, picture: Picture::default(), screen: None, trouble: None, dirty: true, drawn: None }
        .run()
        .await
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

/// One watch by a person: a picture that is drawn anew on a terminal, lines elsewhere.
struct Session<'a> {
    context: &'a Context,
    watch: JobWatch,
    picture: Picture,
    screen: Option<Screen>,
    trouble: Option<String>,
    dirty: bool,
    drawn: Option<Instant>,
}

/// What Ctrl-C led to.
enum Interrupt {
    GoOn,
    Leave,
}

impl Session<'_> {
    async fn run(mut self) -> Result<Exit, Error> {
        if self.context.output.terminal {
            self.screen = Some(Screen::new(self.context.output.color));
        }
        let mut tick = tokio::time::interval(REDRAW);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.watch.next() => match event {
                    Some(event) => self.take(event?)?,
                    None => break,
                },
                _ = tick.tick(), if self.screen.is_some() => self.redraw()?,
                pressed = tokio::signal::ctrl_c() => {
                    pressed?;
                    if let Interrupt::Leave = self.interrupted().await? {
                        return Ok(Exit::Interrupted);
                    }
                }
            }
        }
        self.finish().await
    }

    fn take(&mut self, event: Event) -> Result<(), Error> {
        self.dirty = true;
        let now = Utc::now();
        match event {
            Event::Changed(message) => {
                let first = self.picture.job.id.is_empty();
                let changes = self.picture.take(*message);
                if self.screen.is_some() {
                    return Ok(());
                }
                let mut lines = Vec::new();
                if first {
                    lines.push(tree::heading(&self.picture.job));
                }
                lines.extend(changes.iter().map(|change| change::line(change, self.context.output.time, now)));
                self.context.output.lines(&lines)
            }
            Event::Lost(cause) => {
                if self.screen.is_none() {
                    self.context.output.note(&format!("connection lost ({cause}); dialling again"));
                }
                self.trouble = Some(cause);
                Ok(())
            }
            Event::Back => {
                if self.screen.is_none() {
                    self.context.output.note("connected again");
                }
                self.trouble = None;
                Ok(())
            }
        }
    }

    fn redraw(&mut self) -> Result<(), Error> {
        let old = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_IDLE);
        if self.picture.job.id.is_empty() || !(self.dirty || old) {
            return Ok(());
        }
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let size = Screen::size();
        let lines = tree::draw(&self.picture, size, Utc::now(), self.trouble.as_deref());
        screen.draw(&lines, size.width)?;
        self.dirty = false;
        self.drawn = Some(Instant::now());
        Ok(())
    }

    /// The last picture, how the job ended, and what the failed tasks had to say.
    async fn finish(&mut self) -> Result<Exit, Error> {
        self.dirty = true;
        self.redraw()?;
        self.screen = None;
        let job = &self.picture.job;
        let output = self.context.output;
        output.lines(&[ending::summary(job, Utc::now())])?;
        if job.state() == JobState::Failed {
            match last_words(self.context, &job.id).await {
                Ok((failures, more)) => output.lines(&ending::failures(job, &failures, more))?,
                // How the job ended is known and said; that more could not be learnt does not change it.
                Err(error) => output.note(&format!("cannot read what failed: {error}")),
            }
        }
        Ok(exit_of(job.state()))
    }

    /// Leaves the job alone, unless a second Ctrl-C and a person's word say otherwise.
    async fn interrupted(&mut self) -> Result<Interrupt, Error> {
        let job_id = self.picture.job.id.clone();
        let short = short_id(&job_id).to_owned();
        if let Some(screen) = &mut self.screen {
            screen.keep();
        }
        let ask = self.screen.is_some() && io::stdin().is_terminal() && !job_id.is_empty();
        let hint = if ask { "\nCtrl-C again terminates it" } else { "" };
        let mut err = io::stderr();
        let _ = writeln!(err, "\ndetached: the job goes on, see it with `baton watch {short}`{hint}");
        if !ask || tokio::time::timeout(SECOND_CTRL_C, tokio::signal::ctrl_c()).await.is_err() {
            return Ok(Interrupt::Leave);
        }
        let _ = write!(err, "\nterminate job {short}, with all its processes? [y/N] ");
        let answer = tokio::select! {
            answer = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                io::stdin().lock().read_line(&mut line).map(|_| line)
            }) => answer.map_err(Error::local)??,
            _ = tokio::signal::ctrl_c() => String::new(),
        };
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            let _ = writeln!(err, "the job goes on");
            return Ok(Interrupt::Leave);
        }
        let request = TerminateRequest {
            job_id,
            reason: "terminated from the terminal that watched it".to_owned(),
            request_id: request_id(None),
            ..TerminateRequest::default()
        };
        self.context.client().await?.terminate(request).await?;
        self.dirty = true;
        Ok(Interrupt::GoOn)
    }
}

/// The first failed tasks of a job with the ends of their logs, and whether there are more.
async fn last_words(context: &Context, job_id: &str) -> Result<(Vec<Failure>, bool), Error> {
    let client = context.client().await?;
    let request = ListTasksRequest {
        job_id: job_id.to_owned(),
        states: vec![TaskState::Failed.into(), TaskState::Terminated.into()],
        // A failed group stands before its failed shards and says nothing that they do not.
        page_size: 2 * FAILURES_MAX as u32 + 1,
        ..ListTasksRequest::default()
    };
    let page = client.list_tasks(request).await?;
    let is_told_by_shards = |id: &str| page.tasks.iter().any(|task| task.group_id == id);
    let failed: Vec<_> = page
        .tasks
        .iter()
        .filter(|task| task.kind() != TaskKind::Group || !is_told_by_shards(&task.id))
        .cloned()
        .collect();
    let more = failed.len() > FAILURES_MAX || !page.next_page_token.is_empty();
    let mut failures = Vec::new();
    for task in failed.into_iter().take(FAILURES_MAX) {
        let log = if task.attempt == 0 || task.kind() == TaskKind::Group {
            Vec::new()
        } else {
            let selector = LogSelector {
                job_id: job_id.to_owned(),
                name: task.name.clone(),
                shard_index: task.shard_index,
                ..LogSelector::default()
            };
            let request = ReadRequest {
                selector: Some(selector),
                tail_lines: TAIL_LINES,
                max_bytes: TAIL_BYTES,
                ..ReadRequest::default()
            };
            let response = client.read(request).await?;
            let bytes: Vec<u8> = response.chunks.iter().flat_map(|chunk| chunk.data.iter().copied()).collect();
            tail(&bytes)
        };
        failures.push(Failure { task, log });
    }
    Ok((failures, more))
}

/// The last lines of what a task wrote, without what would steer the terminal.
fn tail(bytes: &[u8]) -> Vec<String> {
    let plain = crate::output::escape::Filter::new(false).text(bytes);
    let lines: Vec<_> = plain.lines().map(|line| Line::from(line).render(false)).collect();
    let skip = lines.len().saturating_sub(TAIL_LINES as usize);
    lines.into_iter().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_last_lines_and_only_text() {
        let log: Vec<_> = (0..30).map(|n| format!("\x1b[31mline {n}\x1b[0m\x07\n")).collect();
        let tail = tail(log.concat().as_bytes());
        assert_eq!(tail.len(), 10);
        assert_eq!((tail[0].as_str(), tail[9].as_str()), ("line 20", "line 29"));
    }

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
