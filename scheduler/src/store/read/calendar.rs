//! Questions about calendars.

use sea_orm::{ConnectionTrait as _, QueryResult};

use super::Page;
use crate::store::{
    Error, Store, calendar,
    calendar::CalendarRow,
    row::Row as _,
    sql::{self, Input},
};

/// A calendar, and how many schedules name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// The calendar.
    pub row: CalendarRow,
    /// How many schedules name it.
    pub schedules: u64,
}

/// Where a listing of calendars goes on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CalendarKey {
    /// The namespace of the last one seen.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

const COLUMNS: &str = "calendar.namespace, calendar.name, calendar.description, calendar.exclude, calendar.revision,
    calendar.created_at, calendar.updated_at, (SELECT count(*) FROM calendar_use
        WHERE calendar_use.namespace = calendar.namespace AND calendar_use.calendar = calendar.name) AS schedules";

impl Store {
    /// Calendars by namespace and name, after the one given; an empty namespace means all.
    pub async fn calendars(
        &self,
        namespace: &str,
        after: Option<&CalendarKey>,
        limit: u64,
    ) -> Result<Page<Calendar>, Error> {
        let text = format!(
            "SELECT {COLUMNS} FROM calendar WHERE (:namespace = '' OR namespace = :namespace)
                 AND (namespace > :after OR (namespace = :after AND name > :name))
             ORDER BY namespace, name LIMIT :limit"
        );
        let params = [
            ("namespace", namespace.into()),
            ("after", after.map_or("", |after| after.namespace.as_str()).into()),
            ("name", after.map_or("", |after| after.name.as_str()).into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        Ok(Page::cut(rows.iter().map(read).collect::<Result<_, Error>>()?, limit))
    }

    /// Those of these calendars (namespace, name) that there are.
    pub async fn calendars_named(&self, names: &[(String, String)]) -> Result<Vec<Calendar>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = Input::new([sql::text("wanted_namespace"), sql::text("wanted_name")]);
        for (namespace, name) in names {
            input.push([namespace.as_str().into(), name.as_str().into()]);
        }
        let text = format!(
            "WITH {{input}} SELECT {COLUMNS} FROM calendar
             WHERE (namespace, name) IN (SELECT wanted_namespace, wanted_name FROM input) ORDER BY namespace, name"
        );
        let rows = self.reader().query_all_raw(input.statement(self.backend(), &text, &[])).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &QueryResult) -> Result<Calendar, Error> {
    let schedules: i64 = row.column("schedules")?;
    Ok(Calendar { row: calendar::read(row)?, schedules: schedules.unsigned_abs() })
}
