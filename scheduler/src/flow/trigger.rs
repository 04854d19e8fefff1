//! Due schedules become jobs, and jobs that waited their turn begin.
//!
//! A job is born in the transaction that moves its schedule on, under the lock of its config: with any number of
//! schedulers, and through a crash at any moment, one fire makes one job. A schedule that cannot be understood is laid
//! aside with its reason and holds up no other.

mod after_jobs;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tracing::{error, info, warn};
use uuid::Uuid;

use self::after_jobs::Round;
use super::{
    birth::{self, Cause, Kin},
    calendars::Calendars,
    ending::{self, cut},
    plan::{Plan, Plans},
    replan::{self, SWITCHED_OFF},
    schedules::{park, wait_for},
    work::Work,
};
use crate::{
    domain::{
        definition,
        job::{self, JobState},
        schedule::{
            self, Burst, Schedule, Spec,
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
/// How many changed calendars one turn looks into for schedules to plan anew.
const CALENDARS_MAX: u32 = 10;
/// How far ahead of now a plan may have been made before the clock counts as set back.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// What a turn has claimed: the schedules to be decided, and the configs whose waiting jobs may begin.
#[derive(Debug, Default)]
pub(super) struct Claims {
    schedules: Vec<Ready>,
    held: Vec<Config>,
    rounds: Vec<Round>,
    calendars: Calendars,
    changed: Vec<(String, String, i64)>,
    /// There may be more of them.
    pub more: bool,
    /// There may be more schedules that are planned by former dates of a calendar.
    pub more_outdated: bool,
    /// There may be more schedules that were planned by a clock that was ahead.
    pub more_ahead: bool,
}

/// What a turn looks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// What waited for the end of a job.
    pub released: bool,
    /// Calendars that changed.
    pub calendars: bool,
    /// Schedules planned by a clock that was set back since.
    pub ahead: bool,
}

/// A schedule in hand.
#[derive(Debug)]
struct Ready {
    row: ScheduleRow,
    config: Config,
    job_ended_at: Option<Timestamp>,
    plan: Result<Arc<Plan>, String>,
    spec: Result<Spec, String>,
    /// It was planned by a clock that was set back since.
    ahead: bool,
}

/// Claims what is due, and what else is to be looked for. Configs that this turn stores or deletes are left to the next
/// one.
pub(super) async fn claim(
    tx: &Tx,
    plans: &mut Plans,
    search: Search,
    except: &BTreeSet<Uuid>,
) -> Result<Claims, store::Error> {
    let early = store::scheduler::now(tx).await?;
    let mut claims = Claims::default();
    let mut claimed = store::schedule::claim_due(tx, early, SCHEDULES_MAX).await?;
    claims.more = claimed.len() >= SCHEDULES_MAX as usize;
    if search.released {
        claimed.extend(store::schedule::claim_released(tx, SCHEDULES_MAX).await?);
        claims.held = store::schedule::claim_held(tx, HELD_MAX).await?;
        claims.held.retain(|config| !except.contains(&config.id));
        claims.rounds = after_jobs::claim(tx, plans, except).await?;
    }
    if search.calendars {
        claims.changed = store::calendar::pending(tx, CALENDARS_MAX).await?;
        let mut outdated = Vec::new();
        for (namespace, name, revision) in &claims.changed {
            outdated.extend(store::calendar::outdated(tx, (namespace, name, *revision), SCHEDULES_MAX).await?);
        }
        claims.more_outdated = !outdated.is_empty();
        claimed.extend(store::schedule::claim_these(tx, &outdated).await?);
    }
    let in_time = claimed.len();
    if search.ahead {
        claimed.extend(store::schedule::claim_planned_ahead(tx, early + CLOCK_TOLERANCE, SCHEDULES_MAX).await?);
        claims.more_ahead = claimed.len() - in_time >= SCHEDULES_MAX as usize;
    }
    let mut seen = BTreeSet::new();
    let mut mine = Vec::with_capacity(claimed.len());
    for (place, claimed) in claimed.into_iter().enumerate() {
        if except.contains(&claimed.config.id) {
            claims.more = true;
            claims.more_ahead |= place >= in_time;
        } else if seen.insert(claimed.row.id) {
            mine.push((place >= in_time, claimed));
        }
    }
    let mut found = plans.load(tx, mine.iter().map(|(_, one)| (one.config.id, one.config.version))).await?;
    for (ahead, Claimed { row, config, job_ended_at }) in mine {
        let plan = match found.get_mut(&(config.id, config.version)) {
            Some(Ok(plan)) => Ok(plan.clone()),
            // One definition that cannot be read must not hold up the others.
            Some(Err(error)) => Err(error.to_string()),
            None => Err("its definition is missing".to_owned()),
        };
        let spec = serde_json::from_str(&row.spec).map_err(|error| format!("it cannot be read: {error}"));
        claims.schedules.push(Ready { row, config, job_ended_at, plan, spec, ahead });
    }
    let naming = claims.schedules.iter().filter_map(|ready| {
        let spec = ready.spec.as_ref().ok()?;
        Some((ready.row.id, ready.config.namespace.as_str(), spec))
    });
    claims.calendars = Calendars::of(tx, naming).await?;
    Ok(claims)
}

impl Claims {
    /// The configs that are locked by them.
    pub(super) fn configs(&self) -> impl Iterator<Item = Uuid> {
        let schedules = self.schedules.iter().map(|ready| ready.config.id);
        self.held.iter().map(|config| config.id).chain(schedules).chain(self.rounds.iter().map(Round::config))
    }
}

/// The jobs that this turn must lock for its claims. The configs are locked: nobody makes more.
pub(super) async fn jobs_of(tx: &Tx, claims: &Claims) -> Result<Vec<Uuid>, store::Error> {
    let mut configs: Vec<Uuid> = claims.held.iter().map(|config| config.id).collect();
    let replacing = claims
        .schedules
        .iter()
        .filter(|ready| ready.plan.as_ref().is_ok_and(|plan| matches!(plan.config.overlap(), Overlap::Replace)));
    configs.extend(replacing.map(|ready| ready.config.id));
    configs.extend(claims.rounds.iter().filter_map(Round::replacing));
    store::schedule::live_jobs(tx, &configs).await
}

/// Decides what was claimed.
pub(super) async fn pass(tx: &Tx, work: &mut Work, claims: Claims) -> Result<(), store::Error> {
    let configs: BTreeSet<Uuid> = claims.configs().collect();
    let configs: Vec<Uuid> = configs.into_iter().collect();
    let Claims { schedules, held, rounds, calendars, changed, .. } = claims;
    if schedules.is_empty() && held.is_empty() && rounds.is_empty() && changed.is_empty() {
        return Ok(());
    }
    let mut live = store::schedule::live(tx, &configs).await?;
    for job in work.newborn().filter(|job| job.row.backfill_id.is_none()) {
        live.entry(job.row.job_config_id).or_default().active += 1;
    }
    for config in &held {
        begin_next(work, config.id, live.entry(config.id).or_default());
    }

    let mut missed = Vec::new();
    after_jobs::pass(tx, work, rounds, &mut live, &mut missed).await?;

    let now = work.now;
    let mut rows: Vec<ScheduleRow> = Vec::with_capacity(schedules.len());
    let mut decided = Vec::with_capacity(schedules.len());
    let (mut anew, mut uses) = (Vec::new(), Vec::new());
    for ready in schedules {
        let mut row = ready.row.clone();
        match ready.decide(&mut row, &calendars, now) {
            Ok(Step::Wait(told)) => {
                missed.extend(told);
                if let Ok(spec) = ready.spec.as_ref().map(|spec| calendars.uses(row.id, &ready.config.namespace, spec))
                    && !spec.is_empty()
                {
                    anew.push(row.id);
                    uses.extend(spec);
                }
            }
            Ok(Step::Fire { decision, schedule, plan }) => {
                decided.push((rows.len(), Turn { config: ready.config, plan, schedule, decision }));
            }
            Err(reason) => {
                warn!(job.name = %ready.config.name, schedule = %row.key, reason, "schedule parked");
                park(&mut row, reason, now);
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
    let mut tellers: BTreeMap<Uuid, (Config, Arc<Plan>)> = BTreeMap::new();
    for (place, turn) in decided {
        let row = &mut rows[place];
        let live = live.entry(row.job_config_id).or_default();
        if !turn.plan.config.callbacks.is_empty() {
            tellers.insert(row.job_config_id, (turn.config.clone(), turn.plan.clone()));
        }
        turn.fire(tx, work, row, live, &fired, &mut missed).await?;
    }
    store::schedule::put(tx, &rows).await?;
    store::calendar::put_uses(tx, &anew, &uses).await?;
    for (namespace, name, revision) in &changed {
        store::calendar::settle(tx, (namespace, name, *revision)).await?;
    }
    // Fires that follow others which made no job either, for the same reason, are no news.
    for fires in store::schedule::record(tx, &missed, now).await? {
        if let Some((config, plan)) = tellers.get(&fires.job_config_id).filter(|_| fires.reason != SWITCHED_OFF) {
            work.missed(config, plan, std::slice::from_ref(&fires));
        }
    }
    Ok(())
}

/// What a claimed schedule comes to before overlap is asked.
enum Step {
    /// It waits: its row says for what. What is told of fires that lie behind it.
    Wait(Option<MissedRow>),
    /// Fires are due.
    Fire { decision: Decision, schedule: Box<Schedule>, plan: Arc<Plan> },
}

impl Ready {
    /// Decides it by itself, or tells why it must be parked.
    fn decide(&self, row: &mut ScheduleRow, calendars: &Calendars, now: Timestamp) -> Result<Step, String> {
        let not_forward = |fault: schedule::NotForward| fault.to_string();
        let plan = self.plan.clone()?;
        let spec = self.spec.as_ref().map_err(Clone::clone)?;
        let Config { namespace, name, .. } = &self.config;
        let identity = schedule::identity(namespace, name, &row.key);
        let schedule = Schedule::new(spec, &identity, row.created_at, &calendars.named(namespace, spec))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        if row.state == State::Paused && row.due_at.is_some_and(|until| until <= now) {
            info!(job.name = %name, schedule = %row.key, "schedule switched on again");
            return replan::switch_on(row, &schedule, now).map(Step::Wait).map_err(not_forward);
        }
        if self.ahead {
            replan::after_clock(row, &schedule, now).map_err(not_forward)?;
            return Ok(Step::Wait(None));
        }
        if let Some(changed) = calendars.changed(row.id, namespace, spec) {
            replan::after_calendar(row, &schedule, changed, now).map_err(not_forward)?;
            return Ok(Step::Wait(None));
        }
        match row.state {
            State::End => {
                let ended = self.job_ended_at.unwrap_or(now);
                let counted = row.planned_at.map_or(ended, |planned| ended.max(planned));
                let next = schedule.next(counted).map_err(not_forward)?;
                wait_for(row, &schedule, &next, now);
                return Ok(Step::Wait(None));
            }
            State::Due | State::Turn => {}
            State::Over | State::Parked | State::Paused => return Ok(Step::Wait(None)),
        }
        let (Some(time), Some(due_at)) = (row.next_fire_at, row.due_at) else {
            return Err("it waits for no fire; apply it again".to_owned());
        };
        let pace = match plan.config.overlap() {
            Overlap::Allow => Pace::Together,
            _ => Pace::OneByOne { last_made: row.last_made_at },
        };
        let decision = schedule.decide(Waiting { time, due_at }, now, pace).map_err(not_forward)?;
        Ok(Step::Fire { decision, schedule: Box::new(schedule), plan })
    }
}

/// The fires of one schedule that a turn decides.
struct Turn {
    config: Config,
    plan: Arc<Plan>,
    schedule: Box<Schedule>,
    decision: Decision,
}

impl Turn {
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
                row.planned_at = Some(now);
                return Ok(());
            }
            if let Verdict::Skip(reason) = verdict {
                miss(row, missed, alone(due.time), reason.as_str().to_owned());
                continue;
            }
            if !due.catch_up {
                match Burst::and_one(burst(row), now) {
                    Ok(Burst { since, fires }) => (row.burst_at, row.burst) = (Some(since), fires),
                    Err(fault) => {
                        error!(job.name = %self.config.name, schedule = %row.key, %fault, "schedule parked");
                        park(row, fault.to_string(), now);
                        return Ok(());
                    }
                }
            }
            let waiting = verdict != Verdict::Start;
            let (key, zone) = (row.key.clone(), self.schedule.zone());
            let cause = Cause::Schedule { key, fire_time: due.time, zone, waiting };
            let replaced: Vec<Uuid> = work.live_of(self.config.id);
            let job = match birth::bear(work, Kin::of(&self.config, self.plan.clone()), &BTreeMap::new(), cause) {
                Ok(job) => job,
                Err(wrong) => {
                    let reason = format!("missed: {}", birth::in_words("params", wrong));
                    miss(row, missed, alone(due.time), cut(&reason));
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
                row.planned_at = Some(now);
                return Ok(());
            }
            // Counted from now: there is no job whose end it could be counted from.
            match self.schedule.next(now) {
                Ok(next) => wait_for(row, &self.schedule, &next, now),
                Err(fault) => park(row, fault.to_string(), now),
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

fn burst(row: &ScheduleRow) -> Option<Burst> {
    row.burst_at.map(|since| Burst { since, fires: row.burst })
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
        if work.job(job).is_some_and(|job| job.row.waiting && !job.row.held) {
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
        .filter(|job| job.row.job_config_id == config && job.row.waiting && !job.row.held)
        .filter(|job| job.row.state == JobState::Created)
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
                let row = work.job_mut(id).expect("the job is in hand");
                // From now on it waits for a place, where there are only so many.
                row.held = plan.config.max_active_jobs.is_some();
                row.waiting = row.held;
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
        (row.ended_at, row.waiting) = (Some(now), false);
    }
}
