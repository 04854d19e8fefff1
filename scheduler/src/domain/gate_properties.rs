//! Any graph, any rules, any outcomes, any order of ends: gates decided one end at a time come to what an evaluator that sees
//! everything at once comes to.

use std::cell::Cell;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{
    definition::{OnFailure, TriggerRule},
    gate::{End, Gate, Outcome, Parents, SkipCause, counts_as, fails_job},
    graph::Graph,
};

const CASES: u32 = 2_000;
const NODES_MAX: usize = 40;

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
    /// How it ends if it starts.
    end: End,
}

fn worlds(on_failures: &'static [OnFailure]) -> impl Strategy<Value = World> {
    let end = prop_oneof![4 => Just(End::Finished), 2 => Just(End::Failed), 1 => Just(End::Terminated)];
    let fate = (
        prop::sample::select(TriggerRule::ALL.to_vec()),
        prop::sample::select(on_failures),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.85),
        end,
    )
        .prop_map(|(rule, on_failure, enabled, when, end)| Fate { rule, on_failure, enabled, when, end });
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
    stopped: bool,
}

impl<'w> Run<'w> {
    fn new(world: &'w World) -> Self {
        let graph = Graph::from_edges(world.tasks.len(), world.edges.clone()).expect("edges go forward");
        let parents = (0..graph.len() as u32).map(|node| Parents::waiting(graph.parents(node).len() as u32)).collect();
        let nodes = graph.len();
        Self { world, graph, parents, ends: vec![None; nodes], running: vec![], starts: vec![0; nodes], stopped: false }
    }

    /// Runs the job until nothing of it runs.
    fn ended(mut self) -> Self {
        for node in 0..self.graph.len() as u32 {
            if !self.world.tasks[node as usize].enabled {
                self.end(node, End::Skipped(SkipCause::Condition));
            }
        }
        for node in 0..self.graph.len() as u32 {
            self.decide(node);
        }
        let mut order = self.world.order.iter();
        while !self.running.is_empty() {
            let next = order.next().expect("a task ends once") % self.running.len();
            let node = self.running.swap_remove(next);
            self.end(node, self.world.tasks[node as usize].end);
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
        match self.parents[node as usize].gate(fate.rule) {
            Gate::Wait => {}
            Gate::Closed { cause, .. } => self.end(node, End::Skipped(cause)),
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
    let mut ends: Vec<Option<End>> = vec![None; world.tasks.len()];
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
                    (true, true, _) => fate.end,
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
    let outcome = runner.run(&worlds(&[OnFailure::Fail, OnFailure::Ignore]), |world| {
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
