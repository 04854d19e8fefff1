//! One watch by a person: a picture that is drawn anew on a terminal, lines elsewhere, and what Ctrl-C means.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use baton::v1::{JobState, TerminateRequest, WatchJobResponse};
use chrono::Utc;

use super::{exit_of, last_words::last_words};
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    follow::{Event, Family, JobWatch},
    selector::short_id,
    view::{
        change,
        children::{self, Children},
        ending,
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

/// A watch until its job has ended, or until it is left.
pub struct Session<'a> {
    context: &'a Context,
    /// As it was asked for, until the watch tells all of it.
    job_id: String,
    watch: JobWatch,
    picture: Picture,
    /// The jobs that its tasks stand for are shown below these.
    family: Family,
    children: Children,
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

impl<'a> Session<'a> {
    /// Nothing is shown yet.
    pub fn new(context: &'a Context, job_id: &str, watch: JobWatch, family: Family) -> Self {
        Self {
            context,
            job_id: job_id.to_owned(),
            watch,
            picture: Picture::default(),
            family,
            children: Children::default(),
            screen: None,
            trouble: None,
            dirty: true,
            drawn: None,
        }
    }

    /// Shows the job until it has ended, then how it ended.
    pub async fn run(mut self) -> Result<Exit, Error> {
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
                (id, message) = self.family.next() => self.take_child(id, *message)?,
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
                self.follow(&message);
                let first = self.picture.job.id.is_empty();
                let changes = self.picture.take(*message);
                if !self.picture.job.id.is_empty() {
                    self.job_id.clone_from(&self.picture.job.id);
                }
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

    /// Begins to watch the jobs that tasks of a message stand for.
    fn follow(&mut self, message: &WatchJobResponse) {
        for child in children::running(message) {
            self.family.follow(&child);
        }
    }

    fn take_child(&mut self, id: String, message: WatchJobResponse) -> Result<(), Error> {
        self.dirty = true;
        self.follow(&message);
        let (name, changes) = self.children.take(id, message);
        if self.screen.is_some() {
            return Ok(());
        }
        let (mode, now) = (self.context.output.time, Utc::now());
        let lines: Vec<_> = changes.iter().map(|change| change::line_of(Some(&name), change, mode, now)).collect();
        self.context.output.lines(&lines)
    }

    fn redraw(&mut self) -> Result<(), Error> {
        let old = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_IDLE);
        if self.picture.job.id.is_empty() || !(self.dirty || old) {
            return Ok(());
        }
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let size = Screen::size();
        let lines = tree::draw(&self.picture, &self.children, size, Utc::now(), self.trouble.as_deref());
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
        let job_id = self.job_id.clone();
        let short = short_id(&job_id).to_owned();
        if let Some(screen) = &mut self.screen {
            screen.keep();
        }
        let ask = self.screen.is_some() && io::stdin().is_terminal();
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
