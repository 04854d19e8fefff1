//! Any graph, any rules, any policies, any outcomes, any order of ends: gates decided one end at a time come to what an evaluator that sees
//! everything at once comes to.

use std::{cell::Cell, time::Duration};

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

use super::{
    definition::{OnFailure, Retry, TriggerRule},
    gate::{End, Gate, Outcome, Parents, SkipCause, counts_as, fails_job},
    graph::Graph,
    policy::{Next, Policy},
    repair::{self, Node},
    task::{self, Circumstances, Counters, Ending, Kind, TaskState},
    time::Timestamp,
};

const CASES: u32 = 2_000;
const NODES_MAX: usize = 40;
/// What leaves the tasks alone that do not depend on the one that failed.
const ALL_BUT_STOP: [OnFailure; 4] =
    [OnFailure::Fail, OnFailure::Ignore, OnFailure::Transfer, OnFailure::RetryThenTransfer];

/// A job whose tasks' fates are known beforehand.
#[derive(Debug, Clone)]
struct World {
    tasks: Vec<Fate>,
    edges: Vec<(u32, u32)>,
    /// Which of the running tasks ends next, each time modulo how many there are.
    order: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Fate {
    rule: TriggerRule,
    on_failure: OnFailure,
    enabled: bool,
    when: bool,
    /// How an attempt at it ends that is not among the first `fails`.
    end: End,
    /// How many of its first attempts fail or are lost, whatever comes after them.
    fails: u32,
    retry: Retry,
    /// How many runners suit it.
    runners: u32,
}

impl Fate {
    /// How often it may be tried, as the documentation says it.
    fn attempts_max(&self) -> u32 {
        match self.on_failure {
            OnFailure::Fail | OnFailure::Stop | OnFailure::Ignore => self.retry.max_attempts,
            OnFailure::Transfer => self.runners,
            OnFailure::RetryThenTransfer => self.runners * self.retry.max_attempts,
        }
    }

    /// How it ends if it starts.
    fn end(&self) -> End {
        if self.fails >= self.attempts_max() { End::Failed } else { self.end }
    }
}

/// How far a task has come with its attempts.
#[derive(Debug, Clone, Copy)]
struct Tries {
    counters: Counters,
    /// Attempts before somebody ran it again.
    before: u32,
    given_up: u32,
}

impl Tries {
    const NONE: Self = Self {
        counters: Counters { attempt: 1, lease: 1, deaths: 0, refusals: 0, tried: 0, not_before: Timestamp(0) },
        before: 0,
        given_up: 0,
    };

    /// The same for a task that somebody runs again.
    fn anew(mut self) -> Self {
        self.before = self.counters.attempt;
        (self.counters.attempt, self.counters.tried) = (self.before + 1, 0);
        Self { given_up: 0, ..self }
    }

    /// Lets an attempt end; `None` when another follows.
    fn end(&mut self, fate: &Fate) -> Option<End> {
        let number = self.counters.attempt - self.before;
        if number > fate.fails && fate.end != End::Failed {
            return Some(fate.end);
        }
        let ending = if number.is_multiple_of(2) { Ending::Lost { death: false } } else { Ending::Failure };
        let policy = Policy { retry: Some(&fate.retry), on_failure: fate.on_failure };
        let at = Circumstances {
            now: Timestamp(0),
            exit_code: Some(1),
            chance: 0.5,
            others_left: self.given_up + 1 < fate.runners,
            attempts_before: self.before,
        };
        let decision = task::decide(TaskState::Running, Kind::Task, self.counters, policy, ending, at)?;
        assert!(decision.gone && !decision.poison);
        if decision.state == TaskState::Failed {
            return Some(End::Failed);
        }
        assert_eq!((decision.state, decision.counters.attempt), (TaskState::Queued, self.counters.attempt + 1));
        assert!(decision.counters.lease > self.counters.lease, "an attempt keeps the lease of the one before it");
        assert!(number < fate.attempts_max(), "one attempt more than there may be");
        self.given_up += u32::from(decision.next == Some(Next::Elsewhere));
        self.counters = decision.counters;
        None
    }
}

fn worlds(on_failures: &'static [OnFailure]) -> impl Strategy<Value = World> {
    let end = prop_oneof![4 => Just(End::Finished), 2 => Just(End::Failed), 1 => Just(End::Terminated)];
    let fate = (
        prop::sample::select(TriggerRule::ALL.to_vec()),
        prop::sample::select(on_failures),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.85),
        end,
        (prop_oneof![3 => Just(0_u32), 2 => 1..8_u32], 1..4_u32, 1..4_u32),
    )
        .prop_map(|(rule, on_failure, enabled, when, end, (fails, max_attempts, runners))| {
            let retry = Retry::times(max_attempts, Duration::ZERO);
            Fate { rule, on_failure, enabled, when, end, fails, retry, runners }
        });
    prop::collection::vec(fate, 1..=NODES_MAX).prop_flat_map(|tasks| {
        let len = tasks.len() as u32;
        let edge = (0..len, 0..len).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let edges = prop::collection::vec(edge, 0..=tasks.len() * 3)
            .prop_map(|edges| edges.into_iter().filter(|(parent, child)| parent != child).collect());
        let order = prop::collection::vec(any::<usize>(), tasks.len());
        (Just(tasks), edges, order).prop_map(|(tasks, edges, order)| World { tasks, edges, order })
    })
}

