//! Manages calendars of exclusion.

use baton::v1::{
    AppliedCalendar, ApplyCalendarsRequest, ApplyCalendarsResponse, CalendarChange, DeleteCalendarRequest,
    DeleteCalendarResponse, GetCalendarRequest, GetCalendarResponse, ListCalendarsRequest, ListCalendarsResponse,
    StoredCalendar, apply_calendars_request::Definition, calendar_service_server::CalendarService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::Api,
    caller::caller,
    convert,
    page::{self, Listing},
    status::{Error, Kind, Violation},
};
use crate::{
    domain::{
        definition,
        schedule::{Calendar, CalendarConfig, Spec},
    },
    flow::request::{Change, DeleteCalendar, PutCalendars},
    store::read,
};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Calendars(pub(super) Api);

impl Calendars {
    async fn put(&self, mut request: ApplyCalendarsRequest) -> Result<ApplyCalendarsResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let namespace = Api::namespace(request.namespace);
        let calendars = definitions(request.definition, &namespace)?;
        let names: Vec<(String, String)> =
            calendars.iter().map(|one| (one.namespace.clone(), one.calendar.name.clone())).collect();
        let done = self.0.engine.put_calendars(PutCalendars { caller, calendars }).await?;
        let mut stored = self.0.store.calendars_named(&names).await?;
        let applied = names.into_iter().zip(done).map(|((namespace, name), done)| {
            let mine = |one: &read::Calendar| one.row.namespace == namespace && one.row.calendar.name == name;
            let calendar = stored.iter().position(mine).map(|place| shown(stored.swap_remove(place)));
            AppliedCalendar { calendar, change: change(done.change).into() }
        });
        Ok(ApplyCalendarsResponse { calendars: applied.collect() })
    }

    async fn read(&self, request: GetCalendarRequest) -> Result<GetCalendarResponse, Error> {
        let name = (Api::namespace(request.namespace), request.name);
        let found = self.0.store.calendars_named(std::slice::from_ref(&name)).await?.pop();
        match found {
            Some(calendar) => Ok(GetCalendarResponse { calendar: Some(shown(calendar)) }),
            None => Err(self.unknown(&name.0, &name.1).await),
        }
    }

    async fn page(&self, request: ListCalendarsRequest) -> Result<ListCalendarsResponse, Error> {
        let size = page::size(request.page_size)?;
        let listing = Listing::new("ListCalendars", &request.namespace);
        let after: Option<read::CalendarKey> = listing.key(&request.page_token)?;
        let page = self.0.store.calendars(&request.namespace, after.as_ref(), size).await?;
        let last = page.rows.last().map(|one| {
            let (namespace, name) = (one.row.namespace.clone(), one.row.calendar.name.clone());
            listing.token(&read::CalendarKey { namespace, name })
        });
        Ok(ListCalendarsResponse {
            calendars: page.rows.into_iter().map(shown).collect(),
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
        })
    }

    async fn remove(&self, mut request: DeleteCalendarRequest) -> Result<DeleteCalendarResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let (namespace, name) = (Api::namespace(request.namespace), request.name);
        let named = (namespace.clone(), name.clone());
        if self.0.store.calendars_named(std::slice::from_ref(&named)).await?.is_empty() {
            return Err(self.unknown(&namespace, &name).await);
        }
        self.0.engine.delete_calendar(DeleteCalendar { caller, namespace, name }).await?;
        Ok(DeleteCalendarResponse {})
    }

    async fn unknown(&self, namespace: &str, name: &str) -> Error {
        let known = self.0.store.calendars(namespace, None, u64::from(page::SIZE_MAX)).await;
        let known = known.map(|page| page.rows).unwrap_or_default();
        Error::unknown(Kind::Calendar, name, known.iter().map(|one| one.row.calendar.name.as_str()))
    }
}

