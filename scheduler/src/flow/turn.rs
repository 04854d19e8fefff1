//! One turn of the engine: what came in is decided, written and committed in one transaction; what follows from it
//! leaves afterwards. A turn that fails has changed nothing.
//!
//! Locks are taken in one order everywhere: job configs, runners, jobs, tasks, each in id order. Whoever waited for one
//! reads what it guards in a later statement, and the time is read after the last of them.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use tracing::debug;
use uuid::Uuid;

use super::{
    admission, backfill,
    batch::{Agenda, Context, Input, Output, Reset},
    callbacker, completions,
    data::Data,
    dispatcher, expander, gates,
    order::Order,
    orders, picker,
    plan::Plans,
    reaper, sub_jobs, transfer, trigger, uses,
    work::Work,
};
use crate::{domain::task::TaskState, store};

/// Runs a turn that must not take longer than `limit`. What a turn changed of the plans in memory is forgotten with it:
/// a version that it stored and planned for may be another one when it comes about.
pub(super) async fn within(limit: Duration, context: &mut Context, input: &Input) -> Result<Output, store::Error> {
    let store = context.store.clone();
    let outcome = {
        let mut work = std::pin::pin!(run(context, input));
        tokio::time::timeout(limit, work.as_mut()).await.unwrap_or_else(|_| {
            // Before the turn is dropped, which gives its connection back.
            store.distrust_writer();
            Err(store::Error::Silent(limit))
        })
    };
    if outcome.is_err() {
        context.plans = Plans::default();
        context.followed = None;
    }
    outcome
}