/// A job as the engine sees it: counts, and one end after the other.
struct Run<'w> {
    world: &'w World,
    graph: Graph,
    parents: Vec<Parents>,
    ends: Vec<Option<End>>,
    running: Vec<u32>,
    starts: Vec<u32>,
    tries: Vec<Tries>,
    stopped: bool,
    marked: Vec<bool>,
}

impl<'w> Run<'w> {
    fn new(world: &'w World) -> Self {
        let graph = Graph::from_edges(world.tasks.len(), world.edges.clone()).expect("edges go forward");
        let parents = (0..graph.len() as u32).map(|node| Parents::waiting(graph.parents(node).len() as u32)).collect();
        let nodes = graph.len();
        let (ends, starts, marked) = (vec![None; nodes], vec![0; nodes], vec![false; nodes]);
        let tries = vec![Tries::NONE; nodes];
        Self { world, graph, parents, ends, running: vec![], starts, tries, stopped: false, marked }
    }

    /// Runs the job until nothing of it runs.
    fn ended(mut self) -> Self {
        for node in 0..self.graph.len() as u32 {
            if !self.world.tasks[node as usize].enabled && self.ends[node as usize].is_none() {
                self.end(node, End::Skipped(SkipCause::Condition));
            }
        }
        for node in 0..self.graph.len() as u32 {
            self.decide(node);
        }
        let mut order = self.world.order.iter().cycle();
        while !self.running.is_empty() {
            let next = order.next().expect("a job has tasks") % self.running.len();
            let node = self.running[next];
            if let Some(end) = self.tries[node as usize].end(&self.world.tasks[node as usize]) {
                self.running.swap_remove(next);
                self.end(node, end);
            }
        }
        self
    }

    fn waits(&self, node: u32) -> bool {
        self.ends[node as usize].is_none() && self.starts[node as usize] == 0
    }

    fn decide(&mut self, node: u32) {
        let fate = &self.world.tasks[node as usize];
        // What is disabled is skipped for that, whatever its gate does.
        if !fate.enabled || !self.waits(node) {
            return;
        }
        let stopped = self.stopped && !fate.rule.outlives_stop();
        match self.parents[node as usize].gate(fate.rule) {
            Gate::Wait => {}
            Gate::Closed { cause, .. } => self.end(node, End::Skipped(cause)),
            Gate::Open if stopped => self.end(node, End::Skipped(SkipCause::UpstreamFailed)),
            Gate::Open if !fate.when => self.end(node, End::Skipped(SkipCause::Condition)),
            Gate::Open => {
                self.assert_may_start(node);
                self.starts[node as usize] += 1;
                self.running.push(node);
            }
        }
    }

    fn end(&mut self, node: u32, end: End) {
        assert_eq!(self.ends[node as usize].replace(end), None, "task {node} ended twice");
        let fate = &self.world.tasks[node as usize];
        let outcome = counts_as(end, fate.on_failure);
        for child in self.graph.children(node).to_vec() {
            self.parents[child as usize].count(outcome);
            self.decide(child);
        }
        if fate.on_failure == OnFailure::Stop && fails_job(end, fate.on_failure) && !self.stopped {
            self.stopped = true;
            for other in 0..self.graph.len() as u32 {
                if self.waits(other) && !self.world.tasks[other as usize].rule.outlives_stop() {
                    self.end(other, End::Skipped(SkipCause::UpstreamFailed));
                }
            }
        }
    }

