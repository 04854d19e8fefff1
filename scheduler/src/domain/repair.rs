//! What a person may change of what has happened: run tasks again, say how one ended, skip one that waits.
//!
//! A terminal state never changes by itself, so what a person can do is a table of its own, [`TaskState::by_hand`]. What
//! it means for the rest of the graph is decided by [`reopen`]: ends are taken back, and with them every skip that they
//! caused. From then on the job goes its ordinary way, as if those tasks had not ended yet; there is no second way in
//! which a gate opens.

use super::{
    definition::{OnFailure, TriggerRule},
    gate::{End, Gate, Outcome, Parents, SkipCause, counts_as, fails_job},
    graph::Graph,
    job::JobState,
    task::{Kind, TaskState},
};

/// What a person does to one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hand {
    /// It is run again.
    Rerun,
    /// What closed its gate is run again or marked: it is decided again.
    Reconsider,
    /// A shard of it is run again or marked.
    ReopenShard,
    /// Its end is what the person says.
    Mark(Mark),
}

/// How a person can say that a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Its work is done, by whatever means.
    Finished,
    /// Its work is not done, or not well.
    Failed,
    /// Its work is not wanted.
    Skipped,
}

impl Mark {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Finished, Self::Failed, Self::Skipped];

    /// The state it leads to.
    pub fn state(self) -> TaskState {
        match self {
            Self::Finished => TaskState::Finished,
            Self::Failed => TaskState::Failed,
            Self::Skipped => TaskState::Skipped,
        }
    }

    /// The word for it in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl TaskState {
    /// The state that follows when a person acts, or `None` when that is refused in this state.
    pub fn by_hand(self, kind: Kind, hand: Hand) -> Option<Self> {
        use TaskState as S;
        let next = match (self, hand) {
            (S::Finished | S::Failed | S::Skipped | S::Terminated, Hand::Rerun) => S::Created,
            (S::Skipped, Hand::Reconsider) => S::Created,
            // One that was skipped has no shards of its own making: it is run again as a whole.
            (S::Finished | S::Failed | S::Terminated, Hand::ReopenShard) if kind == Kind::Group => S::Running,
            (S::Created | S::Queued, Hand::Mark(mark)) => mark.state(),
            (S::Finished | S::Failed | S::Skipped | S::Terminated, Hand::Mark(mark)) if mark.state() != self => {
                mark.state()
            }
            _ => return None,
        };
        Some(next)
    }

    /// Whether something of it is under way that only a terminate ends.
    pub fn is_live(self) -> bool {
        !self.is_terminal() && self != Self::Created
    }
}

impl JobState {
    /// The state of a job of which a task is run again or marked; `None` when that is refused.
    pub fn by_hand(self) -> Option<Self> {
        match self {
            Self::Running | Self::Finished | Self::Failed | Self::Terminated => Some(Self::Running),
            // Nothing of the first two is there to be changed; the last has to end first.
            Self::Created | Self::Skipped | Self::Terminating => None,
        }
    }
}

/// A node of a job's graph, as a repair sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its state.
    pub state: TaskState,
    /// Why it was skipped.
    pub skip_cause: Option<SkipCause>,
    /// Its trigger rule.
    pub rule: TriggerRule,
    /// What its failure does.
    pub on_failure: OnFailure,
    /// Its parents, as they were counted.
    pub parents: Parents,
    /// A person said how it ended, and only a repair that names it says otherwise.
    pub marked: bool,
}

impl Node {
    fn end(&self) -> Option<End> {
        End::of(self.state, self.skip_cause)
    }

    /// Whether its job was stopped before its own gate had decided anything.
    fn was_stopped(&self) -> bool {
        self.skip_cause == Some(SkipCause::UpstreamFailed)
            && !matches!(self.parents.gate(self.rule), Gate::Closed { .. })
    }
}

/// What becomes of a graph when ends are taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reopened {
    /// Skipped nodes that are decided again, each after those before it.
    pub reconsidered: Vec<u32>,
    /// Nodes that stay skipped although a parent's end was taken back, with the outcome that keeps them closed: the
    /// parent that their reason names may not be the one any more.
    pub still_closed: Vec<(u32, Outcome)>,
    /// The parents of every node, counted anew.
    pub parents: Vec<Parents>,
    /// How many nodes have ended.
    pub ended: u32,
    /// How many of them failed in a way that counts.
    pub failed: u32,
    /// Whether a failure that stops the job still stands.
    pub stopping: bool,
}

/// Takes the ends of some nodes back, and every skip that follows from them.
///
/// A skipped node is decided again when a parent's end is taken back and the ends that remain do not close its gate by
/// themselves; when what stopped the job is taken back, also every node that was skipped for that. What ran keeps its
/// end, and so does what a person marked.
pub fn reopen(graph: &Graph, nodes: &[Node], again: &[u32], stopping: bool) -> Reopened {
    let mut open = vec![false; nodes.len()];
    for &node in again {
        open[node as usize] = true;
    }
    let stops = |(node, open): (&Node, &bool)| {
        !open && node.on_failure == OnFailure::Stop && node.end().is_some_and(|end| fails_job(end, node.on_failure))
    };
    let stopping = stopping && nodes.iter().zip(&open).any(stops);
    let mut parents: Vec<Parents> = nodes.iter().map(|node| Parents::waiting(node.parents.total)).collect();
    let (mut reconsidered, mut still_closed) = (Vec::new(), Vec::new());
    for &at in graph.order() {
        let node = &nodes[at as usize];
        let mut touched = false;
        for &parent in graph.parents(at) {
            let above = &nodes[parent as usize];
            touched |= open[parent as usize];
            if let Some(end) = above.end().filter(|_| !open[parent as usize]) {
                parents[at as usize].count(counts_as(end, above.on_failure));
            }
        }
        if node.state != TaskState::Skipped || node.marked || open[at as usize] {
            continue;
        }
        match parents[at as usize].gate(node.rule) {
            Gate::Closed { by, .. } if touched => still_closed.push((at, by)),
            Gate::Closed { .. } => {}
            _ if touched || (node.was_stopped() && !stopping) => {
                open[at as usize] = true;
                reconsidered.push(at);
            }
            _ => {}
        }
    }
    let (mut ended, mut failed) = (0, 0);
    for (node, _) in nodes.iter().zip(&open).filter(|(_, open)| !**open) {
        if let Some(end) = node.end() {
            ended += 1;
            failed += u32::from(fails_job(end, node.on_failure));
        }
    }
    Reopened { reconsidered, still_closed, parents, ended, failed, stopping }
}

/// The nodes that are run again from the failures: those whose failure counts, and those that were cut short. A failure
/// that its job ignores stays: its job went on without it.
pub fn failures(nodes: &[Node]) -> Vec<u32> {
    let counts = |node: &Node| {
        node.state == TaskState::Terminated || node.end().is_some_and(|end| fails_job(end, node.on_failure))
    };
    (0..).zip(nodes).filter(|(_, node)| counts(node)).map(|(at, _)| at).collect()
}

/// A node with everything after it, as far as it has not to wait anyway.
pub fn with_following(graph: &Graph, nodes: &[Node], node: u32) -> Vec<u32> {
    let mut again = vec![node];
    again.extend(graph.descendants(node).into_iter().filter(|&at| nodes[at as usize].state != TaskState::Created));
    again.sort_unstable();
    again
}

#[cfg(test)]
mod tests;
