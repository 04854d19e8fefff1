//! Runs an `http` task: asks its urls in order until one of them answers for good, then waits for its callback if it has one.
//!
//! ```text
//! http ──▶ call ──▶ network     one url after the other; one request with its redirects; the connections
//!            ├───▶ redirect     whether to follow, purely
//!            └───▶ answer       what becomes output, purely
//! failover                      whether the next url is asked, purely
//! address                       who may be asked at all, purely
//! ```
//!
//! There is no process: what ends a task drops its request, which closes the connection. What the called service makes of that
//! is its own affair, and the reason why nothing is asked twice that may have been done.

mod address;
mod answer;
mod call;
mod failover;
mod network;
mod redirect;
mod threads;
mod transcript;

use std::{io, sync::Arc, time::SystemTime};

use tokio::{fs::File, runtime::Handle, sync::mpsc};
use tracing::warn;
use uuid::Uuid;

pub use self::address::Network;
use self::{
    address::Allowed, answer::Answer, call::Call, failover::Failure, network::Connections, threads::Threads,
    transcript::Transcript,
};
use crate::{
    clock, logs,
    machine::Input,
    process::StopAt,
    state::State,
    task::{End, Exit, HttpRequest, RunSpec, Target, TaskRef},
};

/// What is reported as the exit code of a request that was broken off by us, as proxies log it.
const BROKEN_OFF: i32 = 499;

/// What all requests of a runner share.
pub(crate) struct Requests {
    state: Arc<State>,
    logs: logs::Handle,
    connections: Connections,
    threads: Threads,
}

impl Requests {
    /// On threads of their own (`apart`), or on those of the runtime around the runner.
    pub(crate) fn new(state: Arc<State>, logs: logs::Handle, allowed: Vec<Network>, apart: bool) -> Self {
        let threads = if apart { Threads::apart() } else { Threads::around() };
        Self { state, logs, connections: Connections::new(Allowed(allowed)), threads }
    }

    /// The runtime on which requests are to run.
    pub(crate) fn runtime(&self) -> io::Result<Handle> {
        self.threads.runtime()
    }

    /// Runs one task from start to end and reports both.
    pub(crate) async fn run(
        self: Arc<Self>,
        slot: u32,
        task: TaskRef,
        spec: Box<RunSpec>,
        stop_at: StopAt,
        events: mpsc::UnboundedSender<Input>,
    ) {
        let end = match self.prepare(slot, task, &spec) {
            Ok((files, stdout, stderr)) => {
                let (start_time, since) = (SystemTime::now(), clock::Instant::now());
                self.logs.opened(task, files.clone());
                // Nobody listens only when the runner itself is being dropped.
                let _ = events.send(Input::Started { slot, task, pid: None, start_time });
                let (exit, output, note) = self.see_through(task, &spec, stdout, stderr, stop_at).await;
                let sizes @ [stdout_bytes, stderr_bytes] = files.sizes();
                drop(files);
                self.logs.ended(task, sizes);
                End {
                    exit,
                    note,
                    output,
                    stdout_bytes,
                    stderr_bytes,
                    start_time: Some(start_time),
                    end_time: Some(SystemTime::now()),
                    run_time: clock::Instant::now() - since,
                }
            }
            Err(error) => End::not_started(format!("cannot make its files in the runner's state directory: {error}")),
        };
        let _ = events.send(Input::Ended { slot, task, end });
    }

    /// Writes down what is about to run, so that a later boot can tell that it is over, and makes the files of its log.
    fn prepare(&self, slot: u32, task: TaskRef, spec: &RunSpec) -> io::Result<(logs::Files, File, File)> {
        // No process will ever carry this key.
        self.state.hold(slot, task, &Uuid::new_v4().simple().to_string(), None)?;
        let files = self.logs.files(task, spec.log_limit_bytes);
        match files.create() {
            Ok((stdout, stderr)) => Ok((files, File::from_std(stdout), File::from_std(stderr))),
            Err(error) => {
                files.remove();
                Err(error)
            }
        }
    }

    /// Asks and waits, until that has come to an end or is to end.
    async fn see_through(
        &self,
        task: TaskRef,
        spec: &RunSpec,
        stdout: File,
        stderr: File,
        mut stop_at: StopAt,
    ) -> (Exit, Vec<u8>, String) {
        let Target::Http(http) = &spec.target else {
            return (Exit::NotStarted("this is no request".to_owned()), Vec::new(), String::new());
        };
        let mut transcript = Transcript::new(stdout, stderr, spec.callback.as_ref());
        let asked = tokio::select! {
            biased;
            () = told_to_end(&mut stop_at) => None,
            asked = self.ask(task, spec, http, &mut transcript) => Some(asked),
        };
        let outcome = match asked {
            None => {
                transcript.note("broken off").await;
                (Exit::Code(BROKEN_OFF), Vec::new(), "the request was broken off".to_owned())
            }
            Some(Ok(_)) if http.wait_for_callback => {
                transcript.note("waiting for the callback").await;
                told_to_end(&mut stop_at).await;
                transcript.note("the wait is over").await;
                (Exit::Code(BROKEN_OFF), Vec::new(), "no callback came".to_owned())
            }
            Some(Ok(answer)) => {
                if !answer.note.is_empty() {
                    transcript.note(&answer.note).await;
                }
                (Exit::Code(0), answer.output, answer.note)
            }
            Some(Err(failure)) => {
                let message = transcript.without_token(&failure.to_string());
                match failure.status() {
                    Some(status) => (Exit::Code(i32::from(status)), Vec::new(), message),
                    None => (Exit::Unusable(message), Vec::new(), String::new()),
                }
            }
        };
        if let Some(error) = transcript.close().await {
            warn!(%task, %error, "the log of a request could not be written as a whole");
        }
        outcome
    }

    /// Asks one url after the other until one of them answers for good.
    async fn ask(
        &self,
        task: TaskRef,
        spec: &RunSpec,
        http: &HttpRequest,
        transcript: &mut Transcript,
    ) -> Result<Answer, Failure> {
        let call = Call::new(&self.connections, task, spec, http).await.map_err(Failure::Unusable);
        let call = match call {
            Ok(call) => call,
            Err(failure) => {
                transcript.note(&failure.to_string()).await;
                return Err(failure);
            }
        };
        for (place, url) in (1..).zip(&http.urls) {
            let failure = match call.make(url, transcript).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let goes_on = place < http.urls.len() && failover::goes_on(&http.method, &failure);
            let next = if goes_on { "; asking the next url" } else { "" };
            transcript.note(&format!("{failure}{next}")).await;
            if !goes_on {
                return Err(failure);
            }
        }
        Err(Failure::Unusable("the task has no urls".to_owned()))
    }
}

/// Resolves when the task is to end. There is nothing to be given a grace.
async fn told_to_end(stop_at: &mut StopAt) {
    if stop_at.wait_for(Option::is_some).await.is_err() {
        // The runner is being dropped, and this with it.
        std::future::pending::<()>().await;
    }
}