    /// The graph as a repair sees it.
    fn nodes(&self) -> Vec<Node> {
        let seen = |(node, fate): (usize, &Fate)| {
            let (state, skip_cause) = match self.ends[node] {
                None if self.starts[node] > 0 => (TaskState::Running, None),
                None => (TaskState::Created, None),
                Some(End::Finished) => (TaskState::Finished, None),
                Some(End::Failed) => (TaskState::Failed, None),
                Some(End::Terminated) => (TaskState::Terminated, None),
                Some(End::Skipped(cause)) => (TaskState::Skipped, Some(cause)),
            };
            let (rule, on_failure) = (fate.rule, fate.on_failure);
            Node { state, skip_cause, rule, on_failure, parents: self.parents[node], marked: self.marked[node] }
        };
        self.world.tasks.iter().enumerate().map(seen).collect()
    }

    /// A repair: ends are taken back; those that are marked get another at once, the others run again.
    fn repaired(mut self, world: &'w World, again: &[u32], marks: &[(u32, End)]) -> Self {
        let mut back: Vec<u32> = again.iter().copied().chain(marks.iter().map(|(node, _)| *node)).collect();
        back.sort_unstable();
        back.dedup();
        let nodes = self.nodes();
        let reopened = repair::reopen(&self.graph, &nodes, &back, self.stopped);
        self.world = world;
        self.stopped = reopened.stopping;
        self.parents.clone_from(&reopened.parents);
        for &node in back.iter().chain(&reopened.reconsidered) {
            (self.ends[node as usize], self.starts[node as usize]) = (None, 0);
            self.marked[node as usize] = false;
            self.tries[node as usize] = self.tries[node as usize].anew();
        }
        let ended = self.ends.iter().flatten().count();
        assert_eq!(reopened.ended as usize, ended, "the job counts what ended");
        for &(node, end) in marks {
            self.marked[node as usize] = true;
            self.end(node, end);
        }
        self.ended()
    }

    /// Looks at the parents themselves, not at the counts.
    fn assert_may_start(&self, node: u32) {
        let fate = &self.world.tasks[node as usize];
        let parents = self.graph.parents(node);
        let outcomes: Vec<Outcome> = parents.iter().filter_map(|&parent| self.outcome(parent)).collect();
        let early = match fate.rule {
            TriggerRule::Always => true,
            TriggerRule::OneSuccess => outcomes.contains(&Outcome::Succeeded),
            TriggerRule::OneFailed => outcomes.contains(&Outcome::Failed),
            TriggerRule::OneDone => outcomes.iter().any(|outcome| *outcome != Outcome::Skipped),
            _ => false,
        };
        assert!(early || outcomes.len() == parents.len(), "task {node} started before its gate");
        assert!(early || holds(fate.rule, &outcomes), "task {node} started against its rule");
    }

    fn outcome(&self, node: u32) -> Option<Outcome> {
        self.ends[node as usize].map(|end| counts_as(end, self.world.tasks[node as usize].on_failure))
    }
}

/// The rules as the documentation says them, over parents that all ended.
fn holds(rule: TriggerRule, parents: &[Outcome]) -> bool {
    let all = |outcome| parents.iter().all(|parent| *parent == outcome);
    let any = |outcome| parents.contains(&outcome);
    parents.is_empty()
        || match rule {
            TriggerRule::AllSuccess => all(Outcome::Succeeded),
            TriggerRule::AllDone | TriggerRule::Always => true,
            TriggerRule::AllFailed => all(Outcome::Failed),
            TriggerRule::AllSkipped => all(Outcome::Skipped),
            TriggerRule::OneSuccess => any(Outcome::Succeeded),
            TriggerRule::OneFailed => any(Outcome::Failed),
            TriggerRule::OneDone => any(Outcome::Succeeded) || any(Outcome::Failed),
            TriggerRule::NoneFailed => !any(Outcome::Failed),
            TriggerRule::NoneFailedMinOneSuccess => !any(Outcome::Failed) && any(Outcome::Succeeded),
            TriggerRule::NoneSkipped => !any(Outcome::Skipped),
        }
}

/// Whether a failed parent is among those that keep a rule from holding.
fn closed_by_failure(rule: TriggerRule, parents: &[Outcome]) -> bool {
    let in_the_way = |parent: Outcome| match rule {
        TriggerRule::AllSuccess | TriggerRule::OneSuccess => parent != Outcome::Succeeded,
        TriggerRule::AllFailed | TriggerRule::OneFailed => parent != Outcome::Failed,
        TriggerRule::AllSkipped => parent != Outcome::Skipped,
        TriggerRule::NoneFailed | TriggerRule::NoneFailedMinOneSuccess => parent == Outcome::Failed,
        TriggerRule::OneDone | TriggerRule::NoneSkipped => parent == Outcome::Skipped,
        TriggerRule::AllDone | TriggerRule::Always => false,
    };
    parents.iter().any(|parent| *parent == Outcome::Failed && in_the_way(*parent))
}

