//! The queue: which tasks wait for a runner, by class and rank. What is asked here costs the same however many wait.

use sea_orm::{DbBackend, Statement};
use uuid::Uuid;

use super::{COLUMNS, TaskRow, read_all};
use crate::{
    domain::{task::TaskState, time::Timestamp},
    store::{
        Error, Tx,
        row::Row as _,
        sql::{self, Input, uuid},
    },
};

/// [`rank`](crate::domain::placement::rank) as the index over queued tasks has it: the ageing is written as a number,
/// since an index is found by its very text.
pub(in crate::store) const RANK: &str = "(queued_at - priority * CAST(60000000 AS bigint))";

/// The classes of the tasks that are queued, in their order, after the one given. Each is found by one step into the index,
/// however many tasks it has.
pub async fn queued_classes(tx: &Tx, after: &str, limit: u32) -> Result<Vec<String>, Error> {
    let rows = tx.query(classes(tx.backend(), after, limit)).await?;
    rows.iter().map(|row| row.column("class")).collect()
}

/// The classes of the tasks that are queued, as a recursive question that ends with nothing.
pub(in crate::store) const CLASSES: &str = "classes (class) AS (
        SELECT (SELECT class FROM task WHERE state = 'QUEUED' AND class > :after ORDER BY class LIMIT 1)
        UNION ALL
        SELECT (SELECT task.class FROM task WHERE task.state = 'QUEUED' AND task.class > classes.class
                ORDER BY task.class LIMIT 1)
        FROM classes WHERE classes.class IS NOT NULL
    )";

/// The question of [`queued_classes`].
pub(in crate::store) fn classes(backend: DbBackend, after: &str, limit: u32) -> Statement {
    let text = format!("WITH RECURSIVE {CLASSES} SELECT class FROM classes WHERE class IS NOT NULL LIMIT :limit");
    sql::statement(backend, &text, &[("after", after.into()), ("limit", i64::from(limit).into())])
}

/// Locks the next queued tasks of a class, leaving out what another scheduler is picking and the jobs that are laid aside.
pub async fn lock_queued(
    tx: &Tx,
    class: &str,
    now: Timestamp,
    limit: u32,
    laid_aside: &[Uuid],
) -> Result<Vec<TaskRow>, Error> {
    read_all(&tx.query(next(tx.backend(), class, now, limit, laid_aside)).await?)
}

/// The question for the next queued tasks: whatever is laid aside, it is answered in the order of the index.
fn next(backend: DbBackend, class: &str, now: Timestamp, limit: u32, laid_aside: &[Uuid]) -> Statement {
    let params = [("class", class.into()), ("now", now.0.into()), ("limit", i64::from(limit).into())];
    let question = |with: &str, but: &str| {
        format!(
            "{with} SELECT {COLUMNS} FROM task WHERE state = 'QUEUED' AND class = :class AND not_before <= :now {but}
             ORDER BY {RANK}, id LIMIT :limit {{skip_locked}}"
        )
    };
    if laid_aside.is_empty() {
        return sql::statement(backend, &question("", ""), &params);
    }
    let mut input = Input::new([uuid("laid_aside")]);
    for job in laid_aside {
        input.push([(*job).into()]);
    }
    let text = question("WITH {input}", "AND job_id NOT IN (SELECT laid_aside FROM input)");
    input.statement(backend, &text, &params)
}

/// Queues the tasks of runs of nodes of a job that is locked, from the first to the last of each run, which wait and whose
/// gates are open. Returns how many there were.
pub async fn queue_nodes(tx: &Tx, job: Uuid, runs: &[(u32, u32)], now: Timestamp, seq: i64) -> Result<u64, Error> {
    if runs.is_empty() {
        return Ok(0);
    }
    let mut input = Input::new([sql::int("first"), sql::int("last"), sql::text("seen_state")]);
    for (first, last) in runs {
        let seen = TaskState::Created.word();
        input.push([first.cast_signed().into(), last.cast_signed().into(), seen.into()]);
    }
    let text =
        "WITH {input} UPDATE task SET state = 'QUEUED', queued_at = CAST(:now AS bigint), seq = CAST(:seq AS bigint)
                FROM input
                WHERE task.job_id = :job AND task.node >= input.first AND task.node <= input.last
                    AND task.kind = 'TASK' AND task.state = input.seen_state";
    let params = [("now", now.0.into()), ("seq", seq.into()), ("job", job.into())];
    tx.execute(input.statement(tx.backend(), text, &params)).await
}

