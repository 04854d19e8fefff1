//! Tells what schedules mean, what they wait for, and which fires made no job.

use baton::v1::{
    ListFiresRequest, ListFiresResponse, ListSchedulesRequest, ListSchedulesResponse, MissedFires, PreviewRequest,
    PreviewResponse, PreviewedFire, ScheduleLanguage, ScheduleState, StoredSchedule,
    schedule_service_server::ScheduleService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::Api,
    calendars::within,
    convert,
    page::{self, Listing},
    status::{Error, Violation},
};
use crate::{
    domain::{
        definition::{JobConfig, Schedule},
        schedule::{self, COUNT_MAX, Calendar, Language, Next, Preview, identity},
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
        let language = language(request.language)?;
        let namespace = Api::namespace(request.namespace);
        let given = convert::schedules::read_schedule("schedule", given).map_err(Error::Invalid)?;
        let calendars = self.0.calendars_of(std::iter::once((namespace.as_str(), &given.spec))).await?;
        let preview = understood(&given.spec, "preview", from, &within(&calendars, &namespace))
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
        let ListSchedulesRequest { namespace, job_config, page_token, overdue, .. } = request;
        let language = language(request.language)?;
        let listing = Listing::new("ListSchedules", &(&namespace, &job_config, overdue));
        let now = self.0.store.now().await?;
        let page =
            self.0.store.schedules(&namespace, &job_config, overdue.then_some(now), listing.key(&page_token)?, size);
        let page = page.await?;
        let calendars = self.0.calendars_of(specs(&page.rows)).await?;
        let last = page.rows.last().map(|schedule| listing.token(&schedule.cursor()));
        Ok(ListSchedulesResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            schedules: page.rows.into_iter().map(|row| stored(row, &calendars, language, now)).collect(),
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
    pub(super) async fn outlook(
        &self,
        namespace: &str,
        name: &str,
        language: Language,
    ) -> Result<Vec<StoredSchedule>, Error> {
        let rows = self.store.schedules_of(&[(namespace.to_owned(), name.to_owned())]).await?;
        self.look_ahead(rows, language).await
    }

    /// What the schedules of a definition would be if it were stored now.
    pub(super) async fn would_be(&self, config: &JobConfig, language: Language) -> Result<Vec<StoredSchedule>, Error> {
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
            due_at: None,
            last_fire_at: None,
            created_at: now,
        };
        let rows: Vec<read::Schedule> = config.keyed_schedules().map(row).collect();
        let calendars = self.calendars_of(specs(&rows)).await?;
        let known = within(&calendars, &config.namespace);
        let mut wrong = Vec::new();
        for (position, row) in rows.iter().enumerate() {
            let missing = row.spec.iter().flat_map(|spec| &spec.calendars);
            for name in missing.filter(|name| known.iter().all(|calendar| calendar.name != **name)) {
                let message = format!("calendar {name:?} does not exist; apply it first, or remove it here");
                wrong.push(Violation::new(format!("schedules[{position}].calendars"), message));
            }
        }
        if wrong.is_empty() { self.look_ahead(rows, language).await } else { Err(Error::Invalid(wrong)) }
    }

    /// Schedules with their next fires.
    async fn look_ahead(&self, rows: Vec<read::Schedule>, language: Language) -> Result<Vec<StoredSchedule>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.store.now().await?;
        let calendars = self.calendars_of(specs(&rows)).await?;
        let ahead = rows.into_iter().map(|row| {
            let after = row.last_fire_at.map_or(now, |fire| fire.max(now));
            let preview = row.spec.as_ref().filter(|_| row.state == State::Due).and_then(|spec| {
                let known = identity(&row.namespace, &row.config, &row.key);
                let named = within(&calendars, &row.namespace);
                understood(spec, &known, row.created_at, &named).ok()?.preview(after, FIRES_ON_APPLY, language).ok()
            });
            let mut shown = stored(row, &calendars, language, now);
            shown.fires = preview.as_ref().map(fires).unwrap_or_default();
            shown
        });
        Ok(ahead.collect())
    }
}

/// The language of descriptions that a request asks for.
pub(super) fn language(given: i32) -> Result<Language, Error> {
    match ScheduleLanguage::try_from(given) {
        Ok(ScheduleLanguage::Chinese) => Ok(Language::Chinese),
        Ok(ScheduleLanguage::English | ScheduleLanguage::Unspecified) => Ok(Language::English),
        Err(_) => Err(Error::invalid("language", "is neither ENGLISH nor CHINESE")),
    }
}

/// What schedules say, with their namespaces.
pub(super) fn specs(rows: &[read::Schedule]) -> impl Iterator<Item = (&str, &schedule::Spec)> {
    rows.iter().filter_map(|row| Some((row.namespace.as_str(), row.spec.as_ref()?)))
}

pub(super) fn stored(
    row: read::Schedule,
    calendars: &[(String, Calendar)],
    language: Language,
    now: Timestamp,
) -> StoredSchedule {
    let state = match row.state {
        State::Due => ScheduleState::Due,
        State::Turn => ScheduleState::Turn,
        State::End => ScheduleState::End,
        State::Over => ScheduleState::Over,
        State::Parked => ScheduleState::Parked,
        State::Paused => ScheduleState::Paused,
    };
    let named = within(calendars, &row.namespace);
    let understood = row.spec.as_ref().and_then(|spec| understood(spec, "", row.created_at, &named).ok());
    let waited = row.due_at.filter(|_| row.state == State::Due).map(|due| now.since(due));
    StoredSchedule {
        namespace: row.namespace,
        job_config: row.config,
        description: understood.map(|schedule| schedule.describe(language)).unwrap_or_default(),
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
        due_time: row.due_at.map(convert::timestamp),
        late: waited.filter(|late| !late.is_zero()).map(convert::duration),
    }
}

fn understood(
    spec: &schedule::Spec,
    identity: &str,
    created: Timestamp,
    calendars: &[Calendar],
) -> Result<schedule::Schedule, Vec<(&'static str, String)>> {
    let told = |problems: Vec<schedule::Problem>| {
        problems.into_iter().map(|problem| (problem.field, problem.message)).collect()
    };
    schedule::Schedule::new(spec, identity, created, calendars).map_err(told)
}

pub(super) fn fires(preview: &Preview) -> Vec<PreviewedFire> {
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
        Next::Never | Next::At(_) => "never fires: check its days, its window and its calendars",
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
