//! What somebody asked for that changed something.

use uuid::Uuid;

use super::{
    Error, Tx,
    sql::{Input, bigint, text, uuid},
};
use crate::domain::time::Timestamp;

/// One such event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its id; it tells the order of events.
    pub id: Uuid,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// The method of the API.
    pub action: String,
    /// What kind of thing was changed: "job config", "job", "task", "runner", "scheduler".
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its name or id.
    pub object: String,
    /// The job, if it was about one.
    pub job_id: Option<Uuid>,
    /// How it stood before.
    pub before: String,
    /// How it stood afterwards.
    pub after: String,
    /// Why, in the words of who asked.
    pub reason: String,
    /// The id of the request, if it had one.
    pub request_id: String,
}

/// Writes events down.
pub async fn insert(tx: &Tx, events: &[AuditRow]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        bigint("at"),
        text("actor"),
        text("action"),
        text("kind"),
        text("namespace"),
        text("object"),
        uuid("job_id").nullable(),
        text("before"),
        text("after"),
        text("reason"),
        text("request_id"),
    ]);
    for event in events {
        input.push([
            event.id.into(),
            event.at.0.into(),
            event.actor.as_str().into(),
            event.action.as_str().into(),
            event.kind.as_str().into(),
            event.namespace.as_str().into(),
            event.object.as_str().into(),
            event.job_id.into(),
            event.before.as_str().into(),
            event.after.as_str().into(),
            event.reason.as_str().into(),
            event.request_id.as_str().into(),
        ]);
    }
    let text = "WITH {input} INSERT INTO audit_event (id, at, actor, action, kind, namespace, object, job_id, before,
                    after, reason, request_id)
                SELECT id, at, actor, action, kind, namespace, object, job_id, before, after, reason, request_id
                FROM input";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}
