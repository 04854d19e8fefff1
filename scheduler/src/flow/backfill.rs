//! Backfills: one job for each fire of a schedule that lies in the past, so many at a time.
//!
//! How far one is lies in its row, and how many of its jobs live is counted: a scheduler that dies leaves nothing behind
//! that another one does not go on with. Its jobs are exempt from overlap, both ways.

use std::{collections::BTreeMap, sync::Arc};

use tracing::{info, warn};
use uuid::Uuid;

use super::{
    birth::{self, Cause, Kin},
    calendars::Calendars,
    orders::Configs,
    plan::{Plan, Plans},
    request::{Backfill, CancelBackfill, Error},
    work::Work,
};
use crate::{
    domain::{
        schedule::{
            self, Schedule, Spec,
            backfill::{PARALLEL_MAX, State},
        },
        time::Timestamp,
    },
    store::{
        self, Tx,
        backfill::{BackfillRow, Claimed},
    },
};

/// How many backfills one turn looks at.
const BACKFILLS_MAX: u32 = 20;
/// How many fires of one backfill one turn looks at.
const FIRES_MAX: usize = 200;

/// The plan of its job config, or why that cannot be read.
type Readable = Result<Arc<Plan>, String>;

/// The backfills that a turn has claimed.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claimed: Vec<(Claimed, Option<Readable>)>,
    calendars: Calendars,
}

impl Claims {
    /// The configs that are locked by them.
    pub(super) fn configs(&self) -> impl Iterator<Item = Uuid> {
        let locked = self.claimed.iter().filter(|(claimed, _)| claimed.version.is_some());
        locked.map(|(claimed, _)| claimed.row.job_config_id)
    }
}