/// Queued tasks of a class, with their jobs, without a lock.
pub async fn queued_of_class(tx: &Tx, class: &str, limit: u32) -> Result<Vec<(Uuid, Uuid)>, Error> {
    let text = "SELECT id, job_id FROM task WHERE state = 'QUEUED' AND class = :class LIMIT :limit";
    let params = [("class", class.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| Ok((row.column("id")?, row.column("job_id")?))).collect()
}

/// Tasks of a class that are queued since this time or longer: id and job. Nothing is locked.
pub async fn queued_before(tx: &Tx, class: &str, before: Timestamp, limit: u32) -> Result<Vec<(Uuid, Uuid)>, Error> {
    let text = "SELECT id, job_id FROM task WHERE state = 'QUEUED' AND class = :class AND queued_at <= :before
                ORDER BY id LIMIT :limit";
    let params = [("class", class.into()), ("before", before.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| Ok((row.column("id")?, row.column("job_id")?))).collect()
}

/// When the next task that waits for a retry may be picked.
pub async fn next_not_before(tx: &Tx, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    // The second condition is that of an index: whatever else waits costs nothing.
    let text = "SELECT min(not_before) AS next FROM task
                WHERE state = 'QUEUED' AND not_before > 0 AND not_before > :now";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    let next: Option<i64> = rows.first().map(|row| row.column("next")).transpose()?.flatten();
    Ok(next.map(Timestamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            placement::{AGEING, rank},
            task::TaskState,
            time::micros,
        },
        store::{
            index_use, job, task,
            testing::{
                self,
                rows::{a_job, a_task},
            },
        },
    };

    #[test]
    fn the_index_ages_as_the_picker_does() {
        assert_eq!(RANK, format!("(queued_at - priority * CAST({} AS bigint))", micros(AGEING)));
    }

    #[tokio::test]
    async fn the_pick_reads_the_queue_in_its_order_and_sorts_nothing() {
        let world = testing::sqlite().await;
        for laid_aside in [Vec::new(), vec![Uuid::now_v7()]] {
            let plan = index_use::plan(&world, next(DbBackend::Sqlite, "a", Timestamp(1), 1, &laid_aside)).await;
            assert!(plan.iter().any(|step| step.contains("USING INDEX task_rank")), "{plan:?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }

    #[tokio::test]
    async fn who_waited_for_long_goes_first_also_while_a_job_is_laid_aside() {
        let minute = |count: i64| Timestamp(count * micros(AGEING));
        for world in testing::worlds().await {
            let (job, laid_aside) = (a_job(), a_job());
            let queued = |job, node, priority, at| TaskRow {
                priority,
                queued_at: Some(at),
                ..a_task(job, node, TaskState::Queued)
            };
            let patient = queued(&job, 0, 0, minute(1));
            let urgent = queued(&job, 1, 5, minute(7));
            let unreadable = queued(&laid_aside, 0, 100, minute(1));
            assert!(rank(0, minute(1)) < rank(5, minute(7)));
            let tx = world.store.begin().await.unwrap();
            job::insert(&tx, &[&job, &laid_aside]).await.unwrap();
            task::insert(&tx, &[&urgent, &patient, &unreadable]).await.unwrap();
            let next = lock_queued(&tx, &patient.class, minute(9), 9, &[laid_aside.id]).await.unwrap();
            let next: Vec<Uuid> = next.iter().map(|task| task.id).collect();
            assert_eq!(next, [patient.id, urgent.id]);
            let all = lock_queued(&tx, &patient.class, minute(9), 9, &[]).await.unwrap();
            let all: Vec<Uuid> = all.iter().map(|task| task.id).collect();
            assert_eq!(all, [unreadable.id, patient.id, urgent.id]);
        }
    }
}
