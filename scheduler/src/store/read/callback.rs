//! Questions about what is told to others.

use sea_orm::{ConnectionTrait as _, QueryResult};
use uuid::Uuid;

use super::Page;
use crate::{
    domain::{
        callback::{Event, State},
        definition::callback::Action,
        time::Timestamp,
    },
    store::{
        Error, Store,
        callback::{action, event, state},
        row::Row as _,
        sql,
    },
};

/// One event on its way to one receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct Callback {
    /// Its id.
    pub id: Uuid,
    /// The id of the event.
    pub event_id: Uuid,
    /// What happened.
    pub event: Event,
    /// The namespace of the job config.
    pub namespace: String,
    /// The name of the job config.
    pub config: String,
    /// The job.
    pub job_id: Option<Uuid>,
    /// The name of the task; empty for an event of the job.
    pub task: String,
    /// Its place among the callbacks of the job config or the task.
    pub position: u32,
    /// What is done.
    pub action: Action,
    /// Whether it holds its task.
    pub blocking: bool,
    /// Where it is.
    pub state: State,
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried next; none while it is being tried.
    pub next_try_at: Option<Timestamp>,
    /// The last answer.
    pub response_code: Option<i32>,
    /// Why the last try failed.
    pub last_error: String,
    /// The job that it started.
    pub made_job_id: Option<Uuid>,
    /// When the event happened.
    pub created_at: Timestamp,
    /// When it was delivered or given up.
    pub ended_at: Option<Timestamp>,
    /// What is told.
    pub payload: String,
}

/// Which of them are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallbackFilter {
    /// Only of this namespace; empty means all.
    pub namespace: String,
    /// Only of this job config; empty means all.
    pub config: String,
    /// Only of this job.
    pub job: Option<Uuid>,
    /// Only in this state.
    pub state: Option<State>,
}

const COLUMNS: &str =
    "id, event_id, event, namespace, name, job_id, task_name, position, action, blocking, state, tries,
    owner, next_try_at, response_code, last_error, made_job_id, created_at, ended_at";

impl Store {
    /// Callbacks, newest first, below the one given.
    pub async fn callbacks(
        &self,
        filter: &CallbackFilter,
        below: Option<Uuid>,
        limit: u64,
    ) -> Result<Page<Callback>, Error> {
        let mut conditions = vec!["id < :below"];
        let mut params = vec![
            ("below", below.unwrap_or(Uuid::max()).into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        if !filter.namespace.is_empty() {
            conditions.push("namespace = :namespace");
            params.push(("namespace", filter.namespace.as_str().into()));
        }
        if !filter.config.is_empty() {
            conditions.push("name = :name");
            params.push(("name", filter.config.as_str().into()));
        }
        if let Some(job) = filter.job {
            conditions.push("job_id = :job");
            params.push(("job", job.into()));
        }
        // As values, so that the indexes over one state are taken.
        conditions.extend(filter.state.map(|state| match state {
            State::Pending => "state = 'PENDING'",
            State::Delivered => "state = 'DELIVERED'",
            State::GivenUp => "state = 'GIVEN_UP'",
        }));
        let text = format!(
            "SELECT {COLUMNS}, '' AS payload FROM callback WHERE {} ORDER BY id DESC LIMIT :limit",
            conditions.join(" AND ")
        );
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        Ok(Page::cut(rows.iter().map(read).collect::<Result<_, Error>>()?, limit))
    }

    /// One callback, with what it tells.
    pub async fn callback(&self, id: Uuid) -> Result<Option<Callback>, Error> {
        let text = format!("SELECT {COLUMNS}, payload FROM callback WHERE id = :id");
        let row = self.reader().query_one_raw(sql::statement(self.backend(), &text, &[("id", id.into())])).await?;
        row.as_ref().map(read).transpose()
    }

    /// What holds a task in CALLBACK.
    pub async fn callbacks_holding(&self, task: Uuid) -> Result<Vec<Callback>, Error> {
        let text = format!(
            "SELECT {COLUMNS}, '' AS payload FROM callback WHERE task_id = :task AND blocking AND state = 'PENDING'
             ORDER BY id"
        );
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &[("task", task.into())])).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &QueryResult) -> Result<Callback, Error> {
    let id: Uuid = row.column("id")?;
    let owner: Option<Uuid> = row.column("owner")?;
    let state = state(row, id)?;
    let waits = state == State::Pending && owner.is_none();
    Ok(Callback {
        id,
        event_id: row.column("event_id")?,
        event: event(row, id)?,
        namespace: row.column("namespace")?,
        config: row.column("name")?,
        job_id: row.column("job_id")?,
        task: row.column("task_name")?,
        position: row.number("position")?,
        action: action(row, id)?,
        blocking: row.column("blocking")?,
        state,
        tries: row.number("tries")?,
        next_try_at: row.time("next_try_at")?.filter(|_| waits),
        response_code: row.column("response_code")?,
        last_error: row.column("last_error")?,
        made_job_id: row.column("made_job_id")?,
        created_at: Timestamp(row.column("created_at")?),
        ended_at: row.time("ended_at")?,
        payload: row.column("payload")?,
    })
}
