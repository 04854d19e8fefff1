//! P9: the same work in a database that is empty and in one that holds millions of tasks that ended: what is over must cost
//! nothing.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use baton_tests::{Asked, Backend, Cluster, job, v1};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    figure::{Figure, percentile, round},
    parts::{self, Embedded, PATIENCE, RUNNER},
    settings::Settings,
};

const SLOTS: u32 = 64;

/// Tasks of each job that is over.
const TASKS_A_JOB: usize = 1_000;

/// Rows that one statement copies.
const COPIED_AT_ONCE: usize = 100_000;

/// How often each listing is asked for.
const LISTINGS: usize = 50;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let rows = settings.amount(settings.rows, 5_000);
    let mut cluster = parts::start(backend, 0).await;
    let ask = cluster.ask();
    let each = settings.amount(1_000, 50);
    let tasks: Vec<Value> =
        (0..each).map(|number| json!({"name": format!("t{number}"), "command": ["true"]})).collect();
    ask.apply(&job("many", &json!(tasks))).await?;
    ask.apply(&job("one", &json!([{"name": "work", "command": ["true"]}]))).await?;
    let jobs = settings.amount(20, 2);
    let empty = Seen::of(&cluster, &ask, jobs, each).await?;
    fill(&mut cluster, backend, rows).await?;
    let full = Seen::of(&cluster, &ask, jobs, each).await?;
    let name = parts::name(backend);
    let rate = Figure::new("p9-tasks", name, rows, full.rate, "tasks/s").over(empty.rate);
    let single = Figure::new("p9-single", name, rows, full.single, "ms").over(empty.single);
    let list = Figure::new("p9-list", name, rows, full.list, "ms a page").over(empty.list);
    if settings.smoke {
        return Ok(vec![rate, single, list]);
    }
    Ok(vec![
        rate.reach(">= 0.87 of empty", full.rate * 1.15 >= empty.rate),
        single.reach("<= 1.15 of empty", full.single <= 1.15 * empty.single),
        list.reach("< 50 ms", full.list < 50.0),
    ])
}

/// What the work took.
struct Seen {
    /// Tasks that do nothing, a second.
    rate: f64,
    /// From the request to the first instruction of one task, in milliseconds, the median.
    single: f64,
    /// The slowest kind of listing, in milliseconds, the median of its pages.
    list: f64,
}

impl Seen {
    async fn of(cluster: &Cluster, ask: &Asked, jobs: usize, each: usize) -> anyhow::Result<Self> {
        for _ in 0..jobs {
            ask.run("many", &[]).await?;
        }
        parts::all_run(ask, jobs).await?;
        let first: Arc<OnceLock<Instant>> = Arc::default();
        let begun = first.clone();
        let each_task = move || {
            begun.get_or_init(Instant::now);
        };
        let runner = Embedded::start(cluster, RUNNER, SLOTS, &cluster.directory().join("embedded"), each_task);
        parts::nothing_lives(ask).await?;
        let start = first.get().copied().unwrap_or_else(Instant::now);
        let rate = (jobs * each) as f64 / start.elapsed().as_secs_f64();
        let mut singles = Vec::new();
        for _ in 0..LISTINGS {
            let asked = Instant::now();
            let job_id = ask.run("one", &[]).await?;
            parts::finished(ask, &job_id).await?;
            singles.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        runner.stop().await?;
        let finished = vec![i32::from(v1::JobState::Finished)];
        let requests = [
            v1::ListJobsRequest { page_size: 50, ..Default::default() },
            v1::ListJobsRequest { page_size: 50, states: finished, ..Default::default() },
            v1::ListJobsRequest { page_size: 50, name: "many".to_owned(), ..Default::default() },
        ];
        let mut slowest: f64 = 0.0;
        for request in requests {
            let mut times = Vec::new();
            for _ in 0..LISTINGS {
                let asked = Instant::now();
                ask.0.jobs.clone().list_jobs(request.clone()).await?;
                times.push(asked.elapsed().as_secs_f64() * 1e3);
            }
            slowest = slowest.max(percentile(&mut times, 50.0));
        }
        Ok(Self { rate: round(rate), single: percentile(&mut singles, 50.0), list: slowest })
    }
}

/// Copies a task that finished, and its job, until there are so many. A SQLite file is its scheduler's alone, so that one
/// rests meanwhile.
async fn fill(cluster: &mut Cluster, backend: Backend, rows: usize) -> anyhow::Result<()> {
    if backend == Backend::Sqlite {
        cluster.scheduler(0).terminate();
        cluster.scheduler(0).end(PATIENCE).await;
    }
    let database = Bare::of_cluster(cluster).await?;
    let columns = async |table: &str, changed: &[&str]| {
        let mut columns = database.columns(table).await?;
        columns.retain(|column| !changed.contains(&column.as_str()));
        anyhow::Ok(columns.join(", "))
    };
    let jobs = columns("job", &["id"]).await?;
    let tasks = columns("task", &["id", "job_id", "node"]).await?;
    // Below every id that is made by the clock.
    let id = |kind: u8, number: &str| match backend {
        Backend::Postgres => format!("CAST('{kind:08}' || lpad(to_hex({number}), 24, '0') AS uuid)"),
        Backend::Sqlite => format!("unhex('{kind:08}' || printf('%024x', {number}))"),
    };
    let series = |from: usize, to: usize| match backend {
        Backend::Postgres => format!("(SELECT generate_series({from}, {to}) AS nth) AS series"),
        Backend::Sqlite => format!(
            "(WITH RECURSIVE list (nth) AS (SELECT {from} UNION ALL SELECT nth + 1 FROM list WHERE nth < {to})
              SELECT nth FROM list) AS series"
        ),
    };
    let model = "(SELECT * FROM task WHERE state = 'FINISHED' AND group_id IS NULL LIMIT 1) AS model";
    let of_model =
        "(SELECT * FROM job WHERE id = (SELECT job_id FROM task WHERE state = 'FINISHED' AND group_id IS NULL
                     LIMIT 1)) AS model";
    for from in (0..rows).step_by(COPIED_AT_ONCE) {
        let to = rows.min(from + COPIED_AT_ONCE) - 1;
        let (first_job, last_job) = (from / TASKS_A_JOB, to / TASKS_A_JOB);
        let copied_jobs = format!(
            "INSERT INTO job (id, {jobs}) SELECT {}, {jobs} FROM {}, {of_model}",
            id(1, "nth"),
            series(first_job, last_job)
        );
        database.run(&copied_jobs).await?;
        let copied_tasks = format!(
            "INSERT INTO task (id, job_id, node, {tasks})
             SELECT {}, {}, nth % {TASKS_A_JOB}, {tasks} FROM {}, {model}",
            id(2, "nth"),
            id(1, &format!("(nth / {TASKS_A_JOB})")),
            series(from, to)
        );
        database.run(&copied_tasks).await?;
    }
    if backend == Backend::Postgres {
        database.run("ANALYZE").await?;
    }
    drop(database);
    if backend == Backend::Sqlite {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.start_scheduler(0).await;
    }
    Ok(())
}