/// Runs a turn.
async fn run(context: &mut Context, input: &Input) -> Result<Output, store::Error> {
    let tx = context.store.begin().await?;
    let mut output = Output::default();

    let claims = orders::claim(&tx, &input.orders).await?;
    if input.orders.iter().any(uses::concerned) {
        store::uses::lock(&tx).await?;
    }
    let mut configs = orders::lock_configs(&tx, &input.orders, &claims).await?;
    let mut fires = trigger::Claims::default();
    let mut places = admission::Claims::default();
    let mut more_due = false;
    let reschedules = input.orders.iter().any(Order::reschedules);
    if input.fire {
        let except = configs.values().filter(|_| reschedules).map(|config| config.id).collect();
        let look = input.look.is_some();
        let search =
            trigger::Search { released: input.job_ended || look, calendars: look, ahead: input.clock_set_back };
        fires = trigger::claim(&tx, &mut context.plans, search, &except).await?;
        more_due = fires.more;
        if search.released {
            places = admission::claim(&tx).await?;
        }
        output.more_ahead = fires.more_ahead;
        output.more |= fires.more_outdated;
    }

    let mut backfills = backfill::Claims::default();
    if input.fire && (input.job_ended || input.look.is_some()) {
        backfills = backfill::claim(&tx, &mut context.plans).await?;
    }
    let mut locked: BTreeSet<Uuid> = fires.configs().chain(backfills.configs()).chain(places.configs()).collect();

    let mut silent = Vec::new();
    if input.sweep.is_some() {
        silent = reaper::silent(&tx, &context.timing).await?;
    }
    let mut pinned = reaper::Pinned::default();
    if input.sweep.is_some() {
        pinned = reaper::pinned(&tx, &context.timing).await?;
    }
    let runners = dispatcher::lock_runners(&tx, input, silent.iter().chain(&pinned.runners)).await?;

    let mut wanted: BTreeSet<Uuid> = input.facts.iter().map(|fact| fact.job_id).collect();
    wanted.extend(input.orders.iter().filter_map(Order::job));
    let held = dispatcher::survey(&tx, input, &silent).await?;
    wanted.extend(&held.jobs);
    let mut moving = transfer::Stranded::default();
    wanted.extend(callbacker::jobs_of(input));
    wanted.extend(callbacker::jobs_told_again(&tx, &input.orders).await?);
    wanted.extend(trigger::jobs_of(&tx, &fires).await?);
    wanted.extend(&input.handover.newborn);
    let families = sub_jobs::claim(&tx, &input.handover, input.look.is_some()).await?;
    output.more |= families.more;
    wanted.extend(sub_jobs::jobs_of(&tx, &families).await?);
    wanted.extend(places.jobs());
    wanted.extend(pinned.jobs());
    let mut alarms = Vec::new();
    let mut laid_aside = BTreeSet::new();
    if input.look.is_some() {
        laid_aside = context.plans.take_parked();
        wanted.extend(&laid_aside);
        let left = expander::left(&tx, &laid_aside).await?;
        output.more |= left.len() == expander::JOBS_MAX as usize;
        wanted.extend(left);
        wanted.extend(reaper::late_jobs(&tx).await?);
        moving = transfer::stranded(&tx, &context.timing).await?;
        wanted.extend(&moving.jobs);
        alarms = reaper::late_tasks(&tx).await?;
        output.more |= alarms.len() == reaper::ALARMS_MAX as usize;
        wanted.extend(alarms.iter().filter_map(|(_, job)| *job));
    }
    let wanted: Vec<Uuid> = wanted.into_iter().collect();
    let (rows, now) = store::job::lock(&tx, &wanted).await?;
    output.now = now;
    output.read_at = Some(Instant::now());
    let mut work = Work::new(now);
    let mut plans = context.plans.load(&tx, rows.iter().map(|row| (row.job_config_id, row.version))).await?;
    for row in rows {
        let plan = match plans.get_mut(&(row.job_config_id, row.version)) {
            Some(Ok(plan)) => plan.clone(),
            // Asked for alone, it tells what is wrong with it.
            _ => context.plans.of_job(&tx, &row).await?,
        };
        output.unparked |= plan.unreadable.is_none() && laid_aside.contains(&row.id);
        work.take_job(row, plan);
    }
    if work.jobs().any(|job| job.plan.transfers) {
        work.present = store::runner::present(&tx, context.timing.heard_since(now)).await?;
    }
    let mut data = Data::default();

    output.orders = orders::pass(&tx, context, &mut work, &mut data, &input.orders, claims, &mut configs).await?;
    locked.extend(configs.values().map(|config| config.id));
    trigger::pass(&tx, &mut work, fires).await?;
    output.more |= backfill::pass(&tx, &mut work, backfills).await?;
    admission::pass(&tx, &mut work, &places, &locked).await?;
    dispatcher::pass(&tx, context, &mut work, input, &runners, &held, &mut output).await?;
    reaper::overdue(&tx, &mut work, &alarms).await?;
    reaper::late(&tx, &mut work).await?;
    if let Some(judge) = input.sweep {
        let sweep = reaper::Sweep { judge, silent: &silent, pinned: &pinned, runners: &runners };
        reaper::sweep(&tx, context, &mut work, sweep, &mut output).await?;
    }
    transfer::pass(&tx, &context.timing, &mut work, &moving).await?;
    callbacker::pass(&tx, context, &mut work, input).await?;
    sub_jobs::pass(&tx, context, &mut work, &families).await?;
    let expanded = expander::pass(&tx, &mut work).await?;
    output.more |= expanded.more;
    output.more |= gates::settle(&tx, context, &mut work, &mut data, expanded.opening).await?;
    output.handover = work.handover();
    output.waits = work.newborn().any(|job| job.row.waiting);
    // Who was born outside the lock of its config asks for a place in the next turn.
    output.job_ended = work.ended_a_job()
        || work.proved_gone()
        || work.held_jobs(true).any(|job| !locked.contains(&job.job_config_id));
    // Before what is in hand is written, so that what is given out at once is written once.
    let gives = !input.idle.is_empty() || !output.facts.is_empty();
    let pick =
        if gives { Some(picker::begin(&tx, context, &mut work, &mut data, input, &mut output).await?) } else { None };
    let written = work.write(&tx).await?;
    output.changed = written.changed;
    if !work.finished().is_empty() && written.followed.or(context.followed) != Some(false) {
        output.followed = store::after_jobs::note(&tx, work.finished()).await? > 0;
    }
    if !context.clustered && (reschedules || context.followed.is_none()) {
        context.followed = Some(store::after_jobs::any(&tx).await?);
    }
    if input.callbacks_room > 0 && (input.callbacks_due || work.has_told()) {
        callbacker::claim(&tx, context, now, input.callbacks_room, &mut output).await?;
    }

    let mut elsewhere = false;
    for reset in work.tasks().filter(|task| task.state == TaskState::Terminating).filter_map(Reset::of) {
        elsewhere = true;
        output.resets.push(reset);
    }
    let left = match pick {
        Some(pick) => picker::end(&tx, context, &mut work, &mut data, input, &mut output, pick).await?,
        None => expanded.queued || work.tasks().any(|task| task.state == TaskState::Queued),
    };
    output.next_wake = match &input.look {
        // Those that wait since an earlier turn were told then, and are found again by every look.
        None => work
            .tasks()
            .filter(|task| task.state == TaskState::Queued)
            .map(|task| task.counters.not_before)
            .filter(|at| *at > now)
            .min(),
        Some(_) => store::task::next_not_before(&tx, now).await?,
    };
    if output.keys_busy {
        let again = now + picker::KEYS_AGAIN;
        output.next_wake = Some(output.next_wake.map_or(again, |next| next.min(again)));
    }
    if let Some(sessions) = &input.look {
        output.resets.extend(store::task::terminating_in(&tx, sessions).await?.iter().filter_map(Reset::of));
        output.resets.extend(completions::to_tell(&tx, sessions).await?);
        if input.in_doubt {
            output.doubtful = store::task::dispatched_in(&tx, sessions).await?.iter().filter_map(Reset::of).collect();
        }
        output.drained = Some(store::runner::drained_of(&tx, context.scheduler).await?);
        store::request::forget(&tx, now, REQUESTS_FORGOTTEN_MAX).await?;
    }
    if input.fire || reschedules {
        // What is due still is more than one turn takes, or in the hands of another scheduler.
        let again = if more_due { now } else { now + DUE_AGAIN };
        let due = store::schedule::next_due(&tx).await?.map(|due| due.max(again));
        output.agenda = Some(Agenda { due, waiters: store::schedule::waiters(&tx).await? });
    }
    output.more |= input.orders.iter().any(Order::goes_on);
    let drains = input.orders.iter().any(Order::is_drain);
    // The runner that waited is told at once; one of another scheduler by the next look of that.
    output.resets.extend(completions::to_tell(&tx, &input.completing).await?);
    let completes = input.orders.iter().any(Order::completes);
    if context.clustered && (left || elsewhere || drains || completes) {
        store::scheduler::wake_others(&tx).await?;
    }
    tx.commit().await?;
    debug!(
        orders = input.orders.len(),
        facts = input.facts.len(),
        dispatched = output.dispatched.len(),
        changed = output.changed.len(),
        "turn"
    );
    Ok(output)
}

/// How long to leave a due schedule to another scheduler that has it in hand.
const DUE_AGAIN: Duration = Duration::from_millis(5);

/// How many kept answers one turn forgets at most.
const REQUESTS_FORGOTTEN_MAX: u32 = 500;
