//! Tells who changed what.

use baton::v1::{AuditEvent, ListAuditEventsRequest, ListAuditEventsResponse, audit_service_server::AuditService};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::{Api, Fields},
    convert,
    page::{self, Listing},
    status::Error,
};
use crate::store::{audit::AuditRow, read::AuditFilter};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Audit(pub(super) Api);

impl Audit {
    async fn list(&self, request: ListAuditEventsRequest) -> Result<ListAuditEventsResponse, Error> {
        let size = page::size(request.page_size)?;
        let mut fields = Fields::default();
        let since = fields.take(convert::read_timestamp("since", request.since));
        let before = fields.take(convert::read_timestamp("before", request.before));
        fields.check()?;
        let job = match request.job_id.as_str() {
            "" => None,
            // What was done to a job outlives it.
            part => Some(match part.parse::<Uuid>() {
                Ok(id) => id,
                Err(_) => self.0.job(part).await?.id,
            }),
        };
        let filter = AuditFilter {
            namespace: request.namespace,
            job,
            kind: request.kind,
            object: request.object,
            action: request.action,
            actor: request.actor,
            since,
            before,
        };
        let times = (filter.since.map(|at| at.0), filter.before.map(|at| at.0));
        let words = (&filter.namespace, &filter.kind, &filter.object, &filter.action, &filter.actor);
        let listing = Listing::new("ListAuditEvents", &(filter.job, words, times));
        let page = self.0.store.audit(&filter, listing.key(&request.page_token)?, size).await?;
        let last = page.rows.last().map(|event| listing.token(&event.id));
        Ok(ListAuditEventsResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            events: page.rows.into_iter().map(shown).collect(),
        })
    }
}

fn shown(event: AuditRow) -> AuditEvent {
    AuditEvent {
        id: event.id.to_string(),
        time: Some(convert::timestamp(event.at)),
        actor: event.actor,
        action: event.action,
        kind: event.kind,
        namespace: event.namespace,
        object: event.object,
        job_id: event.job_id.map(|id| id.to_string()).unwrap_or_default(),
        before: event.before,
        after: event.after,
        reason: event.reason,
        request_id: event.request_id,
    }
}

#[async_trait]
impl AuditService for Audit {
    async fn list_audit_events(
        &self,
        request: Request<ListAuditEventsRequest>,
    ) -> Result<Response<ListAuditEventsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }
}
