//! Work that an embedding program does itself, in place of processes.
//!
//! A [`crate::Runner`] with a handler gives it every task it is sent, as it was sent: the handler reads the
//! [`RunSpec`] (a `command` whose first word it knows, say) and does what it says. Stream, leases, results, stops and output are
//! the same; there is no process, and nothing to end after a crash.

mod writer;

use std::{panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::SystemTime};

use tokio::{
    sync::{mpsc, watch},
    task::JoinError,
    time::{Instant, sleep_until},
};

use self::writer::Outputs;
pub use self::writer::Writer;
use crate::{
    clock, logs,
    machine::Input,
    task::{End, Exit, OUTPUT_MAX, RunSpec, TaskRef},
};

/// What a handler is given.
#[derive(Debug)]
pub struct Context {
    /// Which task, which attempt, which lease.
    pub task: TaskRef,
    /// What to run.
    pub spec: RunSpec,
    outputs: Arc<Outputs>,
    stop_at: watch::Receiver<Option<Instant>>,
}

impl Context {
    /// The standard output of the task.
    pub fn stdout(&self) -> Writer {
        Writer::new(self.outputs.clone(), 0)
    }

    /// The standard error of the task.
    pub fn stderr(&self) -> Writer {
        Writer::new(self.outputs.clone(), 1)
    }

    /// Resolves when the task is to end. After the grace the handler's future is dropped.
    pub async fn stopped(&mut self) {
        if self.stop_at.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How a handler's work ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// As of a process: 0 is success.
    pub exit_code: i32,
    /// What later tasks may read; at most 64 KiB.
    pub output: Vec<u8>,
    /// What happened, in words.
    pub message: String,
}

pub(crate) type Handler = Arc<dyn Fn(Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync>;

/// Runs one task through the handler from start to end and reports both.
pub(crate) async fn run(
    handler: Handler,
    logs: logs::Handle,
    slot: u32,
    task: TaskRef,
    spec: Box<RunSpec>,
    mut stop_at: watch::Receiver<Option<Instant>>,
    events: mpsc::UnboundedSender<Input>,
) {
    let (start_time, since) = (SystemTime::now(), clock::Instant::now());
    let _ = events.send(Input::Started { slot, task, pid: None, start_time });
    let outputs = Outputs::of(logs, task, spec.log_limit_bytes);
    let context = Context { task, spec: *spec, outputs: outputs.clone(), stop_at: stop_at.clone() };
    // A handler that panics fails its task, not the runner.
    let work = std::panic::catch_unwind(AssertUnwindSafe(|| handler(context)));
    let exit = match work {
        Ok(work) => {
            let mut work = tokio::spawn(work);
            tokio::select! {
                outcome = &mut work => finished(outcome),
                () = overdue(&mut stop_at) => {
                    work.abort();
                    // It counts as gone only when it is.
                    let _ = work.await;
                    (Exit::Unusable("it did not end within its grace".to_owned()), Outcome::default())
                }
            }
        }
        Err(_) => (Exit::Unusable("the handler panicked".to_owned()), Outcome::default()),
    };
    let (exit, outcome) = exit;
    let [stdout_bytes, stderr_bytes] = outputs.end();
    let end = End {
        exit,
        note: outcome.message,
        output: outcome.output,
        stdout_bytes,
        stderr_bytes,
        start_time: Some(start_time),
        end_time: Some(SystemTime::now()),
        run_time: clock::Instant::now() - since,
    };
    let _ = events.send(Input::Ended { slot, task, end });
}

fn finished(outcome: Result<Outcome, JoinError>) -> (Exit, Outcome) {
    match outcome {
        Ok(outcome) if outcome.output.len() > OUTPUT_MAX => {
            let why = format!("its output has {} bytes; the limit is {OUTPUT_MAX}", outcome.output.len());
            (Exit::Unusable(why), Outcome { output: Vec::new(), ..outcome })
        }
        Ok(outcome) => (Exit::Code(outcome.exit_code), outcome),
        Err(error) => (Exit::Unusable(format!("the handler broke off: {error}")), Outcome::default()),
    }
}

/// Resolves when the grace is over. It may be shortened on the way.
async fn overdue(stop_at: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let at = *stop_at.borrow_and_update();
        let over = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => return,
            changed = stop_at.changed() => if changed.is_err() { std::future::pending::<()>().await },
        }
    }
}
