//! Questions about jobs.

use std::{collections::BTreeMap, time::Duration};

use sea_orm::{
    ColumnTrait as _, Condition, DbBackend, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
    Select, sea_query::Expr,
};
use uuid::Uuid;

use super::{Led, Page, has_labels, map, word};
use crate::{
    domain::{
        definition::span,
        job::JobState,
        origin::{Parent, Trigger},
        time::{Timestamp, micros},
    },
    store::{Error, Store, entity::job},
};

/// How far the time inside an id may be from the time of the row: clocks of schedulers differ, and are set.
const ID_SLACK: Duration = Duration::from_hours(24);

/// A job, without its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// The job config it was made from.
    pub config_id: Uuid,
    /// At this version.
    pub version: u32,
    /// The namespace of that config.
    pub namespace: String,
    /// The name of that config.
    pub name: String,
    /// The labels of that config.
    pub labels: BTreeMap<String, String>,
    /// Its state.
    pub state: JobState,
    /// Why.
    pub reason: String,
    /// Its parameters, defaults included.
    pub params: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it became RUNNING.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it runs out of time.
    pub deadline_at: Option<Timestamp>,
    /// It waits for the end of the jobs before it, or for a place.
    pub waiting: bool,
    /// It waits for a place among the jobs of its config that may run.
    pub held: bool,
    /// The one runner that may take its tasks.
    pub pin: Option<String>,
    /// What has not started will not start.
    pub stopping: bool,
    /// How many nodes its graph has.
    pub tasks_total: u32,
    /// How many of them ended.
    pub tasks_ended: u32,
    /// How many of them failed in a way that counts.
    pub tasks_failed: u32,
    /// What made it.
    pub trigger: Trigger,
    /// Which of the jobs of that fire it is: 0 for the one that the schedule made.
    pub rerun_no: u32,
    /// The backfill that made it.
    pub backfill_id: Option<Uuid>,
    /// The job it is a consequence of.
    pub parent: Option<Parent>,
    /// What led to it, by name.
    pub led: Led,
    /// The schedule that made it.
    pub schedule: Option<String>,
    /// The instant that a schedule made it for.
    pub fire_time: Option<Timestamp>,
    /// Grows with every change.
    pub seq: u64,
    /// Its output is not kept any more.
    pub logs_removed: bool,
}

/// Which jobs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only jobs of this config.
    pub name: Option<String>,
    /// Only jobs in one of these states; empty means any.
    pub states: Vec<JobState>,
    /// Only jobs with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only jobs made at or after this.
    pub since: Option<Timestamp>,
    /// Only jobs made before this.
    pub before: Option<Timestamp>,
    /// Only jobs that this one led to.
    pub parent: Option<Uuid>,
    /// Only jobs that one of these made; empty means any.
    pub triggers: Vec<Trigger>,
}

impl Store {
    /// One job.
    pub async fn job(&self, id: Uuid) -> Result<Option<Job>, Error> {
        let question = job::Entity::find_by_id(id).filter(job::Column::Removing.eq(false));
        let job = question.one(self.reader()).await?.map(Job::try_from).transpose()?;
        let mut jobs: Vec<Job> = job.into_iter().collect();
        self.lead(&mut jobs).await?;
        Ok(jobs.pop())
    }

    /// Jobs, newest first, below the one given.
    pub async fn jobs(&self, filter: &JobFilter, below: Option<Uuid>, limit: u64) -> Result<Page<Job>, Error> {
        let rows = newest(self.backend(), filter, below).limit(limit + 1).all(self.reader()).await?;
        let page = Page::cut(rows, limit);
        let mut rows = page.rows.into_iter().map(Job::try_from).collect::<Result<Vec<_>, Error>>()?;
        self.lead(&mut rows).await?;
        Ok(Page { rows, more: page.more })
    }

    /// Fills in what led to jobs.
    async fn lead(&self, jobs: &mut [Job]) -> Result<(), Error> {
        let mut led = self.led_to(jobs).await?;
        for job in jobs.iter_mut() {
            job.led = led.remove(&job.id).unwrap_or_default();
        }
        Ok(())
    }
}

