//! Due schedules become jobs, and jobs that waited their turn begin.
//!
//! A job is born in the transaction that moves its schedule on, under the lock of its config: with any number of
//! schedulers, and through a crash at any moment, one fire makes one job. A schedule that cannot be understood is laid
//! aside with its reason and holds up no other.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};
use uuid::Uuid;

use super::{
    birth::{self, Cause, Kin},
    ending::{self, cut},
    plan::{Plan, Plans},
    schedules::{park, wait_for},
    work::Work,
};
use crate::{
    domain::{
        definition,
        job::{self, JobState},
        schedule::{
            self, Schedule, Spec,
            misfire::{Decision, Due, Missed, Pace, Waiting},
            overlap::{self, Live, Overlap, Verdict},
        },
        time::Timestamp,
    },
    store::{
        self, Tx,
        schedule::{Claimed, Config, MissedRow, ScheduleRow, State},
    },
};

/// How many schedules one turn decides.
const SCHEDULES_MAX: u32 = 500;
/// How many configs one turn looks into for jobs that wait.
const HELD_MAX: u32 = 100;

/// What a turn has claimed: the schedules to be decided, and the configs whose waiting jobs may begin.
#[derive(Debug, Default)]
pub(super) struct Claims {
    schedules: Vec<(Claimed, Result<std::sync::Arc<Plan>, String>)>,
    held: Vec<Config>,
    /// There may be more of them.
    pub more: bool,
}

