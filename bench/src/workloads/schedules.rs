//! Schedules by the million and by the burst.
//!
//! What is stored is put there by SQL, as copies of one definition that was applied: a million applies would measure those.
//! When a job was made is when its transaction was committed, by the server of the database, which keeps that: nobody
//! else could have seen it before.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use baton_tests::{Asked, Backend, Cluster, World, eventually, job};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::idle::cpu;
use crate::{
    figure::{Figure, percentile, round},
    parts::{self, BEAT, PATIENCE},
    settings::Settings,
};

/// How many schedules are due each second of the million.
const DUE_A_SECOND: usize = 100;
/// How long before the first fire everything is stored.
const LEAD: Duration = Duration::from_secs(5);
/// What the copies say. A year apart, no copy fires twice.
const CRON: &str = "30 2 1 1 *";
const ZONE: &str = "Europe/Berlin";
/// How often it is looked whether all jobs are there: seldom, since each look takes part of a core.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// What the start, and the copies, left to do is over by then.
const SETTLE: Duration = Duration::from_secs(10);

/// Every fire of so many schedules makes its job in time, and those that only lie there cost next to nothing.
pub(super) async fn million(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    if backend != Backend::Postgres {
        return Ok(Vec::new());
    }
    let (stored, seconds) = (settings.amount(1_000_000, 2_000), settings.amount(60, 3));
    let due = DUE_A_SECOND * seconds;
    let mut cluster = start(1).await?;
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
    let (before, begin) = (load(&mut cluster)?, Instant::now());
    all_made(&cluster, due).await?;
    let busy = (load(&mut cluster)? - before) / begin.elapsed().as_secs_f64() * 100.0;
    let mut late = lateness(&cluster, due)?;
    let cost = Figure::new("schedules-million-idle", parts::name(backend), stored, idle, "% of a core")
        .with("seconds", watched.as_secs())
        .with("busy_percent", round(busy));
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
            let cluster = start(schedulers).await?;
            store(&cluster, due).await?;
            let first = micros() + LEAD.as_micros() as i64;
            sql(&cluster, &make_due(due, first, 0))?;
            all_made(&cluster, due).await?;
            // Whatever else there is to do is done by then: nothing comes twice.
            sleep(Duration::from_secs(2)).await;
            samples.push(percentile(&mut lateness(&cluster, due)?, 100.0) / 1e3);
        }
        let worst = percentile(&mut samples, 100.0);
        let figure = Figure::median(name, parts::name(backend), &mut samples, "s until all are there").with("due", due);
        figures.push(if settings.smoke { figure } else { figure.reach("< 2", worst < 2.0) });
    }
    Ok(figures)
}

/// So many schedulers with their default times on a server that keeps when each transaction was committed.
async fn start(schedulers: usize) -> anyhow::Result<Cluster> {
    let world = World::on(Backend::Postgres).with_own_server().beat(BEAT).grace(BEAT);
    let cluster = world.schedulers(schedulers).start().await;
    sql(&cluster, "ALTER SYSTEM SET track_commit_timestamp = on")?;
    cluster.restart_database(false);
    Ok(cluster)
}

fn definition(name: &str, command: &Value) -> Value {
    let text = job(name, &json!([{"name": "work", "command": command}]));
    serde_json::from_str(&text).expect("a job file of ours is JSON")
}

/// Stores so many job configs, each with a schedule that is due at the next new year.
async fn store(cluster: &Cluster, count: usize) -> anyhow::Result<()> {
    let ask: Asked = cluster.ask();
    let mut template = definition("template", &json!(["true"]));
    template["schedules"] = json!([{"name": "yearly", "cron": CRON, "time_zone": ZONE}]);
    // The server of the database was restarted a moment ago.
    let template = template.to_string();
    eventually("a scheduler stores the template", PATIENCE, || async { ask.apply(&template).await.ok() }).await;
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
             SELECT gen_random_uuid(), copy.id, one.key, one.spec, 'DUE', one.next_fire_at, one.due_at, one.period,
                 one.created_at, one.planned_at
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
    // Otherwise the server writes back for minutes what was stored, and that would be taken for the cost of its lying there.
    sql(cluster, "CHECKPOINT")?;
    Ok(())
}

/// Makes the first so many copies due, one after the other.
fn make_due(count: usize, first: i64, step: i64) -> String {
    format!(
        "UPDATE schedule SET next_fire_at = at, due_at = at
         FROM (SELECT id, {first} + {step} * substr(name, 6)::bigint AS at FROM job_config
               WHERE name LIKE 'copy-%' AND substr(name, 6)::bigint <= {count}) AS due
         WHERE schedule.job_config_id = due.id"
    )
}

/// Waits until so many jobs are there.
async fn all_made(cluster: &Cluster, count: usize) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let made: usize = sql(cluster, "SELECT count(*) FROM job")?.first().context("a count")?.parse()?;
        if made >= count {
            return Ok(());
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{made} of {count} jobs after {PATIENCE:?}");
        sleep(LOOK_INTERVAL).await;
    }
}

/// How long after its fire each job was there for all to see, in milliseconds; fails unless each of so many schedules
/// has made one, and every fire did.
fn lateness(cluster: &Cluster, due: usize) -> anyhow::Result<Vec<f64>> {
    let made = sql(cluster, "SELECT count(*), count(DISTINCT job_config_id), (SELECT count(*) FROM fire) FROM job")?;
    let expected = format!("{due}\t{due}\t0");
    anyhow::ensure!(made == [expected.as_str()], "jobs, schedules and fires without a job: {made:?} for {due} fires");
    let late = "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000 - fire_time FROM job";
    sql(cluster, late)?.iter().map(|late| Ok(late.parse::<f64>()? / 1e3)).collect()
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

fn micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
