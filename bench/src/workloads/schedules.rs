//! Schedules by the million, by the burst and by the second.
//!
//! What is stored is put there by SQL, as copies of one definition that was applied: a million applies would measure those.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use baton_tests::{Asked, Backend, Cluster, World, job};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::idle::cpu;
use crate::{
    figure::{Figure, percentile, round},
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::{Stamps, now},
};

/// How many schedules are due each second of the million.
const DUE_A_SECOND: usize = 100;
/// How long before the first fire everything is stored.
const LEAD: Duration = Duration::from_secs(5);
/// The interval of the copies: no copy fires twice.
const PERIOD_MICROS: i64 = 86_400_000_000;
/// How often it is looked whether all jobs are there.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// What the start, and the copies, left to do is over by then.
const SETTLE: Duration = Duration::from_secs(10);

/// Every fire of so many schedules makes its job in time, and those that only lie there cost next to nothing.
pub(super) async fn million(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    if backend != Backend::Postgres {
        return Ok(Vec::new());
    }
    let (stored, seconds) = (settings.amount(1_000_000, 2_000), settings.amount(60, 3));
    let due = DUE_A_SECOND * seconds;
    let mut cluster = parts::start(backend, 0).await;
    store(&cluster, stored).await?;
    sleep(SETTLE.min(Duration::from_secs(settings.amount(10, 1) as u64))).await;

    let watched = Duration::from_secs(settings.amount(20, 1) as u64);
    let before = load(&mut cluster)?;
    let begin = Instant::now();
    sleep(watched).await;
    let idle = (load(&mut cluster)? - before) / begin.elapsed().as_secs_f64() * 100.0;

    let first = micros() + LEAD.as_micros() as i64;
    let step = 1_000_000 / DUE_A_SECOND as i64;
    sql(&cluster, &make_due(due, first, step))?;
    all_made(&cluster, due).await?;
    let mut late = lateness(&cluster)?;
    anyhow::ensure!(late.len() == due, "{} jobs for {due} fires", late.len());
    let cost = Figure::new("schedules-million-idle", parts::name(backend), stored, idle, "% of a core")
        .with("seconds", watched.as_secs());
    let figure = Figure::median("schedules-million", parts::name(backend), &mut late, "ms late")
        .with("stored", stored)
        .with("max", round(late.last().copied().unwrap_or_default()));
    let p99 = figure.p99.unwrap_or(f64::MAX);
    if settings.smoke {
        return Ok(vec![figure, cost]);
    }
    Ok(vec![figure.reach("p99 < 250", p99 < 250.0), cost.reach("< 2 %", idle < 2.0)])
}

/// All of a burst are there within two seconds, none lost, none twice, however many schedulers share the work.
pub(super) async fn burst(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    if backend != Backend::Postgres {
        return Ok(Vec::new());
    }
    let due = settings.amount(5_000, 100);
    let mut figures = Vec::new();
    for (schedulers, name) in [(1, "schedules-burst-1"), (2, "schedules-burst-2"), (3, "schedules-burst-3")] {
        let mut samples = Vec::new();
        for _ in 0..settings.runs {
            let cluster = World::on(backend).schedulers(schedulers).start().await;
            store(&cluster, due).await?;
            let first = micros() + LEAD.as_micros() as i64;
            sql(&cluster, &make_due(due, first, 0))?;
            let seen = all_made(&cluster, due).await?;
            samples.push((seen - first) as f64 / 1e6);
            // Whatever else there is to do is done by then: nothing comes twice.
            sleep(Duration::from_secs(2)).await;
            let made = lateness(&cluster)?.len();
            anyhow::ensure!(made == due, "{made} jobs for {due} fires");
        }
        let worst = percentile(&mut samples, 100.0);
        let figure = Figure::median(name, parts::name(backend), &mut samples, "s until all are there").with("due", due);
        figures.push(if settings.smoke { figure } else { figure.reach("< 2", worst < 2.0) });
    }
    Ok(figures)
}

/// The child of a fire starts soon after the second that it is due at.
pub(super) async fn every_second(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let seconds = settings.amount(120, 4);
    let cluster = parts::start(backend, 4).await;
    let stamps = Stamps::fresh(cluster.directory(), "second");
    let mut ticking = definition("tick", &stamps.target("tick"));
    ticking["schedules"] = json!([{"name": "tick", "cron": "* * * * * *"}]);
    ticking["overlap"] = "allow".into();
    cluster.ask().apply(&ticking.to_string()).await?;
    // What the clock on the wall shows at a moment of the one that only goes forward.
    let wall = wall_nanos() - now();
    let stamped = stamps.count(seconds, PATIENCE).await;
    let mut late: Vec<f64> =
        stamped.iter().take(seconds).map(|stamp| (stamp.first + wall).rem_euclid(1_000_000_000) as f64 / 1e6).collect();
    let mut fired: Vec<i64> =
        stamped.iter().take(seconds).map(|stamp| (stamp.first + wall).div_euclid(1_000_000_000)).collect();
    fired.sort_unstable();
    let steady = fired.windows(2).all(|pair| pair[1] - pair[0] == 1);
    let figure = Figure::median("schedules-second", parts::name(backend), &mut late, "ms late")
        .with("every_second_once", steady)
        .with("max", round(late.last().copied().unwrap_or_default()));
    let p99 = figure.p99.unwrap_or(f64::MAX);
    Ok(vec![if settings.smoke { figure } else { figure.reach("p99 < 20", p99 < 20.0 && steady) }])
}

