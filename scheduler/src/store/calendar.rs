//! Calendars as rows, and which schedules name them.
//!
//! A changed calendar does not touch its schedules, of which there may be very many: it is marked, and the trigger plans
//! them anew a slice at a time. A calendar is locked after everything else of a turn.

use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Record, Row, unreadable},
    sql::{self, Input, bigint, text, uuid},
};
use crate::domain::{schedule::Calendar, time::Timestamp};

/// A calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name and its dates.
    pub calendar: Calendar,
    /// What it is for.
    pub description: String,
    /// Grows with every change of its dates.
    pub revision: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its dates changed last.
    pub updated_at: Timestamp,
}

/// That a schedule names a calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The schedule.
    pub schedule: Uuid,
    /// The calendar's namespace.
    pub namespace: String,
    /// The calendar.
    pub calendar: String,
    /// By which revision of it the schedule is planned.
    pub revision: i64,
}

const COLUMNS: &str = "namespace, name, description, exclude, revision, created_at, updated_at";

/// Calendars by namespace and name, as they are now.
pub async fn named(tx: &Tx, names: &[(String, String)]) -> Result<Vec<CalendarRow>, Error> {
    find(tx, names, "").await
}

/// The same, held as they are until the end of the transaction.
pub async fn held(tx: &Tx, names: &[(String, String)]) -> Result<Vec<CalendarRow>, Error> {
    find(tx, names, "ORDER BY namespace, name {for_share}").await
}

/// The same, to be changed.
pub async fn locked(tx: &Tx, names: &[(String, String)]) -> Result<Vec<CalendarRow>, Error> {
    find(tx, names, "ORDER BY namespace, name {for_update}").await
}

async fn find(tx: &Tx, names: &[(String, String)], tail: &str) -> Result<Vec<CalendarRow>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([text("wanted_namespace"), text("wanted_name")]);
    for (namespace, name) in names {
        input.push([namespace.as_str().into(), name.as_str().into()]);
    }
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS} FROM calendar
         WHERE (namespace, name) IN (SELECT wanted_namespace, wanted_name FROM input) {tail}"
    );
    tx.query(input.statement(tx.backend(), &text, &[])).await?.iter().map(read).collect()
}

