//! What runners say: hellos are admitted and settled, reports become changes of tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracing::info;
use uuid::Uuid;

use super::{
    batch::{Adopted, Context, Fact, HelloAnswer, HelloInput, Input, Leaving, News, Outcome, Output},
    ending::{cut, end, end_all, finish},
    order::Order,
    work::Work,
};
use crate::{
    domain::{
        definition::span,
        heartbeat::{self, Admission, Hello, SlotReport, SlotStatus, TaskRef, Verdict},
        task::{Ending, Event, TaskState},
    },
    store::{self, Tx, attempt::Unproven, runner::RunnerRow},
};

/// Locks the runners that this turn is about, in id order; one that is new gets its row first.
pub(super) async fn lock_runners(
    tx: &Tx,
    input: &Input,
    silent: impl Iterator<Item = &String>,
) -> Result<BTreeMap<String, RunnerRow>, store::Error> {
    let mut hellos: Vec<&Hello> = input.hellos.iter().map(|input| &input.hello).collect();
    hellos.sort_by(|a, b| a.runner_id.cmp(&b.runner_id));
    if !hellos.is_empty() {
        let now = store::scheduler::now(tx).await?;
        for hello in &hellos {
            store::runner::ensure(tx, hello, now).await?;
        }
    }
    let mut ids: BTreeSet<String> = hellos.iter().map(|hello| hello.runner_id.clone()).collect();
    ids.extend(input.leaving.iter().map(|leaving| leaving.runner.clone()));
    ids.extend(input.draining.iter().map(|(runner, ..)| runner.clone()));
    ids.extend(input.orders.iter().filter_map(Order::runner).map(str::to_owned));
    ids.extend(silent.cloned());
    let ids: Vec<String> = ids.into_iter().collect();
    store::runner::lock(tx, &ids).await
}

/// What runners that dialed, leave or are silent have by our books.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The jobs to be locked.
    pub jobs: Vec<Uuid>,
    /// By runner, the dispatches whose end is not proven.
    unproven: HashMap<String, Vec<Unproven>>,
}

/// Looks at what this turn must lock for its hellos, leavings and losses. Read after the runners were locked: from then
/// on nobody gives them more.
pub(super) async fn survey(tx: &Tx, input: &Input, silent: &[String]) -> Result<Survey, store::Error> {
    let mut jobs = Vec::new();
    let mut held: Vec<Uuid> = Vec::new();
    let mut unproven = HashMap::new();
    for HelloInput { hello, .. } in &input.hellos {
        jobs.extend(store::task::jobs_held_by(tx, &hello.runner_id).await?);
        let doubted = store::attempt::unproven_of(tx, &hello.runner_id).await?;
        jobs.extend(doubted.iter().map(|doubted| doubted.job_id));
        unproven.insert(hello.runner_id.clone(), doubted);
        held.extend(hello.inventory.iter().filter_map(|item| item.task).map(|task| task.task));
    }
    for runner in input.leaving.iter().map(|leaving| &leaving.runner).chain(silent) {
        jobs.extend(store::task::jobs_held_by(tx, runner).await?);
    }
    jobs.extend(store::task::jobs_of(tx, &held).await?);
    Ok(Survey { jobs, unproven })
}

/// Settles hellos, then facts, then leavings.
pub(super) async fn pass(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    input: &Input,
    runners: &BTreeMap<String, RunnerRow>,
    survey: &Survey,
    output: &mut Output,
) -> Result<(), store::Error> {
    let concerned: BTreeSet<Uuid> = input.facts.iter().map(|fact| fact.task.task).collect();
    let concerned: Vec<Uuid> = concerned.into_iter().collect();
    work.take_tasks(store::task::given_out(tx, &concerned).await?);
    take_groups_of_slow_shards(tx, work, input).await?;

    let mut taken: HashMap<&str, Admission> = HashMap::new();
    for HelloInput { hello, session } in &input.hellos {
        // Of several dials of one runner in one turn the first that is admitted counts; the others dial again.
        let answer = if taken.contains_key(hello.runner_id.as_str()) {
            HelloAnswer::Refused(Admission::Superseded)
        } else {
            let unproven = survey.unproven.get(&hello.runner_id).map_or(&[][..], Vec::as_slice);
            admit(tx, context, work, hello, *session, runners, unproven).await?
        };
        if let HelloAnswer::Admitted { adopted, .. } = &answer
            && adopted.iter().any(|item| work.is_parked(item.job_id))
        {
            output.untaken.push(*session);
        }
        if let HelloAnswer::Admitted { .. } = answer {
            taken.insert(&hello.runner_id, Admission::New);
            output.superseded.extend(runners.get(&hello.runner_id).and_then(|runner| runner.session_id));
        }
        output.hellos.push(answer);
    }
    for fact in &input.facts {
        let outcome = apply(work, fact);
        output.untaken.extend(fact.source.filter(|_| outcome.untaken).map(|(session, _)| session));
        output.facts.push(outcome);
    }
    for (runner, session, draining) in &input.draining {
        store::runner::set_draining(tx, runner, *session, *draining).await?;
    }
    for Leaving { runner, session } in &input.leaving {
        if runners.get(runner).is_some_and(|row| row.session_id == Some(*session)) {
            let held = store::task::lock_held_by(tx, runner).await?;
            end_all(
                work,
                held,
                |task| heartbeat::missing_from_hello(Admission::SameBoot, task.state, true),
                "its runner left",
            );
            store::runner::end_session(tx, runner).await?;
            info!(runner.id = %runner, "runner left");
        }
    }
    Ok(())
}

