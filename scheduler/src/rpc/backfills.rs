//! Makes up for fires that lie in the past.

use std::{collections::BTreeSet, time::Duration};

use baton::v1::{
    self, BackfillState, CancelBackfillRequest, CancelBackfillResponse, CreateBackfillRequest, CreateBackfillResponse,
    GetBackfillRequest, GetBackfillResponse, ListBackfillsRequest, ListBackfillsResponse,
    backfill_service_server::BackfillService,
};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::{Api, Fields, one},
    calendars::within,
    caller::caller,
    convert,
    page::{self, Listing},
    schedules::fires,
    status::{Error, Kind},
};
use crate::{
    domain::{
        schedule::{COUNT_MAX, Language, Schedule, Spec, backfill::State, identity},
        time::Timestamp,
    },
    flow::request::{self, CancelBackfill},
    store::read,
};

/// The longest reason for a cancellation, in characters.
const REASON_MAX: usize = 1_000;

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Backfills(pub(super) Api);

impl Backfills {
    async fn create(&self, mut request: CreateBackfillRequest) -> Result<CreateBackfillResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let mut fields = Fields::default();
        let from = fields.take(convert::read_timestamp("from", request.from));
        let to = fields.take(convert::read_timestamp("to", request.to));
        let (Some(from), Some(to)) = (from, to) else {
            for (field, missing) in [("from", from.is_none()), ("to", to.is_none())] {
                if missing {
                    fields.refuse(field, "is needed: the fires from one instant up to another are made up for");
                }
            }
            return Err(fields.check().expect_err("a field is missing"));
        };
        fields.check()?;
        let namespace = Api::namespace(request.namespace);
        let schedule = Some(request.schedule).filter(|key| !key.is_empty());
        let max_parallel = request.max_parallel.max(1);
        let order = request::Backfill {
            caller,
            namespace: namespace.clone(),
            name: request.job_config,
            schedule,
            from,
            to,
            max_parallel,
            again: request.again,
        };
        if request.dry_run {
            return self.would_do(order).await;
        }
        match self.0.engine.backfill(order).await {
            Ok(id) => Ok(CreateBackfillResponse { backfill: Some(self.by_id(id).await?), fires: Vec::new() }),
            Err(refusal) => Err(self.0.with_suggestion(refusal, &namespace).await),
        }
    }

    /// What a backfill would do.
    async fn would_do(&self, order: request::Backfill) -> Result<CreateBackfillResponse, Error> {
        let request::Backfill { namespace, name, schedule, from, to, max_parallel, again, .. } = order;
        let Some(config) = self.0.store.config(&namespace, &name, None).await? else {
            return Err(self.0.unknown_config(&namespace, &name).await);
        };
        let rows = self.0.store.schedules_of(&[(namespace.clone(), name.clone())]).await?;
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        let found = match (&schedule, rows.as_slice()) {
            (Some(key), _) => rows.iter().find(|row| row.key == *key),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some((row, spec)) = found.and_then(|row| Some((row, row.spec.as_ref()?))) else {
            let known = if keys.is_empty() { "it has none".to_owned() } else { format!("it has {}", keys.join(", ")) };
            return Err(Error::invalid("schedule", format!("says which schedule of {name:?} is meant: {known}")));
        };
        let calendars = self.0.calendars_of(std::iter::once((namespace.as_str(), spec))).await?;
        let known = identity(&namespace, &name, &row.key);
        // What is made up for starts when there is room, whatever the jitter of its fire.
        let spec = &Spec { jitter: Duration::ZERO, ..spec.clone() };
        let schedule = Schedule::new(spec, &known, row.created_at, &within(&calendars, &namespace))
            .map_err(|problems| Error::invalid("schedule", problems[0].to_string()))?;
        let now = self.0.store.now().await?;
        let range = schedule.backfill(from, to, now).map_err(|(field, message)| Error::invalid(field, message))?;
        let mut preview = schedule
            .preview(Timestamp(from.0 - 1), COUNT_MAX, Language::English)
            .map_err(|fault| Error::invalid("schedule", fault.to_string()))?;
        preview.fires.retain(|fire| fire.time < to);
        let times: Vec<Timestamp> = preview.fires.iter().map(|fire| fire.time).collect();
        let made: BTreeSet<Timestamp> =
            self.0.store.fires_with_jobs(config.id, &row.key, &times).await?.into_iter().collect();
        for fire in preview.fires.iter_mut().filter(|fire| made.contains(&fire.time)) {
            let has = if again { "has a job already and gets another" } else { "has a job already" };
            fire.note = if fire.note.is_empty() { has.to_owned() } else { format!("{}; {has}", fire.note) };
        }
        let backfill = v1::Backfill {
            namespace,
            job_config: name,
            schedule: row.key.clone(),
            from: Some(convert::timestamp(from)),
            to: Some(convert::timestamp(to)),
            max_parallel,
            again,
            fires: range.count,
            passed_over: if again { 0 } else { made.len() as u64 },
            ..v1::Backfill::default()
        };
        Ok(CreateBackfillResponse { backfill: Some(backfill), fires: fires(&preview) })
    }

    async fn by_id(&self, id: Uuid) -> Result<v1::Backfill, Error> {
        let found = self.0.store.backfill(id).await?;
        found.map(shown).ok_or_else(|| Error::not_found(Kind::Backfill, id))
    }

    async fn id(&self, part: &str) -> Result<Uuid, Error> {
        one("backfill_id", Kind::Backfill, part, self.0.store.find_backfill(part).await?)
    }

    async fn page(&self, request: ListBackfillsRequest) -> Result<ListBackfillsResponse, Error> {
        let size = page::size(request.page_size)?;
        let ListBackfillsRequest { namespace, job_config, page_token, .. } = request;
        let listing = Listing::new("ListBackfills", &(&namespace, &job_config));
        let page = self.0.store.backfills(&namespace, &job_config, listing.key(&page_token)?, size).await?;
        let last = page.rows.last().map(|one| listing.token(&one.row.id));
        Ok(ListBackfillsResponse {
            backfills: page.rows.into_iter().map(shown).collect(),
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
        })
    }

    async fn end(&self, mut request: CancelBackfillRequest) -> Result<CancelBackfillResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        if request.reason.chars().count() > REASON_MAX {
            return Err(Error::invalid("reason", format!("has at most {REASON_MAX} characters")));
        }
        let id = self.id(&request.backfill_id).await?;
        let known = self.by_id(id).await?;
        let (namespace, name) = (known.namespace, known.job_config);
        self.0.engine.cancel_backfill(CancelBackfill { caller, id, namespace, name, reason: request.reason }).await?;
        Ok(CancelBackfillResponse { backfill: Some(self.by_id(id).await?) })
    }
}