/// The independent evaluator: looks at the whole graph again and again until nothing new is known.
fn evaluate(world: &World) -> Vec<Option<End>> {
    evaluate_with(world, vec![None; world.tasks.len()])
}

/// The same where some ends stand already.
fn evaluate_with(world: &World, mut ends: Vec<Option<End>>) -> Vec<Option<End>> {
    loop {
        let mut news = false;
        for (node, fate) in world.tasks.iter().enumerate() {
            if ends[node].is_some() {
                continue;
            }
            let mut parents: Vec<u32> =
                world.edges.iter().filter(|(_, child)| *child == node as u32).map(|(parent, _)| *parent).collect();
            parents.sort_unstable();
            parents.dedup();
            let outcome = |&parent: &u32| {
                let fate = &world.tasks[parent as usize];
                ends[parent as usize].map(|end| match (end, fate.on_failure) {
                    (End::Failed | End::Terminated, OnFailure::Ignore) | (End::Finished, _) => Outcome::Succeeded,
                    (End::Skipped(SkipCause::Condition), _) => Outcome::Skipped,
                    _ => Outcome::Failed,
                })
            };
            let known: Option<Vec<Outcome>> = parents.iter().map(outcome).collect();
            let decided = known.map(|parents| {
                match (holds(fate.rule, &parents), fate.when, closed_by_failure(fate.rule, &parents)) {
                    (true, true, _) => fate.end(),
                    (true, false, _) | (false, _, false) => End::Skipped(SkipCause::Condition),
                    (false, _, true) => End::Skipped(SkipCause::UpstreamFailed),
                }
            });
            let end = if fate.enabled { decided } else { Some(End::Skipped(SkipCause::Condition)) };
            news |= end.is_some();
            ends[node] = end;
        }
        if !news {
            return ends;
        }
    }
}