/// Decides whether a hello counts, and settles what the runner brought and what it lacks, in the transaction that
/// takes its row [6].
async fn admit(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    hello: &Hello,
    session: Uuid,
    runners: &BTreeMap<String, RunnerRow>,
    unproven: &[Unproven],
) -> Result<HelloAnswer, store::Error> {
    let row = runners.get(&hello.runner_id);
    let admission = heartbeat::admit(row.map(|row| &row.known), hello, work.now, context.timing.lost_after);
    if matches!(admission, Admission::Superseded | Admission::Duplicate) {
        return Ok(HelloAnswer::Refused(admission));
    }
    store::runner::take(tx, hello, session, context.scheduler, work.now).await?;

    let brought: Vec<Uuid> = hello.inventory.iter().filter_map(|item| item.task).map(|task| task.task).collect();
    work.take_tasks(store::task::lock(tx, &brought).await?);
    let held = store::task::lock_held_by(tx, &hello.runner_id).await?;
    let held_ids: Vec<Uuid> = held.iter().map(|task| task.id).collect();
    work.take_tasks(held);

    let (mut verdicts, mut adopted, mut present) = (Vec::new(), Vec::new(), BTreeSet::new());
    for item in &hello.inventory {
        let Some(reference) = item.task else { continue };
        present.insert((reference.task, reference.lease));
        let verdict = settle_item(work, item, reference);
        let grace = work.task(reference.task).and_then(|task| task.end_grace);
        if matches!(verdict, Verdict::Adopt | Verdict::Cancel) {
            let now = work.now;
            let plan = work.plan(work.task(reference.task).expect("the task is in hand").job_id);
            let row = work.edit(reference.task);
            row.session_id = Some(session);
            row.slot = Some(item.slot);
            adopted.push(Adopted {
                slot: item.slot,
                task: reference,
                job_id: row.job_id,
                started_at: row.started_at.unwrap_or(now),
                timeout: plan.task(row.node).timeout,
                warn_after: plan.task(row.node).warn_after,
                cancelled: verdict == Verdict::Cancel,
            });
        }
        verdicts.push((reference, verdict, grace.filter(|_| verdict == Verdict::Cancel)));
    }
    for id in held_ids {
        let task = work.task(id).expect("the task is in hand");
        if !task.state.holds_slot() || present.contains(&(id, task.counters.lease)) {
            continue;
        }
        let ended = hello.ended.contains(&task.reference());
        let ending = if ended && admission == Admission::SameBoot {
            // The watchdog ended it while this process was frozen.
            Ending::Lost { death: false }
        } else {
            let stops = work.plan(task.job_id).stops_when_cut_off(task.node);
            heartbeat::missing_from_hello(admission, task.state, stops)
        };
        let reason = match admission {
            Admission::SameBoot => "its runner no longer has it",
            Admission::NewBoot => "its runner was restarted",
            _ => "its runner was lost",
        };
        end(work, id, ending, reason, None);
    }
    adopted.extend(prove(tx, work, hello, admission, unproven).await?);
    info!(runner.id = %hello.runner_id, session.id = %session, ?admission, "runner connected");
    let drained = row.is_some_and(|row| row.drained);
    Ok(HelloAnswer::Admitted { verdicts, adopted, drained })
}

/// Takes what a hello proves about dispatches that were lost without proof: what its runner does not run is gone. What it
/// still runs it is told to end by the verdict; its answer to that is the proof [8].
async fn prove(
    tx: &Tx,
    work: &mut Work,
    hello: &Hello,
    admission: Admission,
    unproven: &[Unproven],
) -> Result<Vec<Adopted>, store::Error> {
    let mut ending = Vec::new();
    // Another host knows nothing of the earlier one's processes.
    if unproven.is_empty() || !matches!(admission, Admission::SameBoot | Admission::NewBoot) {
        return Ok(ending);
    }
    let tasks: Vec<Uuid> = unproven.iter().map(|doubted| doubted.task.task).collect();
    work.take_tasks(store::task::lock(tx, &tasks).await?);
    for Unproven { task, job_id } in unproven {
        let runs = |item: &&SlotReport| {
            item.status == SlotStatus::Running
                && item.task.is_some_and(|held| (held.task, held.lease) == (task.task, task.lease))
        };
        match hello.inventory.iter().find(runs) {
            Some(item) => ending.push(Adopted {
                slot: item.slot,
                task: item.task.unwrap_or(*task),
                job_id: *job_id,
                started_at: work.now,
                timeout: None,
                warn_after: None,
                cancelled: true,
            }),
            None => work.prove_gone(*task),
        }
    }
    Ok(ending)
}

