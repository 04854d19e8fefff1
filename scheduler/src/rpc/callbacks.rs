//! Tells what is told to others, and has it told again.

use baton::v1::{
    CallbackDelivery, CallbackState, GetCallbackRequest, GetCallbackResponse, ListCallbacksRequest,
    ListCallbacksResponse, ResendCallbackRequest, ResendCallbackResponse, callback_service_server::CallbackService,
};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::Api,
    convert,
    page::{self, Listing},
    status::{Error, Kind},
};
use crate::{domain::callback::State, store::read::CallbackFilter};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Callbacks(pub(super) Api);

impl Callbacks {
    async fn list(&self, request: ListCallbacksRequest) -> Result<ListCallbacksResponse, Error> {
        let size = page::size(request.page_size)?;
        let state = match CallbackState::try_from(request.state) {
            Ok(CallbackState::Unspecified) => None,
            Ok(CallbackState::Pending) => Some(State::Pending),
            Ok(CallbackState::Delivered) => Some(State::Delivered),
            Ok(CallbackState::GivenUp) => Some(State::GivenUp),
            Err(_) => return Err(Error::invalid("state", "is no state of a callback: PENDING, DELIVERED or GIVEN_UP")),
        };
        let job = if request.job_id.is_empty() { None } else { Some(self.0.job(&request.job_id).await?.id) };
        let ListCallbacksRequest { namespace, job_config, page_token, .. } = request;
        let listing = Listing::new("ListCallbacks", &(&namespace, &job_config, job, request.state));
        let filter = CallbackFilter { namespace, config: job_config, job, state };
        let page = self.0.store.callbacks(&filter, listing.key(&page_token)?, size).await?;
        let last = page.rows.last().map(|callback| listing.token(&callback.id));
        Ok(ListCallbacksResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            callbacks: page.rows.into_iter().map(convert::callbacks::delivery).collect(),
        })
    }

    async fn read(&self, id: Uuid) -> Result<CallbackDelivery, Error> {
        let callback = self.0.store.callback(id).await?.ok_or_else(|| Error::not_found(Kind::Callback, id))?;
        Ok(convert::callbacks::delivery(callback))
    }

    async fn resend(&self, part: &str) -> Result<CallbackDelivery, Error> {
        let id = self.0.callback_id(part).await?;
        self.0.engine.resend(id).await?;
        self.read(id).await
    }
}

#[async_trait]
impl CallbackService for Callbacks {
    async fn list_callbacks(
        &self,
        request: Request<ListCallbacksRequest>,
    ) -> Result<Response<ListCallbacksResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn get_callback(
        &self,
        request: Request<GetCallbackRequest>,
    ) -> Result<Response<GetCallbackResponse>, Status> {
        let id = self.0.callback_id(&request.into_inner().callback_id).await?;
        Ok(Response::new(GetCallbackResponse { callback: Some(self.read(id).await?) }))
    }

    async fn resend_callback(
        &self,
        request: Request<ResendCallbackRequest>,
    ) -> Result<Response<ResendCallbackResponse>, Status> {
        let callback = self.resend(&request.into_inner().callback_id).await?;
        Ok(Response::new(ResendCallbackResponse { callback: Some(callback) }))
    }
}