/// Claims backfills that may go on. Their job configs are locked, or left to others.
pub(super) async fn claim(tx: &Tx, plans: &mut Plans) -> Result<Claims, store::Error> {
    let claimed = store::backfill::claim(tx, BACKFILLS_MAX).await?;
    let wanted = claimed.iter().filter_map(|one| Some((one.row.job_config_id, one.version?)));
    let mut found = plans.load(tx, wanted).await?;
    let specs: Vec<(Uuid, String, Spec)> = claimed
        .iter()
        .filter_map(|one| Some((one.row.id, one.row.namespace.clone(), serde_json::from_str(&one.row.spec).ok()?)))
        .collect();
    let calendars =
        Calendars::of(tx, specs.iter().map(|(id, namespace, spec)| (*id, namespace.as_str(), spec))).await?;
    let claimed = claimed.into_iter().map(|one| {
        let plan = one.version.map(|version| match found.get_mut(&(one.row.job_config_id, version)) {
            Some(Ok(plan)) => Ok(plan.clone()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("its definition is missing".to_owned()),
        });
        (one, plan)
    });
    Ok(Claims { claimed: claimed.collect(), calendars })
}

/// Makes as many jobs as may live at once. Returns whether there is more to look at soon.
pub(super) async fn pass(tx: &Tx, work: &mut Work, claims: Claims) -> Result<bool, store::Error> {
    let Claims { claimed, calendars } = claims;
    if claimed.is_empty() {
        return Ok(false);
    }
    let ids: Vec<Uuid> = claimed.iter().map(|(one, _)| one.row.id).collect();
    let live = store::backfill::live(tx, &ids).await?;
    let mut more = false;
    for (Claimed { mut row, version }, plan) in claimed {
        let live = live.get(&row.id).copied().unwrap_or_default();
        let going = match (version, plan) {
            (Some(version), Some(Ok(plan))) => go_on(tx, work, &mut row, (version, plan), &calendars, live).await?,
            (_, Some(Err(reason))) => Err(reason),
            _ => Err("its job config was deleted".to_owned()),
        };
        match going {
            Ok(again) => more |= again,
            Err(reason) => {
                warn!(backfill.id = %row.id, job.name = %row.name, reason, "backfill ended early");
                (row.state, row.reason, row.ended_at) = (State::Cancelled, reason, Some(work.now));
            }
        }
        store::backfill::update(tx, &row).await?;
    }
    Ok(more)
}

/// Lets one go on: `Ok` tells whether it could go on at once, `Err` why it cannot at all.
async fn go_on(
    tx: &Tx,
    work: &mut Work,
    row: &mut BackfillRow,
    (version, plan): (u32, Arc<Plan>),
    calendars: &Calendars,
    live: u32,
) -> Result<Result<bool, String>, store::Error> {
    let Some(first) = row.next_at else {
        if live == 0 {
            info!(backfill.id = %row.id, job.name = %row.name, made = row.made, "backfill done");
            (row.state, row.ended_at) = (State::Done, Some(work.now));
        }
        return Ok(Ok(false));
    };
    let schedule = match understood(row, calendars) {
        Ok(schedule) => schedule,
        Err(reason) => return Ok(Err(reason)),
    };
    let (fires, mut next) = match schedule.stretch(first, row.to_at, FIRES_MAX) {
        Ok(found) => found,
        Err(fault) => return Ok(Err(fault.to_string())),
    };
    let asked: Vec<(Uuid, &str, Timestamp)> =
        fires.iter().map(|fire| (row.job_config_id, row.schedule.as_str(), *fire)).collect();
    let runs = store::backfill::runs(tx, &asked).await?;
    let mut free = row.max_parallel.saturating_sub(live);
    for fire in fires {
        let before = runs.get(&(row.job_config_id, row.schedule.clone(), fire)).copied();
        if before.is_some() && !row.again {
            row.passed_over += 1;
            continue;
        }
        if free == 0 {
            next = Some(fire);
            break;
        }
        let kin = Kin {
            config: row.job_config_id,
            version,
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            plan: plan.clone(),
        };
        let cause = Cause::Backfill {
            backfill: row.id,
            key: row.schedule.clone(),
            fire_time: fire,
            zone: schedule.zone(),
            rerun_no: before.map_or(0, |newest| newest + 1),
        };
        if let Err(wrong) = birth::bear(work, kin, &BTreeMap::new(), cause) {
            row.next_at = Some(fire);
            return Ok(Err(birth::in_words("params", wrong)));
        }
        row.made += 1;
        free -= 1;
    }
    row.next_at = next;
    Ok(Ok(free > 0))
}

fn understood(row: &BackfillRow, calendars: &Calendars) -> Result<Schedule, String> {
    let spec: Spec =
        serde_json::from_str(&row.spec).map_err(|error| format!("its schedule cannot be read: {error}"))?;
    let identity = schedule::identity(&row.namespace, &row.name, &row.schedule);
    Schedule::new(&spec, &identity, row.anchor_at, &calendars.named(&row.namespace, &spec))
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Takes an order for one; it goes on in the turns that follow.
pub(super) async fn begin(
    tx: &Tx,
    now: Timestamp,
    order: &Backfill,
    configs: &Configs,
) -> Result<Result<Uuid, Error>, store::Error> {
    let Some(config) = configs.get(&(order.namespace.clone(), order.name.clone())) else {
        return Ok(Err(Error::NotFound { kind: "job config", name: order.name.clone() }));
    };
    let invalid = |field: &str, message: String| Ok(Err(Error::Invalid(vec![(field.to_owned(), message)])));
    if !(1..=PARALLEL_MAX).contains(&order.max_parallel) {
        return invalid("max_parallel", format!("is from 1 to {PARALLEL_MAX}"));
    }
    let rows = store::schedule::of_configs(tx, &[config.id]).await?;
    let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    let found = match (&order.schedule, rows.as_slice()) {
        (Some(key), _) => rows.iter().find(|row| row.key == *key),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let Some(row) = found else {
        let known = if keys.is_empty() { "it has none".to_owned() } else { format!("it has {}", keys.join(", ")) };
        return invalid("schedule", format!("says which schedule of {:?} is meant: {known}", order.name));
    };
    let Ok(spec) = serde_json::from_str::<Spec>(&row.spec) else {
        return invalid("schedule", "cannot be read; apply the job config again".to_owned());
    };
    let calendars = Calendars::held(tx, &order.namespace, std::iter::once(&spec)).await?;
    let backfill = BackfillRow {
        id: Uuid::now_v7(),
        job_config_id: config.id,
        namespace: order.namespace.clone(),
        name: order.name.clone(),
        schedule: row.key.clone(),
        spec: row.spec.clone(),
        anchor_at: row.created_at,
        from_at: order.from,
        to_at: order.to,
        max_parallel: order.max_parallel,
        again: order.again,
        state: State::Running,
        reason: String::new(),
        next_at: None,
        total: 0,
        made: 0,
        passed_over: 0,
        created_at: now,
        ended_at: None,
    };
    let schedule = match understood(&backfill, &calendars) {
        Ok(schedule) => schedule,
        Err(reason) => return invalid("schedule", reason),
    };
    let range = match schedule.backfill(order.from, order.to, now) {
        Ok(range) => range,
        Err((field, message)) => return invalid(field, message),
    };
    let backfill = BackfillRow { next_at: Some(range.first), total: range.count, ..backfill };
    store::backfill::insert(tx, &backfill).await?;
    Ok(Ok(backfill.id))
}

/// Lets one make no more jobs; those that it made go on.
pub(super) async fn cancel(
    tx: &Tx,
    now: Timestamp,
    order: &CancelBackfill,
) -> Result<Result<u32, Error>, store::Error> {
    let Some(mut row) = store::backfill::find(tx, order.id).await? else {
        return Ok(Err(Error::NotFound { kind: "backfill", name: order.id.to_string() }));
    };
    if row.state != State::Running {
        let message = format!("the backfill has ended already: it is {}", row.state.word());
        return Ok(Err(Error::Conflict { reason: "BACKFILL_ENDED", message }));
    }
    let reason = if order.reason.is_empty() { "cancelled on request" } else { order.reason.as_str() };
    (row.state, row.reason, row.ended_at) = (State::Cancelled, reason.to_owned(), Some(now));
    store::backfill::update(tx, &row).await?;
    let live = store::backfill::live(tx, &[row.id]).await?;
    Ok(Ok(live.get(&row.id).copied().unwrap_or_default()))
}