/// Judges one item of an inventory and carries the verdict out.
fn settle_item(work: &mut Work, item: &SlotReport, reference: TaskRef) -> Verdict {
    let known = work.task(reference.task).map(|task| (task.state, task.counters.lease));
    let verdict = heartbeat::judge(known, reference.lease, item.status);
    if verdict == Verdict::Apply && work.task(reference.task).is_some_and(|task| work.is_parked(task.job_id)) {
        // The runner keeps the result until somebody can take it.
        return Verdict::Adopt;
    }
    match verdict {
        Verdict::Adopt if known.is_some_and(|(state, _)| state == TaskState::Dispatched) => {
            work.happen(reference.task, Event::Started, "");
            verdict
        }
        Verdict::Apply => {
            match &item.result {
                Some(result) => {
                    finish(work, reference.task, result);
                }
                None => end(work, reference.task, Ending::Failure, "it ended without a result", None),
            }
            Verdict::Ack
        }
        _ => verdict,
    }
}

/// Lets a fact have its effect, if it is about the task's present dispatch.
fn apply(work: &mut Work, fact: &Fact) -> Outcome {
    let stale = Outcome { counted: false, untaken: false, refused: String::new() };
    let Some(row) = work.task(fact.task.task) else { return stale };
    if work.job(row.job_id).is_none() {
        return stale;
    }
    let (lease, doubted) = (row.counters.lease, !row.gone && row.counters.lease == fact.task.lease);
    if (doubted || fact.task.lease < lease) && fact.news.is_an_end() {
        // It changes nothing any more, but it proves that none of its processes is left.
        work.prove_gone(fact.task);
        return stale;
    }
    let row = work.task(fact.task.task).expect("the task is in hand");
    if lease != fact.task.lease {
        return stale;
    }
    if work.is_parked(row.job_id) && !matches!(fact.news, News::Started) {
        return Outcome { counted: true, untaken: true, refused: String::new() };
    }
    if let News::Unrenderable(reason) = &fact.news {
        let counted = work.happen(fact.task.task, Event::NotEvaluable, cut(reason));
        return Outcome { counted, untaken: false, refused: String::new() };
    }
    if !row.state.holds_slot() {
        return stale;
    }
    let (id, state) = (row.id, row.state);
    let mut refused = String::new();
    match &fact.news {
        News::Started => {
            work.happen(id, Event::Started, "");
        }
        News::Result(result) => refused = finish(work, id, result),
        News::Ended(ending, message) => end(work, id, *ending, message, None),
        News::IdlePastAck => {
            let message =
                if state == TaskState::Dispatched { "failed to start" } else { "its runner no longer has it" };
            end(work, id, heartbeat::idle_past_ack(state), message, None);
        }
        News::TakesLong => warn(work, id),
        News::Unrenderable(_) => {}
    }
    Outcome { counted: true, untaken: false, refused }
}

/// Takes the groups in hand whose shards take long: others are told of the group, once.
async fn take_groups_of_slow_shards(tx: &Tx, work: &mut Work, input: &Input) -> Result<(), store::Error> {
    let slow = input.facts.iter().filter(|fact| matches!(fact.news, News::TakesLong));
    let groups: BTreeSet<Uuid> = slow.filter_map(|fact| work.task(fact.task.task)?.group_id).collect();
    if !groups.is_empty() {
        work.take_tasks(store::task::lock(tx, &groups.into_iter().collect::<Vec<_>>()).await?);
    }
    Ok(())
}

/// Records, once an attempt, that it takes long, and has it told: of a shard by its group, for the first of them alone.
fn warn(work: &mut Work, id: Uuid) {
    let now = work.now;
    let task = work.task(id).expect("the task is in hand");
    if task.state != TaskState::Running || task.warned_at.is_some() {
        return;
    }
    let (job, teller) = (task.job_id, task.group_id.unwrap_or(id));
    let after = work.plan(job).task(task.node).warn_after.unwrap_or_default();
    if work.task(teller).is_some_and(|teller| teller.warned_at.is_none()) {
        work.slow(job, Some(teller));
        work.note(teller).warned_at = Some(now);
    }
    let row = work.note(id);
    row.warned_at = Some(now);
    row.reason = format!("runs longer than {}", span::format(after));
    tracing::warn!(task.id = %id, attempt = row.counters.attempt, ?after, "task runs long");
}