/// Writes a calendar. `pending` when schedules may be planned by its former dates.
pub async fn put(tx: &Tx, row: &CalendarRow, pending: bool) -> Result<(), Error> {
    let text = "INSERT INTO calendar (namespace, name, description, exclude, revision, pending, created_at, updated_at)
                VALUES (:namespace, :name, :description, :exclude, :revision, :pending, :created, :updated)
                ON CONFLICT (namespace, name) DO UPDATE SET description = excluded.description,
                    exclude = excluded.exclude, revision = excluded.revision,
                    pending = calendar.pending OR excluded.pending, updated_at = excluded.updated_at";
    let exclude = serde_json::to_string(&row.calendar.exclude).expect("dates have a JSON form");
    let params = [
        ("namespace", row.namespace.as_str().into()),
        ("name", row.calendar.name.as_str().into()),
        ("description", row.description.as_str().into()),
        ("exclude", exclude.into()),
        ("revision", row.revision.into()),
        ("pending", pending.into()),
        ("created", row.created_at.0.into()),
        ("updated", row.updated_at.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Takes a calendar away that nothing names.
pub async fn remove(tx: &Tx, namespace: &str, name: &str) -> Result<(), Error> {
    let text = "DELETE FROM calendar WHERE namespace = :namespace AND name = :name";
    tx.execute(sql::statement(tx.backend(), text, &[("namespace", namespace.into()), ("name", name.into())])).await?;
    Ok(())
}

/// Some of the schedules that name a calendar, as `config/key`, and how many there are.
pub async fn users(tx: &Tx, namespace: &str, name: &str, limit: u32) -> Result<(Vec<String>, u64), Error> {
    let text = "SELECT job_config.name AS config, schedule.key, count(*) OVER () AS users FROM calendar_use
                JOIN schedule ON schedule.id = calendar_use.schedule_id
                JOIN job_config ON job_config.id = schedule.job_config_id
                WHERE calendar_use.namespace = :namespace AND calendar_use.calendar = :name
                ORDER BY job_config.name, schedule.key LIMIT :limit";
    let params = [("namespace", namespace.into()), ("name", name.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let count: i64 = rows.first().map(|row| row.column("users")).transpose()?.unwrap_or_default();
    let named = |row: &Record| -> Result<String, Error> {
        Ok(format!("{}/{}", row.column::<String>("config")?, row.column::<String>("key")?))
    };
    Ok((rows.iter().map(named).collect::<Result<_, _>>()?, count.unsigned_abs()))
}

/// Calendars whose schedules may be planned by former dates: namespace, name and revision.
pub async fn pending(tx: &Tx, limit: u32) -> Result<Vec<(String, String, i64)>, Error> {
    let text = "SELECT namespace, name, revision FROM calendar WHERE pending ORDER BY namespace, name LIMIT :limit";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| Ok((row.column("namespace")?, row.column("name")?, row.column("revision")?))).collect()
}

/// Schedules that are planned by dates of a calendar from before this revision.
pub async fn outdated(tx: &Tx, (namespace, name, revision): (&str, &str, i64), limit: u32) -> Result<Vec<Uuid>, Error> {
    // One that is parked is planned anew when it is applied again.
    let text = "SELECT schedule_id FROM calendar_use JOIN schedule ON schedule.id = calendar_use.schedule_id
                WHERE calendar_use.namespace = :namespace AND calendar_use.calendar = :name
                    AND calendar_use.revision < :revision AND schedule.state <> 'PARKED' LIMIT :limit";
    let params = [
        ("namespace", namespace.into()),
        ("name", name.into()),
        ("revision", revision.into()),
        ("limit", i64::from(limit).into()),
    ];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("schedule_id")).collect()
}

/// Takes the mark off a calendar all of whose schedules are planned by this revision.
pub async fn settle(tx: &Tx, (namespace, name, revision): (&str, &str, i64)) -> Result<(), Error> {
    let text =
        "UPDATE calendar SET pending = :pending WHERE namespace = :namespace AND name = :name AND revision = :revision
                AND NOT EXISTS (SELECT 1 FROM calendar_use JOIN schedule ON schedule.id = calendar_use.schedule_id
                    WHERE calendar_use.namespace = :namespace AND calendar_use.calendar = :name
                        AND calendar_use.revision < :revision AND schedule.state <> 'PARKED')";
    let params = [
        ("pending", false.into()),
        ("namespace", namespace.into()),
        ("name", name.into()),
        ("revision", revision.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Which calendars schedules name.
pub async fn uses(tx: &Tx, schedules: &[Uuid]) -> Result<Vec<Use>, Error> {
    let Some(input) = ids(schedules) else { return Ok(Vec::new()) };
    let text = "WITH {input} SELECT schedule_id, namespace, calendar, revision FROM calendar_use
                WHERE schedule_id IN (SELECT wanted FROM input)";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            Ok(Use {
                schedule: row.column("schedule_id")?,
                namespace: row.column("namespace")?,
                calendar: row.column("calendar")?,
                revision: row.column("revision")?,
            })
        })
        .collect()
}

/// Writes which calendars schedules name from now on, whose configs are locked.
pub async fn put_uses(tx: &Tx, schedules: &[Uuid], uses: &[Use]) -> Result<(), Error> {
    if let Some(input) = ids(schedules) {
        let text = "WITH {input} DELETE FROM calendar_use WHERE schedule_id IN (SELECT wanted FROM input)";
        tx.execute(input.statement(tx.backend(), text, &[])).await?;
    }
    let mut input = Input::new([uuid("schedule_id"), text("namespace"), text("calendar"), bigint("revision")]);
    for one in uses {
        let (namespace, calendar) = (one.namespace.as_str().into(), one.calendar.as_str().into());
        input.push([one.schedule.into(), namespace, calendar, one.revision.into()]);
    }
    if input.is_empty() {
        return Ok(());
    }
    let text = "WITH {input} INSERT INTO calendar_use (schedule_id, namespace, calendar, revision)
                SELECT schedule_id, namespace, calendar, revision FROM input WHERE true
                ON CONFLICT (schedule_id, calendar) DO UPDATE SET revision = excluded.revision";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

fn ids(schedules: &[Uuid]) -> Option<Input<1>> {
    let mut input = Input::new([uuid("wanted")]);
    for schedule in schedules {
        input.push([(*schedule).into()]);
    }
    (!input.is_empty()).then_some(input)
}

pub(super) fn read(row: &impl Row) -> Result<CalendarRow, Error> {
    let name: String = row.column("name")?;
    let exclude: String = row.column("exclude")?;
    let exclude = serde_json::from_str(&exclude).map_err(|error| unreadable("calendar", &name, &error.to_string()))?;
    Ok(CalendarRow {
        namespace: row.column("namespace")?,
        calendar: Calendar { name, exclude },
        description: row.column("description")?,
        revision: row.column("revision")?,
        created_at: Timestamp(row.column("created_at")?),
        updated_at: Timestamp(row.column("updated_at")?),
    })
}