impl Api {
    /// The calendars that schedules (namespace, spec) name, by namespace, as far as there are any.
    pub(super) async fn calendars_of<'a>(
        &self,
        schedules: impl Iterator<Item = (&'a str, &'a Spec)>,
    ) -> Result<Vec<(String, Calendar)>, Error> {
        let mut names: Vec<(String, String)> = schedules
            .flat_map(|(namespace, spec)| spec.calendars.iter().map(|name| (namespace.to_owned(), name.clone())))
            .collect();
        names.sort_unstable();
        names.dedup();
        let found = self.store.calendars_named(&names).await?;
        Ok(found.into_iter().map(|one| (one.row.namespace, one.row.calendar)).collect())
    }
}

/// Those of one namespace.
pub(super) fn within(calendars: &[(String, Calendar)], namespace: &str) -> Vec<Calendar> {
    calendars.iter().filter(|(known, _)| known == namespace).map(|(_, calendar)| calendar.clone()).collect()
}

/// The valid calendars of a request, or everything that is wrong with any of them.
fn definitions(given: Option<Definition>, namespace: &str) -> Result<Vec<CalendarConfig>, Error> {
    match given {
        None => Err(Error::invalid("source", "one of source, calendar must be set")),
        Some(Definition::Source(source)) => definition::read_calendars(&source, namespace).map_err(|problems| {
            let told = problems.iter().map(|problem| {
                let place = problem.span.map(|span| format!("line {}, column {}: ", span.line, span.column));
                let suggestion = problem.suggestion.as_ref().map(|next| format!(" ({next})"));
                let (place, suggestion) = (place.unwrap_or_default(), suggestion.unwrap_or_default());
                Violation::new(problem.path.to_string(), format!("{place}{}{suggestion}", problem.message))
            });
            Error::Invalid(told.collect())
        }),
        Some(Definition::Calendar(given)) => {
            let namespace = if given.namespace.is_empty() { namespace.to_owned() } else { given.namespace };
            let (config, wrong) = definition::calendar(namespace, given.name, given.description, &given.exclude);
            if wrong.is_empty() {
                return Ok(vec![config]);
            }
            let told =
                wrong.iter().map(|problem| Violation::new(format!("calendar.{}", problem.path), &problem.message));
            Err(Error::Invalid(told.collect()))
        }
    }
}

fn change(change: Change) -> CalendarChange {
    match change {
        Change::Created => CalendarChange::Created,
        Change::Updated => CalendarChange::Updated,
        Change::Unchanged => CalendarChange::Unchanged,
    }
}

fn shown(calendar: read::Calendar) -> StoredCalendar {
    let read::Calendar { row, schedules } = calendar;
    StoredCalendar {
        calendar: Some(baton::v1::Calendar {
            namespace: row.namespace,
            name: row.calendar.name,
            description: row.description,
            exclude: row.calendar.exclude.iter().map(ToString::to_string).collect(),
        }),
        create_time: Some(convert::timestamp(row.created_at)),
        update_time: Some(convert::timestamp(row.updated_at)),
        schedules,
    }
}

#[async_trait]
impl CalendarService for Calendars {
    async fn apply_calendars(
        &self,
        request: Request<ApplyCalendarsRequest>,
    ) -> Result<Response<ApplyCalendarsResponse>, Status> {
        Ok(Response::new(self.put(request.into_inner()).await?))
    }

    async fn get_calendar(
        &self,
        request: Request<GetCalendarRequest>,
    ) -> Result<Response<GetCalendarResponse>, Status> {
        Ok(Response::new(self.read(request.into_inner()).await?))
    }

    async fn list_calendars(
        &self,
        request: Request<ListCalendarsRequest>,
    ) -> Result<Response<ListCalendarsResponse>, Status> {
        Ok(Response::new(self.page(request.into_inner()).await?))
    }

    async fn delete_calendar(
        &self,
        request: Request<DeleteCalendarRequest>,
    ) -> Result<Response<DeleteCalendarResponse>, Status> {
        Ok(Response::new(self.remove(request.into_inner()).await?))
    }
}
