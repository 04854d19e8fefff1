//! Calendars are stored and deleted, and those that schedules in hand name are read: once a turn, and only if any of them
//! names one.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::request::{Change, DeleteCalendar, Error, PutCalendar, PutCalendars};
use crate::{
    domain::{
        schedule::{Calendar, Spec},
        time::Timestamp,
    },
    store::{
        self, Tx,
        calendar::{CalendarRow, Use},
    },
};

/// How many of the schedules that keep a calendar from being deleted are named.
const USERS_NAMED_MAX: u32 = 5;

/// Stores calendars. Their schedules are planned anew by the turns that follow.
pub(super) async fn put(tx: &Tx, now: Timestamp, order: &PutCalendars) -> Result<Vec<PutCalendar>, store::Error> {
    let names: Vec<(String, String)> =
        order.calendars.iter().map(|one| (one.namespace.clone(), one.calendar.name.clone())).collect();
    let before = Calendars::from(store::calendar::locked(tx, &names).await?);
    let mut done = Vec::with_capacity(names.len());
    for (name, given) in names.into_iter().zip(&order.calendars) {
        let (_, schedules) = store::calendar::users(tx, &name.0, &name.1, 1).await?;
        let before = before.rows.get(&name);
        let same_dates = before.is_some_and(|before| before.calendar.exclude == given.calendar.exclude);
        let change = match before {
            None => Change::Created,
            Some(before) if same_dates && before.description == given.description => Change::Unchanged,
            Some(_) => Change::Updated,
        };
        if change != Change::Unchanged {
            // By the clock, so that one deleted and made again is not taken for the former.
            let newer = before.map_or(now.0, |before| now.0.max(before.revision + 1));
            let row = CalendarRow {
                namespace: name.0,
                calendar: given.calendar.clone(),
                description: given.description.clone(),
                revision: before.filter(|_| same_dates).map_or(newer, |before| before.revision),
                created_at: before.map_or(now, |before| before.created_at),
                updated_at: before.filter(|_| same_dates).map_or(now, |before| before.updated_at),
            };
            store::calendar::put(tx, &row, !same_dates && schedules > 0).await?;
        }
        done.push(PutCalendar { change, schedules });
    }
    Ok(done)
}

/// Deletes a calendar that no schedule names.
pub(super) async fn delete(tx: &Tx, order: &DeleteCalendar) -> Result<Result<u32, Error>, store::Error> {
    let name = (order.namespace.clone(), order.name.clone());
    if store::calendar::locked(tx, std::slice::from_ref(&name)).await?.is_empty() {
        return Ok(Err(Error::NotFound { kind: "calendar", name: name.1 }));
    }
    let (users, count) = store::calendar::users(tx, &name.0, &name.1, USERS_NAMED_MAX).await?;
    if count > 0 {
        let more = count - users.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "calendar {:?} is named by {}{more}; take it out of their `calendars` first",
            name.1,
            users.join(", ")
        );
        return Ok(Err(Error::Conflict { reason: "CALENDAR_IN_USE", message }));
    }
    store::calendar::remove(tx, &name.0, &name.1).await?;
    Ok(Ok(0))
}

/// The calendars that some schedules name, as they are now, and by which of their revisions these are planned.
#[derive(Debug, Default)]
pub(super) struct Calendars {
    rows: BTreeMap<(String, String), CalendarRow>,
    planned: BTreeMap<(Uuid, String), i64>,
}

impl Calendars {
    /// Those that claimed schedules name: id, namespace, spec.
    pub(super) async fn of<'a>(
        tx: &Tx,
        schedules: impl Iterator<Item = (Uuid, &'a str, &'a Spec)>,
    ) -> Result<Self, store::Error> {
        let naming: Vec<_> = schedules.filter(|(_, _, spec)| !spec.calendars.is_empty()).collect();
        let names = names(naming.iter().map(|(_, namespace, spec)| (*namespace, *spec)));
        let ids: Vec<Uuid> = naming.iter().map(|(id, ..)| *id).collect();
        let planned = store::calendar::uses(tx, &ids).await?;
        Ok(Self {
            planned: planned.into_iter().map(|one| ((one.schedule, one.calendar), one.revision)).collect(),
            ..Self::from(store::calendar::named(tx, &names).await?)
        })
    }

    /// Those that the specs of one namespace name, held as they are until the end of the transaction.
    pub(super) async fn held<'a>(
        tx: &Tx,
        namespace: &str,
        specs: impl Iterator<Item = &'a Spec>,
    ) -> Result<Self, store::Error> {
        let names = names(specs.map(|spec| (namespace, spec)));
        Ok(store::calendar::held(tx, &names).await?.into())
    }

    /// Those that a spec names and that there are.
    pub(super) fn named(&self, namespace: &str, spec: &Spec) -> Vec<Calendar> {
        let find = |name: &String| self.rows.get(&(namespace.to_owned(), name.clone()));
        spec.calendars.iter().filter_map(find).map(|row| row.calendar.clone()).collect()
    }

    /// When dates changed by which a schedule is not planned yet.
    pub(super) fn changed(&self, schedule: Uuid, namespace: &str, spec: &Spec) -> Option<Timestamp> {
        let changed = spec.calendars.iter().filter_map(|name| {
            let row = self.rows.get(&(namespace.to_owned(), name.clone()))?;
            let planned = self.planned.get(&(schedule, name.clone())).copied().unwrap_or_default();
            (planned < row.revision).then_some(row.updated_at)
        });
        changed.max()
    }

    /// That a schedule is planned by what its calendars are now.
    pub(super) fn uses(&self, schedule: Uuid, namespace: &str, spec: &Spec) -> Vec<Use> {
        let used = spec.calendars.iter().filter_map(|name| {
            let row = self.rows.get(&(namespace.to_owned(), name.clone()))?;
            let (namespace, calendar) = (row.namespace.clone(), row.calendar.name.clone());
            Some(Use { schedule, namespace, calendar, revision: row.revision })
        });
        used.collect()
    }
}

impl From<Vec<CalendarRow>> for Calendars {
    fn from(rows: Vec<CalendarRow>) -> Self {
        let keyed = rows.into_iter().map(|row| ((row.namespace.clone(), row.calendar.name.clone()), row));
        Self { rows: keyed.collect(), planned: BTreeMap::new() }
    }
}

fn names<'a>(specs: impl Iterator<Item = (&'a str, &'a Spec)>) -> Vec<(String, String)> {
    let names: BTreeSet<(String, String)> = specs
        .flat_map(|(namespace, spec)| spec.calendars.iter().map(|name| (namespace.to_owned(), name.clone())))
        .collect();
    names.into_iter().collect()
}