#[test]
fn gates_decided_one_end_at_a_time_agree_with_a_look_at_everything() {
    let counts: [Cell<usize>; 6] = Default::default();
    let add = |place: usize, more: usize| counts[place].set(counts[place].get() + more);
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&worlds(&ALL_BUT_STOP), |world| {
        let run = Run::new(&world).ended();
        let seen = evaluate(&world);
        for (node, fate) in world.tasks.iter().enumerate() {
            let parents: Vec<_> =
                run.graph.parents(node as u32).iter().map(|&parent| (parent, run.outcome(parent))).collect();
            prop_assert_eq!(run.ends[node], seen[node], "task {}: {:?} after {:?}", node, fate, parents);
        }
        prop_assert!(run.starts.iter().all(|starts| *starts <= 1));
        add(0, run.ends.len());
        add(1, run.graph.edges());
        add(2, run.starts.iter().sum::<u32>() as usize);
        add(3, run.ends.iter().filter(|end| **end == Some(End::Skipped(SkipCause::Condition))).count());
        add(4, run.ends.iter().filter(|end| **end == Some(End::Skipped(SkipCause::UpstreamFailed))).count());
        add(5, (0..run.graph.len()).filter(|&node| run.starts[node] == 1 && run.parents[node].total > 1).count());
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let [tasks, edges, started, by_condition, by_failure, joins] = counts.map(Cell::into_inner);
    println!(
        "{CASES} jobs, {tasks} tasks, {edges} edges: {started} tasks started once, {joins} of them joins; \
         {by_condition} skipped by a condition, {by_failure} because of a failure"
    );
}

#[test]
fn a_job_that_stops_ends_whatever_runs_and_waits() {
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&worlds(&OnFailure::ALL), |world| {
        let run = Run::new(&world).ended();
        prop_assert!(run.ends.iter().all(Option::is_some), "a task is left: {:?}", run.ends);
        prop_assert!(run.starts.iter().all(|starts| *starts <= 1));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A job that ended, and repairs of it: which nodes are run again and how they end then, which are marked.
fn repairs(on_failures: &'static [OnFailure]) -> impl Strategy<Value = (World, Vec<Vec<Repair>>)> {
    worlds(on_failures).prop_flat_map(|world| {
        let end = prop_oneof![3 => Just(End::Finished), 1 => Just(End::Failed)];
        let mark = prop_oneof![Just(End::Finished), Just(End::Failed), Just(End::Skipped(SkipCause::Condition)),];
        let act = prop_oneof![3 => end.prop_map(Act::Again), 1 => mark.prop_map(Act::Mark)];
        let one = (0..world.tasks.len() as u32, act, any::<bool>()).prop_map(|(node, act, following)| Repair {
            node,
            act,
            following,
        });
        let rounds = prop::collection::vec(prop::collection::vec(one, 0..4), 1..4);
        (Just(world), rounds)
    })
}

#[derive(Debug, Clone, Copy)]
struct Repair {
    node: u32,
    act: Act,
    following: bool,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Again(End),
    Mark(End),
}

/// Looks at a job that has ended, at its world, and at the ends that stand.
type Check<'c> = dyn FnMut(&Run<'_>, &World, Vec<Option<End>>) -> Result<(), TestCaseError> + 'c;

/// Carries out rounds of repairs one after the other; a round without any is "from the failures". Calls `check` after
/// each with the job, its world, and the ends that were kept.
fn repair_all(world: &World, rounds: &[Vec<Repair>], check: &mut Check<'_>) -> Result<(), TestCaseError> {
    let (mut ends, mut marked) = (Vec::new(), Vec::new());
    let mut world = world.clone();
    let mut counted = Vec::new();
    let mut stopped = false;
    for round in std::iter::once(&Vec::new()).chain(rounds).enumerate() {
        let (number, round) = round;
        let mut after = world.clone();
        let run = Run::new(&world);
        let run = if number == 0 {
            run.ended()
        } else {
            let before = Run { ends, marked, parents: counted, stopped, starts: vec![1; world.tasks.len()], ..run };
            let nodes = before.nodes();
            let (mut again, mut marks) = (Vec::new(), Vec::new());
            for repair in round {
                match repair.act {
                    // One act is one request: a mark is made alone.
                    Act::Mark(_) if !again.is_empty() || !marks.is_empty() => {}
                    Act::Again(_) if !marks.is_empty() => {}
                    Act::Again(end) => {
                        after.tasks[repair.node as usize].end = end;
                        again.push(repair.node);
                        if repair.following {
                            again = repair::with_following(&before.graph, &nodes, repair.node)
                                .into_iter()
                                .chain(again)
                                .collect();
                        }
                    }
                    Act::Mark(end) => marks.push((repair.node, end)),
                }
            }
            if round.is_empty() {
                again = repair::failures(&nodes);
                for &node in &again {
                    after.tasks[node as usize].end = End::Finished;
                }
            }
            again.sort_unstable();
            again.dedup();
            before.repaired(&after, &again, &marks)
        };
        // What ran keeps its end, and what a person marked; every skip has to follow from those.
        let kept = |node: usize| {
            let ran = !matches!(run.ends[node], Some(End::Skipped(_)));
            run.ends[node].filter(|_| ran || run.marked[node])
        };
        check(&run, &after, (0..run.ends.len()).map(kept).collect())?;
        (ends, marked, counted, stopped) = (run.ends, run.marked, run.parents, run.stopped);
        world = after;
    }
    Ok(())
}

#[test]
fn after_any_repairs_every_skip_follows_from_the_ends_that_stand() {
    let counts: [Cell<usize>; 3] = Default::default();
    let add = |place: usize, more: usize| counts[place].set(counts[place].get() + more);
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&repairs(&ALL_BUT_STOP), |(world, rounds)| {
        repair_all(&world, &rounds, &mut |run, world, kept| {
            let seen = evaluate_with(world, kept);
            for (node, fate) in world.tasks.iter().enumerate() {
                prop_assert_eq!(run.ends[node], seen[node], "task {}: {:?}", node, fate);
                let mut parents = Parents::waiting(run.parents[node].total);
                for &parent in run.graph.parents(node as u32) {
                    parents.count(run.outcome(parent).expect("the job ended"));
                }
                prop_assert_eq!(run.parents[node], parents, "task {} counts its parents", node);
            }
            prop_assert!(run.starts.iter().all(|starts| *starts <= 1));
            add(0, 1);
            add(1, run.starts.iter().sum::<u32>() as usize);
            add(2, run.marked.iter().filter(|marked| **marked).count());
            Ok(())
        })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let [rounds, ..] = counts.map(Cell::into_inner);
    println!("{CASES} jobs, {rounds} ends of a job that was repaired or not yet");
}

#[test]
fn a_job_that_stopped_ends_again_after_any_repairs() {
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&repairs(&OnFailure::ALL), |(world, rounds)| {
        repair_all(&world, &rounds, &mut |run, _, _| {
            prop_assert!(run.ends.iter().all(Option::is_some), "a task is left: {:?}", run.ends);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
