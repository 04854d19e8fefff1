//! Questions about what persons did.

use sea_orm::{ConnectionTrait as _, QueryResult};
use uuid::Uuid;

use super::Page;
use crate::{
    domain::time::Timestamp,
    store::{Error, Store, audit::AuditRow, row::Row as _, sql},
};

/// Which events to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only this namespace; empty means any, and what has none.
    pub namespace: String,
    /// Only events about this job and its tasks.
    pub job: Option<Uuid>,
    /// Only this kind of object.
    pub kind: String,
    /// Only this object.
    pub object: String,
    /// Only this method.
    pub action: String,
    /// Only this actor.
    pub actor: String,
    /// Only at or after this.
    pub since: Option<Timestamp>,
    /// Only before this.
    pub before: Option<Timestamp>,
}

impl Store {
    /// What persons did, newest first, below the event given.
    pub async fn audit(&self, filter: &AuditFilter, below: Option<Uuid>, limit: u64) -> Result<Page<AuditRow>, Error> {
        let mut text =
            "SELECT id, at, actor, action, kind, namespace, object, job_id, before, after, reason, request_id
                        FROM audit_event WHERE id < :below"
                .to_owned();
        let mut params = vec![
            ("below", below.unwrap_or(Uuid::max()).into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        if let Some(job) = filter.job {
            text.push_str(" AND job_id = :job");
            params.push(("job", job.into()));
        }
        for (condition, name, value) in [
            (" AND namespace = :namespace", "namespace", &filter.namespace),
            (" AND kind = :kind", "kind", &filter.kind),
            (" AND object = :object", "object", &filter.object),
            (" AND action = :action", "action", &filter.action),
            (" AND actor = :actor", "actor", &filter.actor),
        ] {
            if !value.is_empty() {
                text.push_str(condition);
                params.push((name, value.as_str().into()));
            }
        }
        if let Some(since) = filter.since {
            text.push_str(" AND at >= :since");
            params.push(("since", since.0.into()));
        }
        if let Some(before) = filter.before {
            text.push_str(" AND at < :before_time");
            params.push(("before_time", before.0.into()));
        }
        text.push_str(" ORDER BY id DESC LIMIT :limit");
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        Ok(Page::cut(rows.iter().map(read).collect::<Result<_, Error>>()?, limit))
    }
}

fn read(row: &QueryResult) -> Result<AuditRow, Error> {
    Ok(AuditRow {
        id: row.column("id")?,
        at: Timestamp(row.column("at")?),
        actor: row.column("actor")?,
        action: row.column("action")?,
        kind: row.column("kind")?,
        namespace: row.column("namespace")?,
        object: row.column("object")?,
        job_id: row.column("job_id")?,
        before: row.column("before")?,
        after: row.column("after")?,
        reason: row.column("reason")?,
        request_id: row.column("request_id")?,
    })
}
