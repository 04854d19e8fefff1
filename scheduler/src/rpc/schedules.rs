//! Tells what schedules mean, what they wait for, and which fires made no job.

use baton::v1::{
    ListFiresRequest, ListFiresResponse, ListSchedulesRequest, ListSchedulesResponse, MissedFires, PreviewRequest,
    PreviewResponse, PreviewedFire, ScheduleLanguage, ScheduleState, StoredSchedule,
    schedule_service_server::ScheduleService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::Api,
    convert,
    page::{self, Listing},
    status::{Error, Violation},
};
use crate::{
    domain::{
        definition::{JobConfig, Schedule},
        schedule::{self, COUNT_MAX, Language, Next, Preview, identity},
        time::Timestamp,
    },
    store::{read, schedule::State},
};

/// How many fires a preview shows unless asked for more.
const FIRES_DEFAULT: u32 = 5;
/// How many fires an apply answers with.
const FIRES_ON_APPLY: u32 = 3;

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Schedules(pub(super) Api);

impl Schedules {
    async fn show(&self, request: PreviewRequest) -> Result<PreviewResponse, Error> {
        let Some(given) = request.schedule else {
            return Err(Error::invalid("schedule", "says nothing to preview: it must be set"));
        };
        let from = match convert::read_timestamp("from", request.from) {
            Ok(Some(from)) => from,
            Ok(None) => self.0.store.now().await?,
            Err(violation) => return Err(Error::Invalid(vec![violation])),
        };
        if request.count > COUNT_MAX {
            return Err(Error::invalid("count", format!("is at most {COUNT_MAX}")));
        }
        let count = if request.count == 0 { FIRES_DEFAULT } else { request.count };
        let language = match ScheduleLanguage::try_from(request.language) {
            Ok(ScheduleLanguage::Chinese) => Language::Chinese,
            Ok(ScheduleLanguage::English | ScheduleLanguage::Unspecified) => Language::English,
            Err(_) => return Err(Error::invalid("language", "is neither ENGLISH nor CHINESE")),
        };
        let given = convert::schedules::read_schedule("schedule", given).map_err(Error::Invalid)?;
        if !given.spec.calendars.is_empty() {
            return Err(Error::invalid("schedule.calendars", "is not supported by this version"));
        }
        let preview = understood(&given.spec, "preview", from)
            .map_err(|problems| {
                let named = |(field, message)| Violation::new(format!("schedule.{field}"), message);
                Error::Invalid(problems.into_iter().map(named).collect())
            })?
            .preview(from, count, language)
            .map_err(|fault| Error::invalid("schedule", fault.to_string()))?;
        if let Some(end) = preview.end.as_ref().filter(|_| preview.fires.is_empty()) {
            return Err(Error::invalid(format!("schedule.{}", given.spec.rule.field()), why_none(end)));
        }
        Ok(PreviewResponse {
            fires: fires(&preview),
            cron: preview.cron.unwrap_or_default(),
            description: preview.description,
        })
    }

    async fn list(&self, request: ListSchedulesRequest) -> Result<ListSchedulesResponse, Error> {
        let size = page::size(request.page_size)?;
        let ListSchedulesRequest { namespace, job_config, page_token, .. } = request;
        let listing = Listing::new("ListSchedules", &(&namespace, &job_config));
        let page = self.0.store.schedules(&namespace, &job_config, listing.key(&page_token)?, size).await?;
        let last = page.rows.last().map(|schedule| listing.token(&schedule.cursor()));
        Ok(ListSchedulesResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            schedules: page.rows.into_iter().map(stored).collect(),
        })
    }

    async fn fires(&self, request: ListFiresRequest) -> Result<ListFiresResponse, Error> {
        let size = page::size(request.page_size)?;
        let (namespace, name) = (Api::namespace(request.namespace), request.job_config);
        let Some(config) = self.0.store.config(&namespace, &name, None).await? else {
            return Err(self.0.unknown_config(&namespace, &name).await);
        };
        let listing = Listing::new("ListFires", &config.id);
        let below: Option<read::FireKey> = listing.key(&request.page_token)?;
        let page = self.0.store.fires(config.id, below.as_ref(), size).await?;
        let last = page.rows.last().map(|fires| listing.token(&fires.cursor()));
        let shown = page.rows.into_iter().map(|fires| MissedFires {
            schedule: fires.key,
            first_time: Some(convert::timestamp(fires.first)),
            last_time: Some(convert::timestamp(fires.last)),
            count: fires.count,
            reason: fires.reason,
        });
        Ok(ListFiresResponse {
            fires: shown.collect(),
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
        })
    }
}

