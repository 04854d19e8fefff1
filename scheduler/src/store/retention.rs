//! What is not kept any more: found through indexes, removed a slice at a time.
//!
//! A job first is marked, and from then on nobody sees it; then its output goes, then its rows, at last itself. Whoever
//! stops in between leaves a mark behind, and the next one goes on there.

use std::time::Duration;

use sea_orm::Value;
use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Record, Row as _},
    sql, task,
};
use crate::domain::{
    retention::{End, Retention},
    time::{Timestamp, micros},
};

/// What may still be live, or is needed by what is, is never removed: attempts without proof of their end, callbacks on
/// their way, jobs that a backfill still counts, what was made by jobs that run. A sub-job stays as long as its parent.
const AT_REST: &str = "job.id NOT IN (SELECT task.job_id FROM task WHERE NOT task.gone)
    AND job.id NOT IN (SELECT task.job_id FROM task_attempt JOIN task ON task.id = task_attempt.task_id
                       WHERE NOT task_attempt.gone)
    AND job.id NOT IN (SELECT callback.job_id FROM callback
                       WHERE callback.state = 'PENDING' AND callback.job_id IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM backfill WHERE backfill.id = job.backfill_id AND backfill.state = 'RUNNING')
    AND NOT EXISTS (SELECT 1 FROM job AS parent WHERE parent.id = job.parent_job_id
                    AND (parent.ended_at IS NULL OR (job.parent_task_id IS NOT NULL AND NOT parent.removing)))";

/// What a job was made after never counts again for its config, although the job that says so goes.
const COUNTED: &str = "WITH {input} INSERT INTO after_counted (source_job_id, job_config_id)
    SELECT DISTINCT source_job_id, job_config_id FROM job_source WHERE job_id IN (SELECT id FROM input)
        AND EXISTS (SELECT 1 FROM job AS source WHERE source.id = job_source.source_job_id AND NOT source.removing)
    ON CONFLICT (source_job_id, job_config_id) DO NOTHING";

/// What a job config wants kept, and how old its oldest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The job config.
    pub config: Uuid,
    /// What it wants.
    pub own: Retention,
    /// When the first of its jobs ended that are left.
    pub oldest: Option<Timestamp>,
    /// When the first of them ended whose output is left.
    pub oldest_logs: Option<Timestamp>,
}