fn shown(backfill: read::Backfill) -> v1::Backfill {
    let read::Backfill { row, live, finished, failed } = backfill;
    let state = match row.state {
        State::Running => BackfillState::Running,
        State::Done => BackfillState::Done,
        State::Cancelled => BackfillState::Cancelled,
    };
    v1::Backfill {
        id: row.id.to_string(),
        namespace: row.namespace,
        job_config: row.name,
        schedule: row.schedule,
        from: Some(convert::timestamp(row.from_at)),
        to: Some(convert::timestamp(row.to_at)),
        max_parallel: row.max_parallel,
        again: row.again,
        state: state.into(),
        reason: row.reason,
        fires: row.total,
        jobs: row.made,
        passed_over: row.passed_over,
        live,
        finished,
        failed,
        create_time: Some(convert::timestamp(row.created_at)),
        end_time: row.ended_at.map(convert::timestamp),
    }
}

#[async_trait]
impl BackfillService for Backfills {
    async fn create_backfill(
        &self,
        request: Request<CreateBackfillRequest>,
    ) -> Result<Response<CreateBackfillResponse>, Status> {
        Ok(Response::new(self.create(request.into_inner()).await?))
    }

    async fn get_backfill(
        &self,
        request: Request<GetBackfillRequest>,
    ) -> Result<Response<GetBackfillResponse>, Status> {
        let id = self.id(&request.into_inner().backfill_id).await?;
        Ok(Response::new(GetBackfillResponse { backfill: Some(self.by_id(id).await?) }))
    }

    async fn list_backfills(
        &self,
        request: Request<ListBackfillsRequest>,
    ) -> Result<Response<ListBackfillsResponse>, Status> {
        Ok(Response::new(self.page(request.into_inner()).await?))
    }

    async fn cancel_backfill(
        &self,
        request: Request<CancelBackfillRequest>,
    ) -> Result<Response<CancelBackfillResponse>, Status> {
        Ok(Response::new(self.end(request.into_inner()).await?))
    }
}