fn definition(name: &str, command: &Value) -> Value {
    let text = job(name, &json!([{"name": "work", "command": command}]));
    serde_json::from_str(&text).expect("a job file of ours is JSON")
}

/// Stores so many job configs, each with a schedule that is due in a month.
async fn store(cluster: &Cluster, count: usize) -> anyhow::Result<()> {
    let ask: Asked = cluster.ask();
    let mut template = definition("template", &json!(["true"]));
    template["schedules"] = json!([{"name": "daily", "every": "24h"}]);
    ask.apply(&template.to_string()).await?;
    let copies = format!(
        "INSERT INTO job_config (id, namespace, name, version, created_at, updated_at)
             SELECT gen_random_uuid(), namespace, 'copy-' || n, version, created_at, updated_at
             FROM job_config, generate_series(1, {count}) AS n WHERE name = 'template';
         INSERT INTO job_config_version (job_config_id, version, definition, source, labels, task_count, created_at)
             SELECT copy.id, one.version, one.definition, '', one.labels, one.task_count, one.created_at
             FROM job_config AS copy, job_config_version AS one
             JOIN job_config AS template ON template.id = one.job_config_id AND template.name = 'template'
             WHERE copy.name <> 'template';
         INSERT INTO task_config (id, job_config_id, version, node, name)
             SELECT gen_random_uuid(), copy.id, one.version, one.node, one.name FROM job_config AS copy, task_config AS one
             JOIN job_config AS template ON template.id = one.job_config_id AND template.name = 'template'
             WHERE copy.name <> 'template';
         INSERT INTO schedule (id, job_config_id, key, spec, state, next_fire_at, due_at, period, created_at, planned_at)
             SELECT gen_random_uuid(), copy.id, one.key, one.spec, 'DUE', one.next_fire_at + 30 * {PERIOD_MICROS},
                 one.due_at + 30 * {PERIOD_MICROS}, one.period, one.created_at, one.planned_at
             FROM job_config AS copy, schedule AS one
             JOIN job_config AS template ON template.id = one.job_config_id AND template.name = 'template'
             WHERE copy.name <> 'template';"
    );
    for statement in copies.split_inclusive(';') {
        sql(cluster, statement)?;
    }
    for table in ["job_config", "job_config_version", "task_config", "schedule"] {
        sql(cluster, &format!("VACUUM ANALYZE {table}"))?;
    }
    Ok(())
}

/// Makes the first so many copies due, one after the other.
fn make_due(count: usize, first: i64, step: i64) -> String {
    format!(
        "UPDATE schedule SET next_fire_at = at, due_at = at, created_at = at - {PERIOD_MICROS}
         FROM (SELECT id, {first} + {step} * substr(name, 6)::bigint AS at FROM job_config
               WHERE name LIKE 'copy-%' AND substr(name, 6)::bigint <= {count}) AS due
         WHERE schedule.job_config_id = due.id"
    )
}

/// Waits until so many jobs are there; when they were seen, in microseconds.
async fn all_made(cluster: &Cluster, count: usize) -> anyhow::Result<i64> {
    let begin = Instant::now();
    loop {
        let made: usize = sql(cluster, "SELECT count(*) FROM job")?.first().context("a count")?.parse()?;
        if made >= count {
            return Ok(micros());
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{made} of {count} jobs after {PATIENCE:?}");
        sleep(LOOK_INTERVAL).await;
    }
}

/// How long after its fire each job was made, in milliseconds.
fn lateness(cluster: &Cluster) -> anyhow::Result<Vec<f64>> {
    let rows = sql(cluster, "SELECT created_at - fire_time FROM job")?;
    rows.iter().map(|late| Ok(late.parse::<f64>()? / 1e3)).collect()
}

/// The seconds of CPU that the scheduler and its database have taken.
fn load(cluster: &mut Cluster) -> anyhow::Result<f64> {
    let backends = sql(cluster, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")?;
    let mut total = cpu(cluster.scheduler(0).pid())?;
    for pid in backends {
        // One that ends meanwhile has nothing to tell.
        total += cpu(pid.parse()?).unwrap_or_default();
    }
    Ok(total)
}

fn sql(cluster: &Cluster, statement: &str) -> anyhow::Result<Vec<String>> {
    cluster.sql(statement).context("the workload runs on PostgreSQL")
}

fn wall_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn micros() -> i64 {
    wall_nanos() / 1_000
}
