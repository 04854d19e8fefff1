//! Which jobs led to which: the child of a task that stands for a job, and what made a job, with names.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use uuid::Uuid;

use super::{Job, word};
use crate::{
    domain::{job::JobState, origin::Trigger, placement},
    store::{
        Error, Store,
        entity::{job, task},
        row::Row as _,
        sql::{self, Input, uuid},
    },
};

/// The newest child of a task that stands for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The job.
    pub id: Uuid,
    /// The name of its config.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// How many of its tasks ended.
    pub tasks_ended: u32,
    /// How many it has.
    pub tasks_total: u32,
}

/// A job that another was made after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The job.
    pub id: Uuid,
    /// The name of its config.
    pub name: String,
}

/// What led to a job, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Led {
    /// The job config of the job whose consequence it is.
    pub parent_name: String,
    /// The task of that job.
    pub parent_task: String,
    /// The shard of that task.
    pub parent_shard: Option<u32>,
    /// The jobs that it was made after.
    pub after: Vec<Source>,
}

impl Store {
    /// The newest children of those rows that stand for a job, by task.
    pub(super) async fn children_of(&self, rows: &[task::Model]) -> Result<HashMap<Uuid, Child>, Error> {
        let tasks: Vec<Uuid> = rows.iter().filter(|row| row.class == placement::SUB_JOB).map(|row| row.id).collect();
        let mut children = HashMap::new();
        if tasks.is_empty() {
            return Ok(children);
        }
        let found = job::Entity::find()
            .filter(job::Column::ParentTaskId.is_in(tasks))
            .order_by_asc(job::Column::ParentAttempt)
            .all(self.reader())
            .await?;
        for row in found {
            let Some(task) = row.parent_task_id else { continue };
            let child = Child {
                id: row.id,
                state: word("job", row.id, &row.state, JobState::from_word)?,
                name: row.name,
                tasks_ended: row.tasks_ended.cast_unsigned(),
                tasks_total: row.tasks_total.cast_unsigned(),
            };
            children.insert(task, child);
        }
        Ok(children)
    }

    /// What led to those of these jobs that others led to, by job.
    pub(super) async fn led_to(&self, jobs: &[Job]) -> Result<HashMap<Uuid, Led>, Error> {
        let mut led: HashMap<Uuid, Led> = HashMap::new();
        let children: Vec<&Job> = jobs.iter().filter(|job| job.parent.is_some()).collect();
        if !children.is_empty() {
            let mut input = Input::new([uuid("child"), uuid("parent"), uuid("place")]);
            for job in children {
                let Some(parent) = job.parent else { continue };
                // No task has the id of nothing.
                let place = parent.task.map(|(task, _)| task).unwrap_or_default();
                input.push([job.id.into(), parent.job.into(), place.into()]);
            }
            let text = "WITH {input} SELECT input.child, job.name AS parent_name, task.shard_index,
                            task_config.name AS task_name
                        FROM input JOIN job ON job.id = input.parent
                        LEFT JOIN task ON task.id = input.place
                        LEFT JOIN task_config ON task_config.id = task.task_config_id";
            for row in self.reader().query_all_raw(input.statement(self.backend(), text, &[])).await? {
                let shard: Option<i32> = row.column("shard_index")?;
                let one = led.entry(row.column("child")?).or_default();
                one.parent_name = row.column("parent_name")?;
                one.parent_task = row.column::<Option<String>>("task_name")?.unwrap_or_default();
                one.parent_shard = shard.and_then(|shard| u32::try_from(shard).ok());
            }
        }
        let after: Vec<Uuid> = jobs.iter().filter(|job| job.trigger == Trigger::AfterJobs).map(|job| job.id).collect();
        if !after.is_empty() {
            let mut input = Input::new([uuid("job")]);
            for job in after {
                input.push([job.into()]);
            }
            let text = "WITH {input} SELECT job_id, source_job_id, name FROM job_source
                        WHERE job_id IN (SELECT job FROM input) ORDER BY job_id, name";
            for row in self.reader().query_all_raw(input.statement(self.backend(), text, &[])).await? {
                let source = Source { id: row.column("source_job_id")?, name: row.column("name")? };
                led.entry(row.column("job_id")?).or_default().after.push(source);
            }
        }
        Ok(led)
    }

    /// Which of the configs that one comes after have finished in this round, by name, with the job that did.
    pub async fn round(&self, config: Uuid) -> Result<HashMap<String, Uuid>, Error> {
        let text = "SELECT name, job_id FROM after_end WHERE job_config_id = :config";
        let of = [("config", config.into())];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), text, &of)).await?;
        rows.iter().map(|row| Ok((row.column("name")?, row.column("job_id")?))).collect()
    }
}
