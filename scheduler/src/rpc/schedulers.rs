//! Reads schedulers.

use baton::v1::{ListSchedulersRequest, ListSchedulersResponse, Scheduler, scheduler_service_server::SchedulerService};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::Api,
    convert,
    page::{self, Listing},
    status::{Error, Kind},
};
use crate::{domain::time::Timestamp, store::read};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Schedulers(pub(super) Api);

impl Schedulers {
    async fn list(&self, request: ListSchedulersRequest) -> Result<ListSchedulersResponse, Error> {
        let size = page::size(request.page_size)?;
        let listing = Listing::new("ListSchedulers", &());
        let page = self.0.store.schedulers(listing.key(&request.page_token)?, size).await?;
        let last = page.rows.last().map(|scheduler| listing.token(&scheduler.id));
        let now = self.0.store.now().await?;
        Ok(ListSchedulersResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            schedulers: page.rows.into_iter().map(|scheduler| self.0.shown_scheduler(scheduler, now)).collect(),
        })
    }
}

impl Api {
    /// A scheduler as it now is.
    pub(super) async fn scheduler(&self, id: Uuid) -> Result<Scheduler, Error> {
        let scheduler = self.store.scheduler(id).await?.ok_or_else(|| Error::not_found(Kind::Scheduler, id))?;
        Ok(self.shown_scheduler(scheduler, self.store.now().await?))
    }

    fn shown_scheduler(&self, scheduler: read::Scheduler, now: Timestamp) -> Scheduler {
        let state = scheduler.state.seen(scheduler.last_seen_at, now, self.timing.lost_after);
        convert::fleet::scheduler(scheduler, state)
    }
}

#[async_trait]
impl SchedulerService for Schedulers {
    async fn list_schedulers(
        &self,
        request: Request<ListSchedulersRequest>,
    ) -> Result<Response<ListSchedulersResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }
}