/// Job configs after this one, those that were deleted too.
pub async fn configs(tx: &Tx, after: Uuid, limit: u32) -> Result<Vec<Kept>, Error> {
    let text = "SELECT job_config.id, job_config.retain_age, job_config.retain_count, job_config.retain_logs,
                    (SELECT min(job.ended_at) FROM job
                     WHERE job.job_config_id = job_config.id AND job.ended_at IS NOT NULL) AS oldest,
                    (SELECT min(job.ended_at) FROM job WHERE job.job_config_id = job_config.id
                     AND job.ended_at IS NOT NULL AND NOT job.logs_removed) AS oldest_logs
                FROM job_config WHERE job_config.id > :after ORDER BY job_config.id LIMIT :limit";
    let params = [("after", after.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let span = |row: &Record, name: &str| -> Result<Option<Duration>, Error> {
        Ok(row.column::<Option<i64>>(name)?.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    };
    rows.iter()
        .map(|row| {
            let (age, logs) = (span(row, "retain_age")?, span(row, "retain_logs")?);
            Ok(Kept {
                config: row.column("id")?,
                own: Retention { age, count: row.maybe_number("retain_count")?, logs },
                oldest: row.time("oldest")?,
                oldest_logs: row.time("oldest_logs")?,
            })
        })
        .collect()
}

/// The end that so many newer ones of a job config follow.
pub async fn newest_but(tx: &Tx, config: Uuid, newer: u32) -> Result<Option<End>, Error> {
    let text = "SELECT ended_at, id FROM job WHERE job_config_id = :config AND ended_at IS NOT NULL
                ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET :newer";
    let params = [("config", config.into()), ("newer", i64::from(newer).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.first().map(|row| Ok(End { at: Timestamp(row.column("ended_at")?), id: row.column("id")? })).transpose()
}

/// A job that ended long enough ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Which, and when.
    pub end: End,
    /// Nothing that lives needs it.
    pub at_rest: bool,
}

/// Which part of the ended jobs of a config is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Those after this one.
    pub after: Option<End>,
    /// Up to this one, it included.
    pub last: End,
    /// At most so many.
    pub limit: u32,
}

/// The ended jobs of a config, oldest first, but for the newest one.
pub async fn ended(tx: &Tx, config: Uuid, span: Span, newest: End) -> Result<Vec<Ended>, Error> {
    let seen = "NOT removing AND (ended_at, id) < (:newest_at, :newest)";
    let newest = [("newest_at", newest.at.0.into()), ("newest", newest.id.into())];
    page(tx, config, span, seen, newest).await
}

/// The ended jobs of a config whose output is left, oldest first.
pub async fn with_logs(tx: &Tx, config: Uuid, span: Span) -> Result<Vec<Ended>, Error> {
    page(tx, config, span, "NOT logs_removed AND NOT removing", []).await
}

/// The page is cut before anything else is asked of its jobs, so what it costs does not depend on how many of them are at
/// rest.
async fn page<const N: usize>(
    tx: &Tx,
    config: Uuid,
    span: Span,
    seen: &str,
    params: [(&str, Value); N],
) -> Result<Vec<Ended>, Error> {
    let after = span.after.unwrap_or(End { at: Timestamp(i64::MIN), id: Uuid::nil() });
    let text = format!(
        "SELECT job.id, job.ended_at, CASE WHEN {AT_REST} THEN 1 ELSE 0 END AS at_rest
         FROM (SELECT id, ended_at, backfill_id, parent_job_id, parent_task_id FROM job
               WHERE job_config_id = :config AND ended_at IS NOT NULL AND {seen}
                   AND (ended_at, id) > (:after_at, :after) AND (ended_at, id) <= (:last_at, :last)
               ORDER BY ended_at, id LIMIT :limit) AS job
         ORDER BY job.ended_at, job.id"
    );
    let mut all = vec![
        ("config", config.into()),
        ("after_at", after.at.0.into()),
        ("after", after.id.into()),
        ("last_at", span.last.at.0.into()),
        ("last", span.last.id.into()),
        ("limit", i64::from(span.limit).into()),
    ];
    all.extend(params);
    let rows = tx.query(sql::statement(tx.backend(), &text, &all)).await?;
    rows.iter()
        .map(|row| {
            let end = End { at: Timestamp(row.column("ended_at")?), id: row.column("id")? };
            Ok(Ended { end, at_rest: row.number("at_rest")? == 1 })
        })
        .collect()
}

/// Marks jobs to be removed, those that are at rest. Jobs that somebody holds are left for later. Returns how many.
pub async fn mark(tx: &Tx, jobs: &[Uuid], now: Timestamp) -> Result<usize, Error> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let text = "WITH {input} SELECT job.id FROM job WHERE job.id IN (SELECT id FROM input)
                ORDER BY job.id {skip_locked}";
    let rows = tx.query(task::ids(jobs).statement(tx.backend(), text, &[])).await?;
    let locked: Vec<Uuid> = rows.iter().map(|row| row.column("id")).collect::<Result<_, _>>()?;
    // Looked at again now that they are locked: one may have been run again since, or a callback of it sent again.
    let text = format!(
        "WITH {{input}} UPDATE job SET removing = true
         WHERE id IN (SELECT id FROM input) AND ended_at IS NOT NULL AND NOT removing AND {AT_REST}"
    );
    let marked = tx.execute(task::ids(&locked).statement(tx.backend(), &text, &[])).await?;
    let text = "WITH {input} INSERT INTO removed_job (id, removed_at)
                SELECT job.id, :now FROM job WHERE job.removing AND job.id IN (SELECT id FROM input)
                ON CONFLICT (id) DO NOTHING";
    tx.execute(task::ids(&locked).statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    Ok(usize::try_from(marked).unwrap_or(jobs.len()))
}

/// Jobs that are marked to be removed.
pub async fn removing(tx: &Tx, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = "SELECT id FROM job WHERE removing ORDER BY id LIMIT :limit";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Whether a job is marked to be removed.
pub async fn is_removing(tx: &Tx, job: Uuid) -> Result<bool, Error> {
    let text = "SELECT removing FROM job WHERE id = :job";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("job", job.into())])).await?;
    rows.first().map_or(Ok(false), |row| row.column("removing"))
}

/// Notes that the output of jobs is gone, as far as they have not been run again meanwhile.
pub async fn logs_removed(tx: &Tx, jobs: &[Uuid]) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let text = "WITH {input} UPDATE job SET logs_removed = true
                WHERE ended_at IS NOT NULL AND id IN (SELECT id FROM input)";
    tx.execute(task::ids(jobs).statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Notes that a job has output again: it is run again.
pub async fn logs_kept(tx: &Tx, job: Uuid) -> Result<(), Error> {
    let text = "UPDATE job SET logs_removed = false WHERE id = :job AND logs_removed";
    tx.execute(sql::statement(tx.backend(), text, &[("job", job.into())])).await?;
    Ok(())
}

/// Locks those of these jobs that are to be removed and that nobody else removes right now.
pub async fn claim(tx: &Tx, jobs: &[Uuid]) -> Result<Vec<Uuid>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let text = "WITH {input} SELECT job.id FROM job WHERE job.removing AND job.id IN (SELECT id FROM input)
                ORDER BY job.id {skip_locked}";
    let rows = tx.query(task::ids(jobs).statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Removes rows of jobs that are locked, at most so many, and the jobs themselves with the last ones. Returns how many rows.
pub async fn remove(tx: &Tx, jobs: &[Uuid], limit: u64) -> Result<u64, Error> {
    let mut removed = 0;
    for text in [
        "WITH {input} DELETE FROM callback WHERE id IN
             (SELECT id FROM callback WHERE job_id IN (SELECT id FROM input) LIMIT :limit)",
        "WITH {input} DELETE FROM task WHERE id IN
             (SELECT id FROM task WHERE job_id IN (SELECT id FROM input) LIMIT :limit)",
    ] {
        if !jobs.is_empty() && removed < limit {
            let left = (limit - removed).cast_signed();
            removed += tx.execute(task::ids(jobs).statement(tx.backend(), text, &[("limit", left.into())])).await?;
        }
    }
    let left = usize::try_from(limit - removed).unwrap_or(usize::MAX);
    let bare = &jobs[..jobs.len().min(left)];
    if bare.is_empty() {
        return Ok(removed);
    }
    for text in [COUNTED, "WITH {input} DELETE FROM after_counted WHERE source_job_id IN (SELECT id FROM input)"] {
        tx.execute(task::ids(bare).statement(tx.backend(), text, &[])).await?;
    }
    let text = "WITH {input} DELETE FROM job WHERE id IN (SELECT id FROM input)";
    Ok(removed + tx.execute(task::ids(bare).statement(tx.backend(), text, &[])).await?)
}

/// Forgets fires of job configs between these two that made no job and are too old. Returns how many.
pub async fn forget_fires(
    tx: &Tx,
    (after, to): (Uuid, Uuid),
    now: Timestamp,
    age: Duration,
    limit: u64,
) -> Result<u64, Error> {
    let text = "DELETE FROM fire WHERE (job_config_id, schedule, first_at) IN
                    (SELECT fire.job_config_id, fire.schedule, fire.first_at FROM job_config
                     JOIN fire ON fire.job_config_id = job_config.id
                     WHERE job_config.id > :after AND job_config.id <= :to
                         AND coalesce(job_config.retain_age, :age) > 0
                         AND fire.last_at < :now - coalesce(job_config.retain_age, :age) LIMIT :limit)";
    let params = [
        ("after", after.into()),
        ("to", to.into()),
        ("now", now.0.into()),
        ("age", micros(age).into()),
        ("limit", limit.cast_signed().into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

/// Forgets callbacks of fires that made no job, once they are delivered or given up. Returns how many.
pub async fn forget_callbacks(tx: &Tx, before: Timestamp, limit: u64) -> Result<u64, Error> {
    let text = "DELETE FROM callback WHERE id IN (SELECT id FROM callback WHERE job_id IS NULL
                    AND created_at < :before AND state <> 'PENDING' ORDER BY created_at LIMIT :limit)";
    let params = [("before", before.0.into()), ("limit", limit.cast_signed().into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

/// Forgets backfills that ended before this and none of whose jobs is left. Returns how many.
pub async fn forget_backfills(tx: &Tx, before: Timestamp, limit: u64) -> Result<u64, Error> {
    let text =
        "DELETE FROM backfill WHERE id IN (SELECT id FROM backfill WHERE ended_at < :before AND state <> 'RUNNING'
                    AND NOT EXISTS (SELECT 1 FROM job WHERE job.backfill_id = backfill.id)
                    ORDER BY ended_at LIMIT :limit)";
    let params = [("before", before.0.into()), ("limit", limit.cast_signed().into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

/// Forgets who changed what before this. Returns how many events.
pub async fn forget_audit(tx: &Tx, before: Timestamp, limit: u64) -> Result<u64, Error> {
    let text = "DELETE FROM audit_event WHERE id IN
                    (SELECT id FROM audit_event WHERE at < :before ORDER BY at LIMIT :limit)";
    let params = [("before", before.0.into()), ("limit", limit.cast_signed().into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

/// Jobs that were removed before this: nobody is told of them any more. Output of theirs may have come since.
pub async fn long_gone(tx: &Tx, before: Timestamp, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = "SELECT id FROM removed_job WHERE removed_at < :before
                    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = removed_job.id)
                ORDER BY removed_at, id LIMIT :limit";
    let params = [("before", before.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Forgets that there were these jobs.
pub async fn forget_jobs(tx: &Tx, jobs: &[Uuid]) -> Result<u64, Error> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let text = "WITH {input} DELETE FROM removed_job WHERE id IN (SELECT id FROM input)";
    tx.execute(task::ids(jobs).statement(tx.backend(), text, &[])).await
}

/// Whether a callback goes with its job, which is marked to be removed. The job is locked.
pub async fn takes_callback(tx: &Tx, callback: Uuid) -> Result<bool, Error> {
    let text = "SELECT job.id FROM callback JOIN job ON job.id = callback.job_id
                WHERE callback.id = :callback AND job.removing";
    Ok(!tx.query(sql::statement(tx.backend(), text, &[("callback", callback.into())])).await?.is_empty())
}