/// Claims what is due, and what waited for the end of a job when that is to be looked for. Configs that this turn
/// stores or deletes are left to the next one.
pub(super) async fn claim(
    tx: &Tx,
    plans: &mut Plans,
    released: bool,
    except: &BTreeSet<Uuid>,
) -> Result<Claims, store::Error> {
    let early = store::scheduler::now(tx).await?;
    let mut claims = Claims::default();
    let mut claimed = store::schedule::claim_due(tx, early, SCHEDULES_MAX).await?;
    claims.more = claimed.len() >= SCHEDULES_MAX as usize;
    if released {
        claimed.extend(store::schedule::claim_released(tx, SCHEDULES_MAX).await?);
        claims.held = store::schedule::claim_held(tx, HELD_MAX).await?;
        claims.held.retain(|config| !except.contains(&config.id));
    }
    for claimed in claimed {
        if except.contains(&claimed.config.id) {
            claims.more = true;
            continue;
        }
        let plan = match plans.get(tx, claimed.config.id, claimed.config.version).await {
            Ok(plan) => Ok(plan),
            // One definition that cannot be read must not hold up the others.
            Err(error @ store::Error::Unreadable { .. }) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        claims.schedules.push((claimed, plan));
    }
    Ok(claims)
}

/// The jobs that this turn must lock for its claims. The configs are locked: nobody makes more.
pub(super) async fn jobs_of(tx: &Tx, claims: &Claims) -> Result<Vec<Uuid>, store::Error> {
    let mut configs: Vec<Uuid> = claims.held.iter().map(|config| config.id).collect();
    let replacing = claims
        .schedules
        .iter()
        .filter(|(_, plan)| plan.as_ref().is_ok_and(|plan| matches!(plan.config.overlap(), Overlap::Replace)));
    configs.extend(replacing.map(|(claimed, _)| claimed.config.id));
    store::schedule::live_jobs(tx, &configs).await
}

/// Decides what was claimed.
pub(super) async fn pass(tx: &Tx, work: &mut Work, claims: Claims) -> Result<(), store::Error> {
    if claims.schedules.is_empty() && claims.held.is_empty() {
        return Ok(());
    }
    let mut configs: BTreeSet<Uuid> = claims.held.iter().map(|config| config.id).collect();
    configs.extend(claims.schedules.iter().map(|(claimed, _)| claimed.config.id));
    let configs: Vec<Uuid> = configs.into_iter().collect();
    let mut live = store::schedule::live(tx, &configs).await?;
    for job in work.newborn() {
        live.entry(job.row.job_config_id).or_default().active += 1;
    }
    for config in &claims.held {
        begin_next(work, config.id, live.entry(config.id).or_default());
    }

    let now = work.now;
    let mut rows: Vec<ScheduleRow> = Vec::with_capacity(claims.schedules.len());
    let mut decided = Vec::with_capacity(claims.schedules.len());
    for (claimed, plan) in claims.schedules {
        let mut row = claimed.row.clone();
        match plan.and_then(|plan| decide(&claimed, &plan, now).map(|step| (plan, step))) {
            Ok((_, Step::Wait(next, schedule))) => wait_for(&mut row, &schedule, &next, now),
            Ok((plan, Step::Fire(decision, schedule))) => {
                decided.push((rows.len(), Turn { config: claimed.config, plan, schedule, decision }));
            }
            Err(reason) => {
                warn!(job.name = %claimed.config.name, schedule = %row.key, reason, "schedule parked");
                park(&mut row, reason);
            }
        }
        rows.push(row);
    }
    let due: Vec<(Uuid, &str, Timestamp)> = decided
        .iter()
        .flat_map(|(place, turn)| {
            let row = &rows[*place];
            turn.decision.run.iter().map(move |due| (row.job_config_id, row.key.as_str(), due.time))
        })
        .collect();
    let fired = store::schedule::fired(tx, &due).await?;
    let mut missed = Vec::new();
    for (place, turn) in decided {
        let row = &mut rows[place];
        let live = live.entry(row.job_config_id).or_default();
        let (config, plan, before) = (turn.config.clone(), turn.plan.clone(), missed.len());
        turn.fire(tx, work, row, live, &fired, &mut missed).await?;
        work.missed(&config, &plan, &missed[before..]);
    }
    store::schedule::put(tx, &rows).await?;
    store::schedule::record(tx, &missed, now).await
}

/// What a claimed schedule comes to before overlap is asked.
enum Step {
    /// Fires are due.
    Fire(Decision, Schedule),
    /// It waits for this.
    Wait(schedule::Next, Schedule),
}

/// Decides a schedule by itself, or tells why it must be parked.
fn decide(claimed: &Claimed, plan: &Plan, now: Timestamp) -> Result<Step, String> {
    let Claimed { row, config, job_ended_at } = claimed;
    let spec: Spec = serde_json::from_str(&row.spec).map_err(|error| format!("it cannot be read: {error}"))?;
    let identity = schedule::identity(&config.namespace, &config.name, &row.key);
    let schedule = Schedule::new(&spec, &identity, row.created_at, &[])
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let not_forward = |fault: schedule::NotForward| fault.to_string();
    if row.state == State::End {
        let next = schedule.next(job_ended_at.unwrap_or(now)).map_err(not_forward)?;
        return Ok(Step::Wait(next, schedule));
    }
    let (Some(time), Some(due_at)) = (row.next_fire_at, row.due_at) else {
        return Err("it waits for no fire; apply it again".to_owned());
    };
    let pace = match plan.config.overlap() {
        Overlap::Allow => Pace::Together,
        _ => Pace::OneByOne { last_made: row.last_made_at },
    };
    let decision = schedule.decide(Waiting { time, due_at }, now, pace).map_err(not_forward)?;
    Ok(Step::Fire(decision, schedule))
}

/// The fires of one schedule that a turn decides.
struct Turn {
    config: Config,
    plan: std::sync::Arc<Plan>,
    schedule: Schedule,
    decision: Decision,
}

impl Turn {
    /// What its jobs are made of.
    fn kin(&self) -> Kin {
        Kin {
            config: self.config.id,
            version: self.config.version,
            namespace: self.config.namespace.clone(),
            name: self.config.name.clone(),
            plan: self.plan.clone(),
        }
    }

    /// Makes the jobs, writes down what makes none, and moves the schedule on.
    async fn fire(
        self,
        tx: &Tx,
        work: &mut Work,
        row: &mut ScheduleRow,
        live: &mut Live,
        fired: &BTreeSet<(Uuid, String, Timestamp)>,
        missed: &mut Vec<MissedRow>,
    ) -> Result<(), store::Error> {
        let overlap = self.plan.config.overlap();
        let now = work.now;
        let mut made = false;
        for fires in &self.decision.missed {
            miss(row, missed, *fires, fires.reason.as_str().to_owned());
        }
        for due in &self.decision.run {
            if fired.contains(&(row.job_config_id, row.key.clone(), due.time)) {
                row.last_fire_at = row.last_fire_at.max(Some(due.time));
                continue;
            }
            let verdict = overlap.decide(*live, due.catch_up);
            if verdict == Verdict::Later {
                row.state = State::Turn;
                row.next_fire_at = Some(due.time);
                row.due_at = Some(self.schedule.due(due.time));
                return Ok(());
            }
            if let Verdict::Skip(reason) = verdict {
                miss(row, missed, alone(due.time), reason.as_str().to_owned());
                continue;
            }
            let waiting = verdict != Verdict::Start;
            let (key, zone) = (row.key.clone(), self.schedule.zone());
            let cause = Cause::Schedule { key, fire_time: due.time, zone, waiting };
            let replaced: Vec<Uuid> = work.live_of(self.config.id);
            let job = match birth::bear(work, self.kin(), &BTreeMap::new(), cause) {
                Ok(job) => job,
                Err(wrong) => {
                    let wrong: Vec<String> =
                        wrong.into_iter().map(|param| format!("params.{} {}", param.name, param.message)).collect();
                    miss(row, missed, alone(due.time), cut(&format!("missed: {}", wrong.join("; "))));
                    continue;
                }
            };
            if verdict == Verdict::Replace {
                make_room(tx, work, &replaced, live).await?;
            }
            *(if waiting { &mut live.waiting } else { &mut live.active }) += 1;
            tell(&self.config, row, due, job, waiting);
            row.last_fire_at = Some(due.time);
            row.last_made_at = Some(now);
            made = true;
        }
        if self.schedule.follows_completion() {
            if made {
                (row.state, row.next_fire_at, row.due_at) = (State::End, None, None);
                return Ok(());
            }
            // Counted from now: there is no job whose end it could be counted from.
            match self.schedule.next(now) {
                Ok(next) => wait_for(row, &self.schedule, &next, now),
                Err(fault) => park(row, fault.to_string()),
            }
            return Ok(());
        }
        wait_for(row, &self.schedule, &self.decision.next, now);
        if row.state == State::Due {
            row.due_at = self.decision.due_at.or(row.due_at);
        }
        Ok(())
    }
}

fn tell(config: &Config, row: &ScheduleRow, due: &Due, job: Uuid, waiting: bool) {
    let late = u64::try_from(due.late.as_millis()).unwrap_or(u64::MAX);
    info!(job.id = %job, job.name = %config.name, schedule = %row.key, late_ms = late, waiting, "schedule fired");
}

fn alone(time: Timestamp) -> Missed {
    // The reason of an overlap has words of its own; this one is not shown.
    Missed { first: time, last: time, count: 1, reason: schedule::misfire::Reason::PolicySkip }
}

/// Notes fires that make no job.
fn miss(row: &mut ScheduleRow, missed: &mut Vec<MissedRow>, fires: Missed, reason: String) {
    missed.push(MissedRow {
        job_config_id: row.job_config_id,
        key: row.key.clone(),
        before: row.last_fire_at,
        first: fires.first,
        last: fires.last,
        count: i64::try_from(fires.count).unwrap_or(i64::MAX),
        reason,
    });
    row.last_fire_at = row.last_fire_at.max(Some(fires.last));
}

/// Ends the jobs that a newer fire replaces: what lives is terminated, what waits gives way.
async fn make_room(tx: &Tx, work: &mut Work, jobs: &[Uuid], live: &mut Live) -> Result<(), store::Error> {
    for &job in jobs {
        if work.job(job).is_some_and(|job| job.row.waiting) {
            skip(work, job, overlap::Reason::Replaced);
        } else {
            ending::terminate_job(tx, work, job, "replaced by a newer fire", None).await?;
        }
    }
    live.waiting = 0;
    Ok(())
}

/// Lets the oldest job that waits begin, if it still may; those that may not any more are skipped.
fn begin_next(work: &mut Work, config: Uuid, live: &mut Live) {
    if live.active > 0 || live.unproven > 0 {
        return;
    }
    let mut waiting: Vec<(Option<Timestamp>, Uuid)> = work
        .jobs()
        .filter(|job| job.row.job_config_id == config && job.row.waiting && job.row.state == JobState::Created)
        .map(|job| (job.row.fire_time, job.row.id))
        .collect();
    waiting.sort_unstable();
    for (fire, id) in waiting {
        live.waiting = live.waiting.saturating_sub(1);
        let plan = work.plan(id);
        let key = work.job(id).and_then(|job| job.row.schedule.clone());
        let schedule = key.and_then(|key| schedule_of(&plan.config, &key));
        let may = match (schedule, fire) {
            (Some(schedule), Some(fire)) => plan.config.overlap().may_still_start(&schedule, fire, work.now),
            _ => Ok(()),
        };
        match may {
            Ok(()) => {
                work.job_mut(id).expect("the job is in hand").waiting = false;
                live.active += 1;
                return;
            }
            Err(reason) => skip(work, id, reason),
        }
    }
}

fn schedule_of(config: &definition::JobConfig, key: &str) -> Option<Schedule> {
    let (_, found) = config.keyed_schedules().find(|(known, _)| known == key)?;
    let identity = schedule::identity(&config.namespace, &config.name, key);
    // Its window and its jitter matter, not what its intervals are counted from.
    Schedule::new(&found.spec, &identity, Timestamp(0), &[]).ok()
}

fn skip(work: &mut Work, job: Uuid, reason: overlap::Reason) {
    let now = work.now;
    let row = work.job_mut(job).expect("the job is in hand");
    if let Some(next) = row.state.after(job::Event::Skip) {
        row.state = next;
        reason.as_str().clone_into(&mut row.reason);
        row.ended_at = Some(now);
    }
}