impl Api {
    /// The schedules of one job config with their next fires.
    pub(super) async fn outlook(&self, namespace: &str, name: &str) -> Result<Vec<StoredSchedule>, Error> {
        let rows = self.store.schedules_of(&[(namespace.to_owned(), name.to_owned())]).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.store.now().await?;
        Ok(rows.into_iter().map(|row| looked_ahead(row, now)).collect())
    }

    /// What the schedules of a definition would be if it were stored now.
    pub(super) async fn would_be(&self, config: &JobConfig) -> Result<Vec<StoredSchedule>, Error> {
        if config.schedules.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.store.now().await?;
        let row = |(key, schedule): (String, &Schedule)| read::Schedule {
            id: uuid::Uuid::nil(),
            namespace: config.namespace.clone(),
            config: config.name.clone(),
            key,
            spec: Some(schedule.spec.clone()),
            state: State::Due,
            reason: String::new(),
            next_fire_at: None,
            last_fire_at: None,
            created_at: now,
        };
        Ok(config.keyed_schedules().map(|schedule| looked_ahead(row(schedule), now)).collect())
    }
}

/// A schedule with its next fires.
fn looked_ahead(row: read::Schedule, now: Timestamp) -> StoredSchedule {
    let after = row.last_fire_at.map_or(now, |fire| fire.max(now));
    let preview = row.spec.as_ref().filter(|_| row.state == State::Due).and_then(|spec| {
        let known = identity(&row.namespace, &row.config, &row.key);
        understood(spec, &known, row.created_at).ok()?.preview(after, FIRES_ON_APPLY, Language::English).ok()
    });
    let mut shown = stored(row);
    shown.fires = preview.as_ref().map(fires).unwrap_or_default();
    shown
}

pub(super) fn stored(row: read::Schedule) -> StoredSchedule {
    let state = match row.state {
        State::Due => ScheduleState::Due,
        State::Turn => ScheduleState::Turn,
        State::End => ScheduleState::End,
        State::Over => ScheduleState::Over,
        State::Parked => ScheduleState::Parked,
        State::Paused => ScheduleState::Paused,
    };
    let understood = row.spec.as_ref().and_then(|spec| understood(spec, "", row.created_at).ok());
    StoredSchedule {
        namespace: row.namespace,
        job_config: row.config,
        description: understood.map(|schedule| schedule.describe(Language::English)).unwrap_or_default(),
        schedule: row.spec.map(|spec| {
            let unnamed = row.key.bytes().all(|byte| byte.is_ascii_digit());
            let name = if unnamed { String::new() } else { row.key.clone() };
            convert::schedules::schedule(&Schedule { name, spec })
        }),
        key: row.key,
        state: state.into(),
        reason: row.reason,
        next_fire_time: row.next_fire_at.map(convert::timestamp),
        last_fire_time: row.last_fire_at.map(convert::timestamp),
        fires: Vec::new(),
    }
}

fn understood(
    spec: &schedule::Spec,
    identity: &str,
    created: Timestamp,
) -> Result<schedule::Schedule, Vec<(&'static str, String)>> {
    let told = |problems: Vec<schedule::Problem>| {
        problems.into_iter().map(|problem| (problem.field, problem.message)).collect()
    };
    schedule::Schedule::new(spec, identity, created, &[]).map_err(told)
}

fn fires(preview: &Preview) -> Vec<PreviewedFire> {
    let shown = preview.fires.iter().map(|fire| PreviewedFire {
        time: Some(convert::timestamp(fire.time)),
        local: fire.local.clone(),
        note: fire.note.clone(),
    });
    shown.collect()
}

fn why_none(end: &Next) -> &'static str {
    match end {
        Next::Over => "fires no more: its last fire has passed",
        Next::Beyond2100 => "fires next after the year 2100, where schedules end",
        Next::Never | Next::At(_) => "never fires: check its days and its window",
    }
}

#[async_trait]
impl ScheduleService for Schedules {
    async fn preview(&self, request: Request<PreviewRequest>) -> Result<Response<PreviewResponse>, Status> {
        Ok(Response::new(self.show(request.into_inner()).await?))
    }

    async fn list_schedules(
        &self,
        request: Request<ListSchedulesRequest>,
    ) -> Result<Response<ListSchedulesResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn list_fires(&self, request: Request<ListFiresRequest>) -> Result<Response<ListFiresResponse>, Status> {
        Ok(Response::new(self.fires(request.into_inner()).await?))
    }
}
