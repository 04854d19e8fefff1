//! Clients that run jobs and write down what was accepted, and what they were told of jobs that had ended.

use std::{net::SocketAddr, time::Duration};

use baton_tests::{
    Api, Asked, View, is_over,
    v1::{RunRequest, TerminateRequest},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use crate::{random::Random, shapes::SHAPES};

/// How long one answer may take before the client asks another scheduler.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// One of so many jobs is terminated by its client.
const TERMINATE_ONE_OF: usize = 12;
/// One of so many times a client looks how an earlier job of its own is.
const LOOK_ONE_OF: usize = 3;
/// How long a client keeps asking for one job before the system counts as dead.
const PERSISTENCE: Duration = Duration::from_mins(2);

/// A job that was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) job_id: String,
    pub(crate) shape: &'static str,
    /// Its termination was accepted.
    pub(crate) terminated: bool,
    /// How it was when it was first seen to have ended, in the midst of it all.
    pub(crate) ended: Option<View>,
}

/// One client.
pub(crate) struct Client {
    random: Random,
    schedulers: Vec<Api>,
    ledger: Vec<Entry>,
}

impl Client {
    pub(crate) fn new(seed: u64, addresses: Vec<SocketAddr>) -> Self {
        let schedulers = addresses.into_iter().map(Api::to).collect();
        Self { random: Random::seeded(seed), schedulers, ledger: Vec::new() }
    }

    /// Runs jobs until it is told to stop; gives everything that was accepted.
    pub(crate) async fn work(mut self, mut stopped: watch::Receiver<bool>) -> Vec<Entry> {
        loop {
            let pause = self.random.milliseconds(20..400);
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return self.ledger,
                () = sleep_until(Instant::now() + pause) => {}
            }
            let shape = self.random.of(&SHAPES);
            let job_id = self.run(shape).await;
            let terminated = self.random.below(TERMINATE_ONE_OF) == 0 && self.terminate(&job_id).await;
            self.ledger.push(Entry { job_id, shape, terminated, ended: None });
            if self.random.below(LOOK_ONE_OF) == 0 {
                self.look().await;
            }
        }
    }

    /// Runs one job, with one request id, until somebody answers.
    async fn run(&mut self, shape: &str) -> String {
        let request =
            RunRequest { name: shape.to_owned(), request_id: uuid::Uuid::new_v4().to_string(), ..Default::default() };
        let asked_since = Instant::now();
        loop {
            let mut commands = self.random.of(&self.schedulers).commands.clone();
            if let Ok(Ok(answer)) = timeout(ANSWER_LIMIT, commands.run(request.clone())).await {
                return answer.into_inner().job.expect("a run answers with its job").id;
            }
            assert!(asked_since.elapsed() < PERSISTENCE, "no scheduler took a job for {PERSISTENCE:?}");
            sleep_until(Instant::now() + Duration::from_millis(100)).await;
        }
    }

    /// Looks at one job, through any scheduler, and remembers it once it has ended.
    async fn look(&mut self) {
        let scheduler = Asked(self.random.of(&self.schedulers).clone());
        let at = self.random.below(self.ledger.len());
        let Some(entry) = self.ledger.get_mut(at).filter(|entry| entry.ended.is_none()) else { return };
        if let Ok(Ok(view)) = timeout(ANSWER_LIMIT, scheduler.get(&entry.job_id)).await {
            entry.ended = is_over(view.job.state()).then_some(view);
        }
    }

    /// Asks once; whether it was accepted.
    async fn terminate(&mut self, job_id: &str) -> bool {
        let request = TerminateRequest {
            job_id: job_id.to_owned(),
            request_id: uuid::Uuid::new_v4().to_string(),
            reason: "the soak wants it so".to_owned(),
            ..Default::default()
        };
        let mut commands = self.random.of(&self.schedulers).commands.clone();
        matches!(timeout(ANSWER_LIMIT, commands.terminate(request)).await, Ok(Ok(_)))
    }
}
