//! What a person changes of what has happened: tasks are run again, an end is marked.
//!
//! Ends are taken back first, and with them the skips that they caused; then the job goes its ordinary way. Everything is
//! counted anew from the rows of the whole graph, which are in hand: a repair is rare, and a count that was carried along
//! through every kind of repair would be wrong for ever once it was wrong.

mod apart;

use uuid::Uuid;

use super::{
    ending, gates,
    request::{Again, Error, MarkTask, Repaired, Rerun, Said},
    work::Work,
};
use crate::{
    domain::{
        gate::{Gate, SkipCause, closed_because},
        job::JobState,
        repair::{self, Hand, Mark, Node, Reopened},
        task::{Event, Kind, TaskState},
        time::Timestamp,
    },
    store::{self, Tx, task::TaskRow},
};

/// How many tasks a refusal names.
const NAMED_MAX: usize = 5;
/// How many characters of the reason before are kept in the reason of a mark.
const REASON_KEPT_MAX: usize = 200;

type Outcome<T> = Result<Result<T, Error>, store::Error>;

/// Runs tasks of a job again.
pub(super) async fn rerun(tx: &Tx, work: &mut Work, order: &Rerun) -> Outcome<Repaired> {
    let graph = match take_graph(tx, work, order.job_id).await? {
        Ok(graph) => graph,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let before = work.job(order.job_id).expect("the job is in hand").row.state;
    let chosen = match choose(tx, work, &graph, order).await? {
        Ok(chosen) => chosen,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if !order.force
        && let Err(refusal) = apart::proven_gone(tx, work, order.job_id, &chosen.tasks()).await?
    {
        return Ok(Err(refusal));
    }
    let reopened = graph.reopen(work, &chosen.nodes);
    if let Again::Task { name, shard: None, .. } = &order.again
        && let Err(refusal) = may_start(work, &graph, &reopened, name)
    {
        return Ok(Err(refusal));
    }
    store::repair::unmark(tx, &chosen.tasks()).await?;
    store::retention::logs_kept(tx, order.job_id).await?;
    for task in &chosen.whole {
        run_again(work, *task);
    }
    for (group, shards) in &chosen.shards {
        reopen_group(work, *group, shards);
    }
    graph.settle(work, &reopened);
    let job = work.job(order.job_id).expect("the job is in hand");
    Ok(Ok(Repaired {
        tasks: u32::try_from(chosen.count()).unwrap_or(u32::MAX),
        reconsidered: u32::try_from(reopened.reconsidered.len()).unwrap_or(u32::MAX),
        before: before.word().to_owned(),
        after: job.row.state.word().to_owned(),
    }))
}

/// Takes a person's word for how a task ended, or that nothing is left of it.
pub(super) async fn mark(tx: &Tx, work: &mut Work, order: &MarkTask) -> Outcome<Repaired> {
    let graph = match take_graph(tx, work, order.job_id).await? {
        Ok(graph) => graph,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let task = match find(tx, work, &graph, &order.task, order.shard).await? {
        Ok(task) => task,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let row = work.task(task).expect("what was found is in hand").clone();
    let mark = match order.said {
        Said::Gone => return apart::declare_gone(tx, work, &row).await,
        Said::Ended(mark) => mark,
    };
    if order.waiting_only && !matches!(row.state, TaskState::Created | TaskState::Queued) {
        let message = format!(
            "{} does not wait any more: it is {}; `baton mark` changes how a task ended",
            order.task,
            row.state.word()
        );
        return Ok(Err(Error::Conflict { reason: "TASK_NOT_WAITING", message }));
    }
    if row.state.by_hand(row.kind, Hand::Mark(mark)).is_none() {
        return Ok(Err(unmarkable(work, &row, mark)));
    }
    let reason = marked(&row, mark, &order.caller.principal, &order.reason);
    store::repair::put_mark(tx, &row, mark.state(), &order.caller.principal, &order.reason, work.now).await?;
    let mut reconsidered = 0;
    if row.state.is_terminal() {
        let node = graph.nodes[row.node as usize].0;
        let ended = work.task(node).expect("the node is in hand").state.is_terminal();
        let reopened = graph.reopen(work, if ended { std::slice::from_ref(&row.node) } else { &[] });
        reconsidered = u32::try_from(reopened.reconsidered.len()).unwrap_or(u32::MAX);
        if row.kind == Kind::Shard {
            restate(work, task, mark, reason);
            reopen_group(work, node, &[]);
            graph.settle(work, &reopened);
            gates::end_if_all_ended(tx, work, node).await?;
        } else {
            graph.settle(work, &reopened);
            enter(work, task, mark, reason);
        }
    } else {
        enter(work, task, mark, reason);
    }
    Ok(Ok(Repaired {
        tasks: 1,
        reconsidered,
        before: row.state.word().to_owned(),
        after: mark.state().word().to_owned(),
    }))
}

/// Prepares one task, or shard, to be run again: what it was is kept in its history.
pub(super) fn run_again(work: &mut Work, id: Uuid) {
    let row = work.task(id).expect("what is run again is in hand");
    let reason = row.reason.clone();
    let began = row.counters.attempt > 0 && (row.dispatched_at.is_some() || row.started_at.is_some());
    if began {
        work.archive(id, &reason);
    }
    if !work.by_hand(id, Hand::Rerun, "") {
        return;
    }
    ending::begin_anew(work, id);
    let row = work.edit(id);
    if began {
        row.attempts_before = row.counters.attempt;
        row.counters.attempt += 1;
    }
    // Whatever an earlier attempt still says is said under another lease.
    row.counters.lease += 1;
    (row.counters.deaths, row.counters.refusals, row.counters.not_before) = (0, 0, Timestamp(0));
    (row.exit_code, row.exit_signal, row.end_grace) = (None, None, None);
    (row.stdout_bytes, row.stderr_bytes) = (0, 0);
    row.output.clear();
}

/// The graph of a job, every node of which is in hand.
struct Graph {
    job: Uuid,
    /// The task of each node, and how a repair sees it.
    nodes: Vec<(Uuid, Node)>,
}

/// Takes the whole graph of a job in hand, if it can be repaired at all.
async fn take_graph(tx: &Tx, work: &mut Work, id: Uuid) -> Outcome<Graph> {
    let Some(job) = work.job(id) else {
        return Ok(Err(Error::NotFound { kind: "job", name: id.to_string() }));
    };
    let (row, plan) = (job.row.clone(), job.plan.clone());
    if row.state.by_hand().is_none() || row.expanded < row.tasks_total {
        let (reason, message) = match row.state {
            state if state.is_terminal() => (
                "JOB_NEVER_STARTED",
                format!("the job was {} before it started: `baton run {}` makes a new one", state.word(), row.name),
            ),
            JobState::Terminating => {
                ("JOB_ENDING", "the job is being terminated; try again when it is TERMINATED".to_owned())
            }
            _ => ("JOB_NOT_STARTED", "the job has not started yet; try again when it runs".to_owned()),
        };
        return Ok(Err(Error::Conflict { reason, message }));
    }
    if store::retention::is_removing(tx, id).await? {
        return Ok(Err(Error::Expired { kind: "job", name: id.to_string() }));
    }
    work.take_tasks(store::repair::lock_graph(tx, id).await?);
    let marked = store::repair::marked(tx, id).await?;
    let mut nodes = Vec::with_capacity(row.tasks_total as usize);
    for node in 0..row.tasks_total {
        let Some(task) = work.node(id, node) else {
            return Ok(Err(Error::Expired { kind: "job", name: id.to_string() }));
        };
        let row = work.task(task).expect("a node in hand has its task in hand");
        let seen = Node {
            state: row.state,
            skip_cause: row.skip_cause,
            rule: plan.rule(node),
            on_failure: plan.on_failure(node),
            parents: row.parents,
            marked: marked.contains(&task),
        };
        nodes.push((task, seen));
    }
    Ok(Ok(Graph { job: id, nodes }))
}

impl Graph {
    fn seen(&self) -> Vec<Node> {
        self.nodes.iter().map(|(_, node)| *node).collect()
    }

    fn reopen(&self, work: &Work, again: &[u32]) -> Reopened {
        let job = work.job(self.job).expect("the job is in hand");
        repair::reopen(&job.plan.graph, &self.seen(), again, job.row.stopping)
    }

    /// Writes what a repair came to into the rows of the graph and of its job. What was chosen has been reopened.
    fn settle(&self, work: &mut Work, reopened: &Reopened) {
        let now = work.now;
        let plan = work.plan(self.job);
        for &node in &reopened.reconsidered {
            let task = self.nodes[node as usize].0;
            work.by_hand(task, Hand::Reconsider, "");
        }
        for &(node, by) in &reopened.still_closed {
            let stands = |parent: &&u32| {
                let above = work.task(self.nodes[**parent as usize].0).expect("the graph is in hand");
                gates::outcome_of(&plan, above) == Some(by)
            };
            if let Some(&parent) = plan.graph.parents(node).iter().find(stands) {
                let reason = closed_because(plan.rule(node), by, &plan.task(parent).name);
                work.edit(self.nodes[node as usize].0).reason = reason;
            }
        }
        for ((task, seen), parents) in self.nodes.iter().zip(&reopened.parents) {
            if seen.parents != *parents {
                work.edit(*task).parents = *parents;
            }
        }
        let job = work.job_mut(self.job).expect("the job is in hand");
        (job.tasks_ended, job.tasks_failed, job.stopping) = (reopened.ended, reopened.failed, reopened.stopping);
        if job.state.is_terminal() {
            job.state = job.state.by_hand().expect("the job can be repaired");
            job.reason.clear();
            (job.ended_at, job.timed_out) = (None, false);
            job.deadline_at = plan.config.timeout.map(|timeout| now + timeout);
            (job.warn_at, job.warned_at) = (plan.config.warn_after.map(|after| now + after), None);
        }
        for (node, (task, _)) in (0..).zip(&self.nodes) {
            let row = work.task(*task).expect("the graph is in hand");
            if row.state != TaskState::Created {
                continue;
            }
            match row.parents.gate(plan.rule(node)) {
                Gate::Wait => {}
                Gate::Open => work.open_later(*task),
                Gate::Closed { cause, by } => {
                    let reason = closed_because(plan.rule(node), by, "a parent");
                    work.skip(*task, Event::GateClosed, cause, reason);
                }
            }
        }
    }
}

/// What is run again.
#[derive(Default)]
struct Chosen {
    /// The nodes whose end is taken back, in order.
    nodes: Vec<u32>,
    /// Tasks and groups that are run again as a whole.
    whole: Vec<Uuid>,
    /// Groups of which only some shards are.
    shards: Vec<(Uuid, Vec<Uuid>)>,
    /// The shards of groups that are run again as a whole, which were all there is to be gone.
    within: Vec<Uuid>,
}

impl Chosen {
    fn tasks(&self) -> Vec<Uuid> {
        let shards = self.shards.iter().flat_map(|(group, shards)| std::iter::once(group).chain(shards));
        self.whole.iter().chain(shards).chain(&self.within).copied().collect()
    }

    fn count(&self) -> usize {
        self.whole.len() + self.shards.iter().map(|(_, shards)| shards.len()).sum::<usize>()
    }
}

/// Which tasks are run again, or why not.
async fn choose(tx: &Tx, work: &mut Work, graph: &Graph, order: &Rerun) -> Outcome<Chosen> {
    let plan = work.plan(graph.job);
    let seen = graph.seen();
    let (name, shard, following) = match &order.again {
        Again::Failed => {
            let nodes = repair::failures(&seen);
            if nodes.is_empty() {
                let message = "no task of it failed; name the task that is to run again: `baton rerun JOB/TASK`";
                return Ok(Err(Error::Conflict { reason: "NOTHING_FAILED", message: message.to_owned() }));
            }
            return Ok(Ok(from_failed(tx, work, graph, nodes).await?));
        }
        Again::Task { name, shard, following } => (name, *shard, *following),
    };
    let task = match find(tx, work, graph, name, shard).await? {
        Ok(task) => task,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let row = work.task(task).expect("what was found is in hand").clone();
    if row.state.by_hand(row.kind, Hand::Rerun).is_none() {
        return Ok(Err(not_ended(work, &[task])));
    }
    let group = graph.nodes[row.node as usize].0;
    let group_state = work.task(group).expect("the graph is in hand").state;
    if row.kind == Kind::Shard
        && group_state.is_terminal()
        && group_state.by_hand(Kind::Group, Hand::ReopenShard).is_none()
    {
        let message = format!("{name} was skipped as a whole: run all of it again with `baton rerun JOB/{name}`");
        return Ok(Err(Error::Conflict { reason: "GROUP_SKIPPED", message }));
    }
    let mut chosen = Chosen { nodes: vec![row.node], ..Chosen::default() };
    if following {
        chosen.nodes = repair::with_following(&plan.graph, &seen, row.node);
    }
    let others: Vec<Uuid> =
        chosen.nodes.iter().filter(|&&node| node != row.node).map(|node| graph.nodes[*node as usize].0).collect();
    let live: Vec<Uuid> =
        others.iter().copied().filter(|id| work.task(*id).is_some_and(|task| task.state.is_live())).collect();
    if !live.is_empty() {
        return Ok(Err(not_ended(work, &live)));
    }
    chosen.whole = others;
    if row.kind == Kind::Shard {
        chosen.shards.push((group, vec![task]));
        if !group_state.is_terminal() {
            chosen.nodes.retain(|node| *node != row.node);
        }
    } else {
        chosen.whole.push(task);
    }
    let groups: Vec<Uuid> = chosen
        .whole
        .iter()
        .copied()
        .filter(|id| work.task(*id).is_some_and(|task| task.kind == Kind::Group && task.shard_count.is_some()))
        .collect();
    for group in groups {
        chosen.within.extend(take_shards(tx, work, group).await?);
    }
    Ok(Ok(chosen))
}

/// What is run again from the failures: of a group whose parents stay as they are only the shards that failed.
async fn from_failed(tx: &Tx, work: &mut Work, graph: &Graph, nodes: Vec<u32>) -> Result<Chosen, store::Error> {
    let plan = work.plan(graph.job);
    let reopened = graph.reopen(work, &nodes);
    let mut chosen = Chosen { nodes, ..Chosen::default() };
    for node in &chosen.nodes {
        let (task, seen) = graph.nodes[*node as usize];
        let row = work.task(task).expect("the graph is in hand");
        let open = reopened.parents[*node as usize].gate(seen.rule) == Gate::Open;
        let moved = plan
            .graph
            .parents(*node)
            .iter()
            .any(|parent| chosen.nodes.binary_search(parent).is_ok() || reopened.reconsidered.contains(parent));
        if row.kind == Kind::Group && row.shard_count.is_some_and(|count| count > 0) && open && !moved {
            let shards = take_shards(tx, work, task).await?;
            let failed = shards.into_iter().filter(|id| {
                let state = work.task(*id).expect("the shards are in hand").state;
                matches!(state, TaskState::Failed | TaskState::Terminated)
            });
            chosen.shards.push((task, failed.collect()));
        } else {
            chosen.whole.push(task);
        }
    }
    Ok(chosen)
}

/// Lets a group run for the sake of some of its shards, and queues as many of them as may run at once.
fn reopen_group(work: &mut Work, group: Uuid, again: &[Uuid]) {
    for shard in again {
        run_again(work, *shard);
    }
    // What it told of its shards while it ran before is told anew of those that run now.
    if !again.is_empty() && work.task(group).is_some_and(|group| group.state.is_terminal()) {
        ending::begin_anew(work, group);
    }
    work.by_hand(group, Hand::ReopenShard, "");
    work.reopened(group);
    let row = work.edit(group);
    row.ended_at = None;
    row.output.clear();
    let (job, node, count) = (row.job_id, row.node, row.shard_count.unwrap_or_default());
    let max_parallel = work.plan(job).task(node).shards.as_ref().map_or(0, |shards| shards.max_parallel);
    let mut shards: Vec<(u32, Uuid, TaskState)> = work
        .tasks()
        .filter(|task| task.group_id == Some(group))
        .filter_map(|task| Some((task.shard_index.filter(|index| *index < count)?, task.id, task.state)))
        .collect();
    shards.sort_unstable_by_key(|(index, ..)| *index);
    let number = |wanted: fn(TaskState) -> bool| {
        u32::try_from(shards.iter().filter(|(.., state)| wanted(*state)).count()).unwrap_or(u32::MAX)
    };
    let live = number(TaskState::is_live);
    let (ended, finished) = (number(TaskState::is_terminal), number(|state| state == TaskState::Finished));
    let row = work.edit(group);
    (row.shards_ended, row.shards_succeeded) = (ended, finished);
    let room = if max_parallel == 0 { count } else { max_parallel.saturating_sub(live) };
    let next = shards.iter().filter(|(.., state)| *state == TaskState::Created).take(room as usize);
    for (_, shard, _) in next {
        work.happen(*shard, Event::GateOpened, "");
    }
}

/// The task that a person names, in hand.
async fn find(tx: &Tx, work: &mut Work, graph: &Graph, name: &str, shard: Option<u32>) -> Outcome<Uuid> {
    let Some(node) = work.plan(graph.job).node(name) else {
        return Ok(Err(Error::NotFound { kind: "task", name: name.to_owned() }));
    };
    let task = graph.nodes[node as usize].0;
    let Some(shard) = shard else { return Ok(Ok(task)) };
    let count = work.task(task).and_then(|task| task.shard_count).unwrap_or_default();
    let found = take_shards(tx, work, task)
        .await?
        .into_iter()
        .find(|id| work.task(*id).is_some_and(|row| row.shard_index == Some(shard)) && shard < count);
    Ok(found.ok_or_else(|| Error::NotFound { kind: "shard", name: format!("{name}#{shard}") }))
}

async fn take_shards(tx: &Tx, work: &mut Work, group: Uuid) -> Result<Vec<Uuid>, store::Error> {
    let rows = store::repair::lock_shards(tx, group).await?;
    let ids = rows.iter().map(|row| row.id).collect();
    work.take_tasks(rows);
    Ok(ids)
}

/// Whether a task that was named may start, or is about to; run again in vain it would only be skipped.
fn may_start(work: &Work, graph: &Graph, reopened: &Reopened, name: &str) -> Result<(), Error> {
    let plan = work.plan(graph.job);
    let node = plan.node(name).expect("the name was found");
    let rule = plan.rule(node);
    let conflict = |reason, message| Err(Error::Conflict { reason, message });
    if plan.task(node).enabled == Some(false) {
        let message = format!("{name} is disabled in the version that this job runs, and would be skipped again");
        return conflict("TASK_DISABLED", message);
    }
    if reopened.stopping && !rule.outlives_stop() {
        let message = "its job stopped because of a failure that still stands: run that task again, or mark it";
        return conflict("JOB_STOPPED", message.to_owned());
    }
    let Gate::Closed { by, .. } = reopened.parents[node as usize].gate(rule) else { return Ok(()) };
    let closing = plan.graph.parents(node).iter().find(|&&parent| {
        let above = work.task(graph.nodes[parent as usize].0).expect("the graph is in hand");
        gates::outcome_of(&plan, above) == Some(by)
    });
    let parent = closing.map_or("a parent", |parent| plan.task(*parent).name.as_str());
    let because = closed_because(rule, by, parent);
    conflict("GATE_CLOSED", format!("{name} would only be skipped: {because}; run {parent:?} again, or mark it"))
}

/// Says a task's end without any consequence: the caller draws them.
fn restate(work: &mut Work, id: Uuid, mark: Mark, reason: String) {
    let now = work.now;
    let row = work.edit(id);
    row.state = mark.state();
    row.skip_cause = (mark == Mark::Skipped).then_some(SkipCause::Condition);
    row.reason = reason;
    row.counters.lease += 1;
    row.ended_at = Some(now);
}

/// Says a task's end, with the consequences of any end.
fn enter(work: &mut Work, id: Uuid, mark: Mark, reason: String) {
    work.edit(id).skip_cause = (mark == Mark::Skipped).then_some(SkipCause::Condition);
    if work.by_hand(id, Hand::Mark(mark), reason) {
        work.edit(id).counters.lease += 1;
    }
}

/// What the row of a marked task says: who, why, and how it had ended.
fn marked(row: &TaskRow, mark: Mark, principal: &str, why: &str) -> String {
    let principal = if principal.is_empty() { "local" } else { principal };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let before: String = row.reason.chars().take(REASON_KEPT_MAX).collect();
    let before = if before.is_empty() { String::new() } else { format!(": {before}") };
    format!("marked {} by {principal}{why} (was {}{before})", mark.word(), row.state.word())
}

fn unmarkable(work: &Work, row: &TaskRow, mark: Mark) -> Error {
    if row.state == mark.state() {
        let message = format!("it is {} already", row.state.word());
        return Error::Conflict { reason: "NOTHING_TO_MARK", message };
    }
    not_ended(work, &[row.id])
}

/// What is in the way: tasks that are under way.
fn not_ended(work: &Work, tasks: &[Uuid]) -> Error {
    let named: Vec<String> = tasks
        .iter()
        .take(NAMED_MAX)
        .filter_map(|id| {
            let task = work.task(*id)?;
            Some(format!("{} is {}", name_of(work, task), task.state.word()))
        })
        .collect();
    let more = tasks.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more are under way") };
    let waits = tasks.iter().all(|id| work.task(*id).is_some_and(|task| task.state == TaskState::Created));
    let next = if waits { "it waits still, there is nothing to run again" } else { "terminate first, then try again" };
    Error::Conflict { reason: "TASK_LIVE", message: format!("{}{more}; {next}", named.join(", ")) }
}

/// The name of a task as it is called on the command line.
fn name_of(work: &Work, task: &TaskRow) -> String {
    let name = work.plan(task.job_id).task(task.node).name.clone();
    task.shard_index.map_or_else(|| name.clone(), |shard| format!("{name}#{shard}"))
}
