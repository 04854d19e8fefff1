//! Any jobs within jobs, any failures, any callbacks that hold a task: what comes of them is what a look at the whole says.

use super::{
    callbacks::{Answer, Receiver, quick},
    *,
};
use crate::domain::{callback::Event, definition::SubJob};

/// How many plans are tried on each database.
const PLANS: u64 = 25;
/// How deep jobs lie within jobs.
const DEPTH_MAX: u32 = 2;
/// How many tasks a job has at most.
const TASKS_MAX: u64 = 5;

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    /// Whether one in so many comes.
    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }
}

/// A job whose tasks' fates are known beforehand.
struct Plan {
    name: String,
    tasks: Vec<Fate>,
}

struct Fate {
    needs: Vec<usize>,
    ignored: bool,
    /// A callback holds it until it is delivered or given up.
    held: bool,
    work: Work,
}

enum Work {
    Ends(i32),
    Job(Plan),
}

/// What comes of a job.
#[derive(Debug, Default)]
struct Outcome {
    /// How the tasks of each job end that runs, by the name of its config.
    jobs: BTreeMap<String, (JobState, BTreeMap<String, TaskState>)>,
    /// What runners are given.
    runs: Vec<String>,
    /// How often a receiver is told.
    told: usize,
}

impl Plan {
    fn any(dice: &mut Dice, name: String, depth: u32) -> Self {
        let count = 1 + dice.below(TASKS_MAX);
        let mut fate = |at: u64| {
            let needs = (0..at).filter(|_| dice.one_in(3)).map(|need| need as usize).collect();
            let work = if depth < DEPTH_MAX && dice.one_in(3) {
                Work::Job(Self::any(dice, format!("{name}-{at}"), depth + 1))
            } else {
                Work::Ends(i32::from(dice.one_in(4)))
            };
            Fate { needs, ignored: dice.one_in(5), held: dice.one_in(4), work }
        };
        let tasks = (0..count).map(&mut fate).collect();
        Self { name, tasks }
    }

    /// Its definition after those of the jobs within it.
    fn define(&self, receiver: &Receiver, into: &mut Vec<JobConfig>) {
        let mut tasks = Vec::new();
        for (at, fate) in self.tasks.iter().enumerate() {
            let needs: Vec<String> = fate.needs.iter().map(|need| format!("t{need}")).collect();
            let mut config = task(&format!("t{at}"), &needs.iter().map(String::as_str).collect::<Vec<_>>());
            if let Work::Job(plan) = &fate.work {
                plan.define(receiver, into);
                config.target = Target::Job(SubJob { name: plan.name.clone(), params: BTreeMap::new() });
            }
            config.on_failure = Some(if fate.ignored { OnFailure::Ignore } else { OnFailure::Fail });
            if fate.held {
                config.callbacks = vec![receiver.hook(&[Event::Finished, Event::Failed], true)];
            }
            tasks.push(config);
        }
        into.push(JobConfig { namespace: "default".into(), name: self.name.clone(), tasks, ..JobConfig::default() });
    }

    /// Works out how it ends, one task after the other, and whether that is a success.
    fn evaluate(&self, outcome: &mut Outcome) -> bool {
        let (mut fine, mut well) = (Vec::new(), true);
        let mut states = BTreeMap::new();
        for (at, fate) in self.tasks.iter().enumerate() {
            let name = format!("t{at}");
            if !fate.needs.iter().all(|need| fine[*need]) {
                fine.push(false);
                states.insert(name, TaskState::Skipped);
                continue;
            }
            let finished = match &fate.work {
                Work::Ends(code) => {
                    outcome.runs.push(format!("{}/{name}", self.name));
                    *code == 0
                }
                Work::Job(plan) => plan.evaluate(outcome),
            };
            outcome.told += usize::from(fate.held);
            fine.push(finished || fate.ignored);
            well &= finished || fate.ignored;
            states.insert(name, if finished { TaskState::Finished } else { TaskState::Failed });
        }
        let state = if well { JobState::Finished } else { JobState::Failed };
        outcome.jobs.insert(self.name.clone(), (state, states));
        well
    }

    /// How the work of a task ends.
    fn code(&self, job: &str, task: &str) -> Option<i32> {
        self.tasks.iter().enumerate().find_map(|(at, fate)| match &fate.work {
            Work::Ends(code) => (self.name == job && task == format!("t{at}")).then_some(*code),
            Work::Job(plan) => plan.code(job, task),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_within_jobs_end_as_a_look_at_the_whole_says() {
    for scene in Scene::on_each_database_with(&quick()).await {
        // Every other message is refused for good: a callback holds a task, and changes nothing about its end.
        let answers: Vec<Answer> = (0..1_000).map(|at| Answer::Status(if at % 2 == 0 { 204 } else { 404 })).collect();
        let receiver = Receiver::that_answers(&answers).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 3)).await;
        let (mut told, mut made) = (0, 0);
        for seed in 1..=PLANS {
            let plan = Plan::any(&mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), format!("plan{seed}"), 0);
            let mut configs = Vec::new();
            plan.define(&receiver, &mut configs);
            let configs = configs.into_iter().map(|config| (config, String::new())).collect();
            scene.engine.apply(Apply { caller: Caller::default(), configs }).await.unwrap();
            let mut expected = Outcome::default();
            plan.evaluate(&mut expected);

            let job = scene.run_job(&plan.name).await;
            let mut runs = Vec::new();
            {
                let ending = scene.end_of(job);
                tokio::pin!(ending);
                loop {
                    tokio::select! {
                        biased;
                        _ = &mut ending => break,
                        (slot, task, spec) = runner.next_run() => {
                            let code = plan.code(&spec.job_name, &spec.task_name).expect("a task of this plan");
                            runs.push(format!("{}/{}", spec.job_name, spec.task_name));
                            runner.end(slot, task, code).await;
                        }
                    }
                }
            }
            runs.sort();
            expected.runs.sort();
            assert_eq!(runs, expected.runs, "plan {seed}: each task whose gate opens runs once");
            for (name, expected) in &expected.jobs {
                let found = scene.jobs_of(name).await;
                assert_eq!(found.len(), 1, "plan {seed}: {name}");
                let (state, tasks) = scene.end_of(found[0].id).await;
                let tasks: BTreeMap<String, TaskState> =
                    tasks.into_iter().map(|(task, (state, _))| (task, state)).collect();
                assert_eq!((state, &tasks), (expected.0, &expected.1), "plan {seed}: {name}");
            }
            told += expected.told;
            made += expected.jobs.len();
        }
        receiver.messages(told).await;
        let rows = scene.count("callback").await;
        assert_eq!(usize::try_from(rows).unwrap(), told, "each end is told once");
        let jobs = scene.count("job WHERE ended_at IS NOT NULL").await;
        assert_eq!(usize::try_from(jobs).unwrap(), made, "no job is made for a task that is skipped");
        assert_eq!(scene.count("job WHERE ended_at IS NULL").await, 0);
    }
}