/// The question for jobs, newest first.
fn newest(backend: DbBackend, filter: &JobFilter, below: Option<Uuid>) -> Select<job::Entity> {
    use job::Column as C;
    let kept = job::Entity::find().filter(C::Removing.eq(false));
    let mut question = kept.filter(has_labels(backend, C::Labels, &filter.labels));
    if let Some(namespace) = &filter.namespace {
        question = question.filter(C::Namespace.eq(namespace));
    }
    if let Some(name) = &filter.name {
        question = question.filter(C::Name.eq(name));
    }
    if !filter.states.is_empty() {
        question = question.filter(C::State.is_in(filter.states.iter().map(|state| state.word())));
        if !filter.states.contains(&JobState::Finished) {
            // In the words of an index: almost all that is over has finished.
            question = question.filter(Expr::cust("state <> 'FINISHED'"));
        }
    }
    // An id tells its time, so that a span of time is a range of ids and old rows are never looked at.
    if let Some(since) = filter.since {
        let low = first_id_at(since.0.saturating_sub(micros(ID_SLACK)));
        question = question.filter(C::CreatedAt.gte(since.0)).filter(C::Id.gte(low));
    }
    if let Some(before) = filter.before {
        let high = first_id_at(before.0.saturating_add(micros(ID_SLACK)));
        question = question.filter(C::CreatedAt.lt(before.0)).filter(C::Id.lt(high));
    }
    if let Some(parent) = filter.parent {
        question = question.filter(C::ParentJobId.eq(parent));
    }
    if !filter.triggers.is_empty() {
        // What the older column has no word for stands in the newer one.
        let words = || filter.triggers.iter().map(|trigger| trigger.word());
        let old = Condition::all().add(C::Cause.is_null()).add(C::TriggerKind.is_in(words()));
        question = question.filter(Condition::any().add(C::Cause.is_in(words())).add(old));
    }
    if let Some(below) = below {
        question = question.filter(C::Id.lt(below));
    }
    question.order_by_desc(C::Id)
}

/// The lowest UUID v7 of a time in microseconds.
fn first_id_at(micros: i64) -> Uuid {
    let millis = u128::try_from(micros / 1000).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}

impl TryFrom<job::Model> for Job {
    type Error = Error;

    fn try_from(row: job::Model) -> Result<Self, Error> {
        // That it takes long is said as long as it goes on and nothing else is to be said.
        let state = word("job", row.id, &row.state, JobState::from_word)?;
        let warned = row.warned_at.and(row.warn_at).zip(row.started_at);
        let reason = match warned.filter(|_| state == JobState::Running && row.reason.is_empty()) {
            Some((warn_at, started_at)) => {
                format!("runs longer than {}", span::format(Timestamp(warn_at).since(Timestamp(started_at))))
            }
            None => row.reason,
        };
        let trigger = row.cause.as_deref().unwrap_or(&row.trigger_kind);
        let task = row.parent_task_id.zip(row.parent_attempt.map(i32::cast_unsigned));
        Ok(Self {
            trigger: word("job", row.id, trigger, Trigger::from_word)?,
            led: Led::default(),
            parent: row.parent_job_id.map(|job| Parent { job, task }),
            labels: map("job", row.id, &row.labels)?,
            state,
            params: map("job", row.id, &row.params)?,
            id: row.id,
            config_id: row.job_config_id,
            version: row.version.cast_unsigned(),
            namespace: row.namespace,
            name: row.name,
            reason,
            created_at: Timestamp(row.created_at),
            started_at: row.started_at.map(Timestamp),
            ended_at: row.ended_at.map(Timestamp),
            deadline_at: row.deadline_at.map(Timestamp),
            waiting: row.waiting,
            held: row.held,
            pin: row.runner,
            stopping: row.stopping,
            tasks_total: row.tasks_total.cast_unsigned(),
            tasks_ended: row.tasks_ended.cast_unsigned(),
            tasks_failed: row.tasks_failed.cast_unsigned(),
            schedule: row.schedule,
            fire_time: row.fire_time.map(Timestamp),
            rerun_no: row.rerun_no.cast_unsigned(),
            backfill_id: row.backfill_id,
            seq: row.seq.cast_unsigned(),
            logs_removed: row.logs_removed,
        })
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::QueryTrait as _;

    use super::*;
    use crate::store::{index_use, testing};

    #[test]
    fn an_id_is_not_below_the_first_of_its_time() {
        let now = chrono::Utc::now().timestamp_micros();
        let id = Uuid::now_v7();
        assert!(first_id_at(now) <= id);
        assert!(id < first_id_at(now + 60_000_000));
        assert_eq!(first_id_at(-5), Uuid::nil());
    }

    #[tokio::test]
    async fn jobs_that_failed_or_live_are_found_however_many_have_finished() {
        let world = testing::sqlite().await;
        for states in [vec![JobState::Failed], vec![JobState::Created, JobState::Running]] {
            let filter = JobFilter { states, ..JobFilter::default() };
            let question = newest(DbBackend::Sqlite, &filter, None).limit(21).build(DbBackend::Sqlite);
            let plan = index_use::plan(&world, question).await;
            assert!(plan.iter().any(|step| step.contains("USING INDEX job_unfinished")), "{plan:?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }
}
