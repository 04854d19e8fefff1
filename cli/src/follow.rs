//! Watching a job through every broken connection: what was seen is not asked for again, what was missed is.

use std::{collections::HashMap, time::Duration};

use baton::v1::{JobState, WatchJobRequest, WatchJobResponse};
use tokio::{sync::mpsc, task::JoinHandle};
use tracing::debug;

use crate::{
    backoff::Backoff,
    client::Client,
    errors::{Error, is_broken_connection, root_cause},
};

/// How many changes may wait to be shown.
const EVENTS_MAX: usize = 64;

/// What a watch has to say.
#[derive(Debug)]
pub enum Event {
    /// The job or some of its tasks changed.
    Changed(Box<WatchJobResponse>),
    /// The connection broke, for this cause; it is dialled again until it is back.
    Lost(String),
    /// The connection is back.
    Back,
}

/// A watch of one job, from all there is to its end.
#[derive(Debug)]
pub struct JobWatch {
    events: mpsc::Receiver<Result<Event, Error>>,
    task: JoinHandle<()>,
}

impl JobWatch {
    /// Starts to watch. Shards stay folded into the counts of their groups.
    pub fn start(client: Client, job_id: &str) -> Self {
        let request = WatchJobRequest { job_id: job_id.to_owned(), after_seq: 0, until_done: true, fold_shards: true };
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let task = tokio::spawn(async move {
            let error = watch(&client, request, &sender).await.err();
            if let Some(error) = error {
                // Nobody is left to tell when the watch itself was dropped.
                let _ = sender.send(Err(error)).await;
            }
        });
        Self { events, task }
    }

    /// The next event; `None` once the job has ended and everything about it was said. May be dropped and called
    /// again without a loss.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        self.events.recv().await
    }
}

impl Drop for JobWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How many jobs are watched at once beside the one that was asked for; what is beyond is told of by its task alone.
const FAMILY_MAX: usize = 100;

/// Watches of the jobs that tasks stand for, each until its end.
#[derive(Debug)]
pub struct Family {
    client: Client,
    sender: mpsc::Sender<(String, Box<WatchJobResponse>)>,
    changes: mpsc::Receiver<(String, Box<WatchJobResponse>)>,
    watches: HashMap<String, JoinHandle<()>>,
}

impl Family {
    /// Nobody is watched yet.
    pub fn new(client: Client) -> Self {
        let (sender, changes) = mpsc::channel(EVENTS_MAX);
        Self { client, sender, changes, watches: HashMap::new() }
    }

    /// Begins to watch a job, unless it is watched already.
    pub fn follow(&mut self, job_id: &str) {
        // One that has ended is not watched again, and takes no place.
        let watched = self.watches.values().filter(|watch| !watch.is_finished()).count();
        if self.watches.contains_key(job_id) || watched >= FAMILY_MAX {
            return;
        }
        let (client, id, sender) = (self.client.clone(), job_id.to_owned(), self.sender.clone());
        let watching = async move {
            let mut watch = JobWatch::start(client, &id);
            while let Some(event) = watch.next().await {
                match event {
                    Ok(Event::Changed(message)) => {
                        if sender.send((id.clone(), message)).await.is_err() {
                            return;
                        }
                    }
                    // The watch of the job that was asked for tells of the connection.
                    Ok(Event::Lost(_) | Event::Back) => {}
                    Err(error) => {
                        debug!(job.id = id, %error, "a job that a task stands for cannot be watched");
                        return;
                    }
                }
            }
        };
        self.watches.insert(job_id.to_owned(), tokio::spawn(watching));
    }

    /// What is told next of one of them; waits for ever while nobody is watched. May be dropped and called again.
    pub async fn next(&mut self) -> (String, Box<WatchJobResponse>) {
        match self.changes.recv().await {
            Some(change) => change,
            // A sender is kept here, so that the channel never ends.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for watch in self.watches.values() {
            watch.abort();
        }
    }
}

/// Watches until the job has ended; an error is one that dialling again does not mend.
async fn watch(
    client: &Client,
    mut request: WatchJobRequest,
    events: &mpsc::Sender<Result<Event, Error>>,
) -> Result<(), Error> {
    let mut backoff = Backoff::default();
    let mut lost = false;
    let mut ended = false;
    loop {
        let broken = match client.watch_job(request.clone()).await {
            Err(status) if is_broken_connection(&status) => Some(status),
            Err(status) => return Err(status.into()),
            Ok(mut stream) => loop {
                match stream.message().await {
                    Ok(Some(change)) => {
                        if std::mem::take(&mut lost) && events.send(Ok(Event::Back)).await.is_err() {
                            return Ok(());
                        }
                        backoff.reset();
                        // The full id survives what a short one may not: a second job with the same ending.
                        if let Some(job) = &change.job {
                            request.job_id.clone_from(&job.id);
                            ended = is_terminal(job.state());
                        }
                        if change.seq > 0 {
                            request.after_seq = change.seq;
                        }
                        if events.send(Ok(Event::Changed(Box::new(change)))).await.is_err() {
                            return Ok(());
                        }
                    }
                    Ok(None) if ended => return Ok(()),
                    // A scheduler that stops ends its streams in order, long before the job does.
                    Ok(None) => break None,
                    Err(status) if is_broken_connection(&status) => break Some(status),
                    Err(status) => return Err(status.into()),
                }
            },
        };
        if !std::mem::replace(&mut lost, true) && events.send(Ok(Event::Lost(cause(broken)))).await.is_err() {
            return Ok(());
        }
        let wait = backoff.next();
        debug!(job.id = request.job_id, after_seq = request.after_seq, ?wait, "watching again");
        pause(wait).await;
    }
}

async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Why a stream ended, in words.
pub fn cause(status: Option<tonic::Status>) -> String {
    match status {
        None => "the scheduler closed the stream".to_owned(),
        Some(status) => std::error::Error::source(&status).map_or_else(|| status.message().to_owned(), root_cause),
    }
}

/// Whether a job has ended.
pub fn is_terminal(state: JobState) -> bool {
    matches!(state, JobState::Finished | JobState::Failed | JobState::Skipped | JobState::Terminated)
}
