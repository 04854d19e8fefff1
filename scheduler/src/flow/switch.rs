//! Schedules are switched off and on. Time spent off is not made up for, and switching on fires nothing early or twice.

use uuid::Uuid;

use super::{
    calendars::Calendars,
    orders::Configs,
    replan,
    request::{Error, Position, Switch},
    schedules::park,
};
use crate::{
    domain::{
        schedule::{self, Schedule, Spec},
        time::Timestamp,
    },
    store::{
        self, Tx,
        config::Disabled,
        schedule::{MissedRow, ScheduleRow, State},
    },
};

/// Carries it out. Returns how many schedules changed.
pub(super) async fn pass(
    tx: &Tx,
    now: Timestamp,
    order: &Switch,
    configs: &mut Configs,
) -> Result<Result<u32, Error>, store::Error> {
    let Some(config) = configs.get_mut(&(order.namespace.clone(), order.name.clone())) else {
        return Ok(Err(Error::NotFound { kind: "job config", name: order.name.clone() }));
    };
    if let Position::Off { until: Some(until), .. } = order.to
        && until <= now
    {
        let message = "lies in the past; leave it out to switch off until `enable`".to_owned();
        return Ok(Err(Error::Invalid(vec![("until".to_owned(), message)])));
    }
    let mut rows = store::schedule::of_configs(tx, &[config.id]).await?;
    if let Some(key) = &order.schedule {
        let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
        rows.retain(|row| row.key == *key);
        if rows.is_empty() {
            let known = if keys.is_empty() { "it has none".to_owned() } else { format!("it has {}", keys.join(", ")) };
            let message = format!("no schedule of {:?} is known as {key:?}: {known}", order.name);
            return Ok(Err(Error::Invalid(vec![("schedule".to_owned(), message)])));
        }
    }
    let mut missed = Vec::new();
    match &order.to {
        Position::Off { until, reason } => {
            rows.retain(|row| row.state != State::Paused || row.due_at != *until || row.reason != *reason);
            for row in &mut rows {
                replan::switch_off(row, *until, reason, now);
            }
            if order.schedule.is_none() {
                config.disabled = Some(Disabled { until: *until, reason: reason.clone() });
            }
        }
        Position::On => {
            rows.retain(|row| row.state == State::Paused);
            missed = switch_on(tx, now, order, &mut rows).await?;
            if order.schedule.is_none() {
                config.disabled = None;
            }
        }
    }
    if order.schedule.is_none() {
        store::config::set_disabled(tx, config.id, config.disabled.as_ref(), now).await?;
    }
    store::schedule::put(tx, &rows).await?;
    store::schedule::record(tx, &missed, now).await?;
    Ok(Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX)))
}

async fn switch_on(
    tx: &Tx,
    now: Timestamp,
    order: &Switch,
    rows: &mut [ScheduleRow],
) -> Result<Vec<MissedRow>, store::Error> {
    let specs: Vec<Result<Spec, String>> = rows
        .iter()
        .map(|row| serde_json::from_str(&row.spec).map_err(|error| format!("it cannot be read: {error}")))
        .collect();
    let calendars = Calendars::held(tx, &order.namespace, specs.iter().flatten()).await?;
    let (mut missed, mut ids, mut uses): (_, Vec<Uuid>, _) = (Vec::new(), Vec::new(), Vec::new());
    for (row, spec) in rows.iter_mut().zip(&specs) {
        let identity = schedule::identity(&order.namespace, &order.name, &row.key);
        let on = spec.clone().and_then(|spec| {
            let schedule =
                Schedule::new(&spec, &identity, row.created_at, &calendars.named(&order.namespace, &spec))
                    .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
            ids.push(row.id);
            uses.extend(calendars.uses(row.id, &order.namespace, &spec));
            replan::switch_on(row, &schedule, now).map_err(|fault| fault.to_string())
        });
        match on {
            Ok(told) => missed.extend(told),
            Err(reason) => park(row, reason, now),
        }
    }
    store::calendar::put_uses(tx, &ids, &uses).await?;
    Ok(missed)
}
