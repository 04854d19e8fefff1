//! What storing a definition does to its schedules: nothing fires early or twice because of it, and the time in between
//! is not made up for.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{calendars::Calendars, replan};
use crate::{
    domain::{
        definition::JobConfig,
        schedule::{self, After, Calendar, Next, NotForward, RuleSpec, Schedule, Spec},
        time::{Timestamp, micros},
    },
    store::{
        self, Tx,
        calendar::Use,
        config::ConfigRow,
        schedule::{ScheduleRow, State},
    },
};

/// What is to be written about the schedules of one definition.
#[derive(Debug, Default)]
pub(super) struct Change {
    put: Vec<ScheduleRow>,
    uses: Vec<Use>,
    gone: Vec<Uuid>,
}

/// Works out what becomes of the schedules of a config that gets this definition, or the fields that are wrong with
/// them now. Writes nothing.
pub(super) async fn prepare(
    tx: &Tx,
    config: Option<&ConfigRow>,
    definition: &JobConfig,
    now: Timestamp,
) -> Result<Result<Change, Vec<(String, String)>>, store::Error> {
    let rows = store::schedule::of_configs(tx, config.map(|config| config.id).as_slice()).await?;
    let mut rows: BTreeMap<String, ScheduleRow> = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
    let off = config.and_then(|config| config.disabled.as_ref());
    let off = off.filter(|off| off.until.is_none_or(|until| until > now));
    let mut changed = Vec::new();
    for (position, (key, schedule)) in definition.keyed_schedules().enumerate() {
        let row = rows.remove(&key);
        let same =
            row.as_ref().is_some_and(|row| row.state != State::Parked && spec(row) == Some(schedule.spec.clone()));
        if !same {
            changed.push((position, key, schedule, row));
        }
    }
    let specs = changed.iter().map(|(_, _, schedule, _)| &schedule.spec);
    let calendars = Calendars::held(tx, &definition.namespace, specs).await?;
    let (mut change, mut wrong) = (Change::default(), Vec::new());
    for (position, key, schedule, row) in changed {
        let identity = schedule::identity(&definition.namespace, &definition.name, &key);
        let spec = &schedule.spec;
        let named = calendars.named(&definition.namespace, spec);
        let is_new = row.is_none();
        match put(row, &key, &identity, spec, &named, now) {
            Ok(mut row) => {
                if let Some(off) = off.filter(|_| is_new) {
                    replan::switch_off(&mut row, off.until, &off.reason, now);
                }
                change.uses.extend(calendars.uses(row.id, &definition.namespace, spec));
                change.put.push(row);
            }
            Err((field, message)) => wrong.push((format!("schedules[{position}].{field}"), message)),
        }
    }
    change.gone = rows.into_values().map(|row| row.id).collect();
    Ok(if wrong.is_empty() { Ok(change) } else { Err(wrong) })
}

/// Writes it.
pub(super) async fn write(tx: &Tx, config: Uuid, mut change: Change) -> Result<(), store::Error> {
    for row in &mut change.put {
        row.job_config_id = config;
    }
    store::schedule::remove(tx, &change.gone).await?;
    store::schedule::put(tx, &change.put).await?;
    let changed: Vec<Uuid> = change.put.iter().map(|row| row.id).collect();
    store::calendar::put_uses(tx, &changed, &change.uses).await
}

/// Leaves a schedule waiting for what comes next.
pub(super) fn wait_for(row: &mut ScheduleRow, schedule: &Schedule, next: &Next, now: Timestamp) {
    (row.state, row.next_fire_at, row.due_at) = (State::Due, None, None);
    row.planned_at = Some(now);
    row.reason.clear();
    let over = match next {
        Next::At(fire) => {
            row.next_fire_at = Some(fire.time);
            row.due_at = Some(schedule.due_at(fire.time, now));
            return;
        }
        Next::Over => "its last fire has passed",
        Next::Beyond2100 => "its next fire lies after the year 2100, where schedules end",
        Next::Never => "it never fires: check its days, its window and its calendars",
    };
    row.state = State::Over;
    over.clone_into(&mut row.reason);
}

/// Lays a schedule aside until it is edited.
pub(super) fn park(row: &mut ScheduleRow, reason: String, now: Timestamp) {
    (row.state, row.next_fire_at, row.due_at) = (State::Parked, None, None);
    row.planned_at = Some(now);
    row.reason = reason;
}

fn spec(row: &ScheduleRow) -> Option<Spec> {
    serde_json::from_str(&row.spec).ok()
}

fn put(
    before: Option<ScheduleRow>,
    key: &str,
    identity: &str,
    spec: &Spec,
    calendars: &[Calendar],
    now: Timestamp,
) -> Result<ScheduleRow, (&'static str, String)> {
    let mut row = before.unwrap_or_else(|| ScheduleRow {
        id: Uuid::now_v7(),
        job_config_id: Uuid::nil(),
        key: key.to_owned(),
        spec: String::new(),
        state: State::Due,
        reason: String::new(),
        next_fire_at: None,
        due_at: None,
        last_fire_at: None,
        last_made_at: None,
        period: None,
        created_at: now,
        planned_at: None,
        burst_at: None,
        burst: 0,
    });
    // What was parked for its haste begins to count anew.
    (row.burst_at, row.burst) = (None, 0);
    let schedule = Schedule::new(spec, identity, row.created_at, calendars).map_err(|mut problems| {
        let first = problems.remove(0);
        (first.field, first.message)
    })?;
    row.spec = serde_json::to_string(spec).expect("a schedule has a JSON form");
    row.period = match spec.rule {
        RuleSpec::Every { period, after: After::Start } => Some(micros(period)),
        _ => None,
    };
    // What is switched off stays so; what comes next is asked when it is switched on.
    let stays = row.state == State::Paused || (row.state == State::End && schedule.follows_completion());
    if stays {
        if row.last_fire_at.is_none() {
            schedule.first_fire(now).map_err(|problem| (problem.field, problem.message))?;
        }
        return Ok(row);
    }
    let next = if row.last_fire_at.is_some() {
        schedule.resume(now, row.last_fire_at).map_err(|fault: NotForward| (spec.rule.field(), fault.to_string()))?
    } else {
        let first = schedule.first_fire(now).map_err(|problem| (problem.field, problem.message))?;
        Next::At(first)
    };
    wait_for(&mut row, &schedule, &next, now);
    Ok(row)
}
