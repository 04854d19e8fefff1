//! Clients that run jobs and write down what was accepted.

use std::{net::SocketAddr, time::Duration};

use baton_tests::{
    Api, Cluster, Marks,
    v1::{RunRequest, TerminateRequest},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use crate::random::Random;

/// How long one answer may take before the client asks another scheduler.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// One of so many jobs is terminated by its client.
const TERMINATE_ONE_OF: usize = 12;
/// How long a client keeps asking for one job before the system counts as dead.
const PERSISTENCE: Duration = Duration::from_mins(2);

/// The job configs that a soak runs, by name.
pub(crate) const SHAPES: [&str; 5] = ["single", "chain", "diamond", "shards", "stubborn"];

/// A job that was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) job_id: String,
    pub(crate) shape: &'static str,
    /// Its termination was accepted.
    pub(crate) terminated: bool,
}

/// Applies the shapes. Each task holds a lock for as long as any process of it lives, so that a second copy shows.
pub(crate) async fn apply(cluster: &Cluster, marks: &Marks) {
    let locks = cluster.directory().join("locks");
    std::fs::create_dir(&locks).expect("a directory can be made");
    let task = |name: &str, needs: &[&str], seconds: &str| {
        let body = marks.around(&format!("sleep {seconds}"));
        let second = marks.line("overlap");
        let lock = locks.display();
        let script = format!("exec 9> \"{lock}/$BATON_TASK_ID\"\nflock -n 9 || {second}\n{body}");
        json!({"name": name, "needs": needs, "shell": script, "retry": {"max_attempts": 3, "delay": "100ms"}})
    };
    let mut sharded = task("part", &[], "0.3");
    sharded["shards"] = json!({"count": 6});
    let mut stubborn = task("stubborn", &[], "0.5");
    let script = stubborn["shell"].as_str().unwrap_or_default();
    stubborn["shell"] = json!(format!("trap '' TERM\nsetsid sleep 1 &\n{script}"));
    let shapes: [(&str, Value); 5] = [
        ("single", json!([task("only", &[], "0.2")])),
        ("chain", json!([task("a", &[], "0.1"), task("b", &["a"], "0.1"), task("c", &["b"], "0.1")])),
        (
            "diamond",
            json!([
                task("top", &[], "0.1"),
                task("left", &["top"], "0.2"),
                task("right", &["top"], "0.2"),
                task("bottom", &["left", "right"], "0.1"),
            ]),
        ),
        ("shards", json!([sharded, task("gather", &["part"], "0.1")])),
        ("stubborn", json!([stubborn])),
    ];
    for (name, tasks) in shapes {
        let text = json!({"name": name, "tasks": tasks}).to_string();
        cluster.ask().apply(&text).await.unwrap_or_else(|status| panic!("{name}: {}", status.message()));
    }
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
            self.ledger.push(Entry { job_id, shape, terminated });
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
