//! Reads runners.

use baton::v1::{
    GetRunnerRequest, GetRunnerResponse, ListRunnersRequest, ListRunnersResponse, Runner,
    runner_service_server::RunnerService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::Api,
    convert,
    page::{self, Listing},
    status::Error,
};
use crate::{
    domain::{
        runner::{RunnerState, Signs},
        time::Timestamp,
    },
    store::read,
};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Runners(pub(super) Api);

impl Runners {
    async fn get(&self, request: GetRunnerRequest) -> Result<GetRunnerResponse, Error> {
        Ok(GetRunnerResponse { runner: Some(self.0.runner(&request.runner_id).await?) })
    }

    async fn list(&self, request: ListRunnersRequest) -> Result<ListRunnersResponse, Error> {
        let size = page::size(request.page_size)?;
        let labels = convert::sorted(request.labels);
        let listing = Listing::new("ListRunners", &labels);
        let after: Option<String> = listing.key(&request.page_token)?;
        let page = self.0.store.runners(&labels, after.as_deref(), size).await?;
        let last = page.rows.last().map(|runner| listing.token(&runner.id));
        let now = self.0.store.now().await?;
        Ok(ListRunnersResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            runners: page.rows.into_iter().map(|runner| self.0.shown_runner(runner, now)).collect(),
        })
    }
}

impl Api {
    /// A runner as it now is.
    pub(super) async fn runner(&self, id: &str) -> Result<Runner, Error> {
        let Some(runner) = self.store.runner(id).await? else { return Err(self.unknown_runner(id).await) };
        Ok(self.shown_runner(runner, self.store.now().await?))
    }

    fn shown_runner(&self, runner: read::Runner, now: Timestamp) -> Runner {
        let state = self.runner_state(&runner, now);
        convert::fleet::runner(runner, state)
    }

    /// Whether a runner can be given work at this time.
    pub(super) fn runner_state(&self, runner: &read::Runner, now: Timestamp) -> RunnerState {
        let signs = Signs {
            has_session: runner.has_session,
            draining: runner.drained || runner.draining,
            last_seen_at: runner.last_seen_at,
            hold_until: runner.hold_until,
        };
        RunnerState::of(signs, now, self.timing.silent_after())
    }
}

#[async_trait]
impl RunnerService for Runners {
    async fn get_runner(&self, request: Request<GetRunnerRequest>) -> Result<Response<GetRunnerResponse>, Status> {
        Ok(Response::new(self.get(request.into_inner()).await?))
    }

    async fn list_runners(
        &self,
        request: Request<ListRunnersRequest>,
    ) -> Result<Response<ListRunnersResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }
}
