//! The graph of a job: which task comes after which.
//!
//! Nodes are numbers, the positions of the tasks in the definition, so that everything about a node is one index away.
//! All walks are loops over the topological order, never recursion, and cost O(nodes + edges): a chain of 100,000 tasks
//! is as welcome as a fan.

use std::collections::{HashMap, hash_map::Entry};

use super::definition::TaskConfig;

/// How many cycles are told at most; who has repaired these asks again.
pub const CYCLES_MAX: usize = 20;

/// An acyclic graph; it never changes once built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    parents: Adjacency,
    children: Adjacency,
    order: Vec<u32>,
}

/// What keeps tasks from being a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Two tasks have one name.
    DuplicateName {
        /// The later one.
        node: u32,
        /// The one that had the name first.
        first: u32,
    },
    /// A task needs something that is not a task.
    UnknownParent {
        /// The task.
        node: u32,
        /// Which of its needs.
        need: usize,
    },
    /// A task needs itself.
    SelfEdge {
        /// The task.
        node: u32,
        /// Which of its needs.
        need: usize,
    },
    /// Tasks wait for each other: each comes after the one before it, and the first after the last.
    Cycle(Vec<u32>),
}

impl Graph {
    /// Builds the graph of some tasks, or tells every fault they have. A need named twice is one edge.
    pub fn of(tasks: &[TaskConfig]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut nodes: HashMap<&str, u32> = HashMap::with_capacity(tasks.len());
        for (node, task) in numbered(tasks) {
            let first = *nodes.entry(&task.name).or_insert(node);
            if first != node {
                faults.push(Fault::DuplicateName { node, first });
            }
        }
        let mut edges = Vec::new();
        for (node, task) in numbered(tasks) {
            for (need, name) in task.needs.iter().enumerate() {
                match nodes.get(name.as_str()) {
                    None => faults.push(Fault::UnknownParent { node, need }),
                    Some(&parent) if parent == node => faults.push(Fault::SelfEdge { node, need }),
                    Some(&parent) => edges.push((parent, node)),
                }
            }
        }
        match Self::from_edges(tasks.len(), edges) {
            Ok(graph) if faults.is_empty() => Ok(graph),
            Ok(_) => Err(faults),
            Err(cycles) => {
                faults.extend(cycles.into_iter().map(Fault::Cycle));
                Err(faults)
            }
        }
    }

    /// Builds a graph of `len` nodes from its edges, each (parent, child), or tells its cycles: disjoint ones, at most
    /// [`CYCLES_MAX`], each in the direction of its edges and from its lowest node on.
    pub fn from_edges(len: usize, mut edges: Vec<(u32, u32)>) -> Result<Self, Vec<Vec<u32>>> {
        edges.sort_unstable();
        edges.dedup();
        let children = Adjacency::new(len, edges.iter().copied());
        let parents = Adjacency::new(len, edges.iter().map(|&(parent, child)| (child, parent)));
        let order = order(&parents, &children);
        if order.len() < len {
            return Err(cycles(&parents, &children, &order));
        }
        Ok(Self { parents, children, order })
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.children.targets.len()
    }

    /// What comes directly after a node, in ascending order.
    pub fn children(&self, node: u32) -> &[u32] {
        self.children.of(node)
    }

    /// What comes directly before a node, in ascending order.
    pub fn parents(&self, node: u32) -> &[u32] {
        self.parents.of(node)
    }

    /// The nodes without parents, in ascending order.
    pub fn roots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len() as u32).filter(|&node| self.parents(node).is_empty())
    }

    /// All nodes, each after all its parents; the same for the same graph.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Every node that comes before this one, in ascending order.
    pub fn ancestors(&self, node: u32) -> Vec<u32> {
        self.reach(node, &self.parents)
    }

    /// Every node that comes after this one, in ascending order.
    pub fn descendants(&self, node: u32) -> Vec<u32> {
        self.reach(node, &self.children)
    }

    /// Answers for each pair (ancestor, node) whether the first comes before the second.
    ///
    /// Many pairs are answered together, 64 ancestors in one walk over the graph: each word holds which of
    /// them a node descends from. A definition in which every task reads from a far one is still checked in a moment.
    pub fn come_before(&self, pairs: &[(u32, u32)]) -> Vec<bool> {
        let mut answers: Vec<bool> =
            pairs.iter().map(|&(ancestor, node)| self.parents(node).binary_search(&ancestor).is_ok()).collect();
        let mut far: Vec<usize> = (0..pairs.len()).filter(|&pair| !answers[pair]).collect();
        far.sort_unstable_by_key(|&pair| pairs[pair]);

        let mut descends = vec![0_u64; self.len()];
        let mut rest = far.as_slice();
        while let Some(&first) = rest.first() {
            descends.fill(0);
            let (mut bits, mut last, mut taken) = (0, pairs[first].0, 0);
            let mut asked: Vec<(usize, u64)> = Vec::new();
            descends[last as usize] |= 1;
            for &pair in rest {
                if pairs[pair].0 != last {
                    if bits == 63 {
                        break;
                    }
                    bits += 1;
                    last = pairs[pair].0;
                    descends[last as usize] |= 1 << bits;
                }
                asked.push((pair, 1 << bits));
                taken += 1;
            }
            for &node in &self.order {
                let inherited = self.parents(node).iter().fold(0, |all, &parent| all | descends[parent as usize]);
                descends[node as usize] |= inherited;
            }
            for (pair, bit) in asked {
                let (ancestor, node) = pairs[pair];
                answers[pair] = ancestor != node && descends[node as usize] & bit != 0;
            }
            rest = &rest[taken..];
        }
        answers
    }

    fn reach(&self, from: u32, along: &Adjacency) -> Vec<u32> {
        let mut seen = vec![false; self.len()];
        let mut reached = along.of(from).to_vec();
        for &node in &reached {
            seen[node as usize] = true;
        }
        let mut next = 0;
        while let Some(&node) = reached.get(next) {
            for &further in along.of(node) {
                if !std::mem::replace(&mut seen[further as usize], true) {
                    reached.push(further);
                }
            }
            next += 1;
        }
        reached.sort_unstable();
        reached
    }
}

/// The neighbours of every node in one list, and where each node's part of it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Adjacency {
    starts: Vec<usize>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn new(len: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; len + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..len {
            starts[node + 1] += starts[node];
        }
        let mut free = starts.clone();
        let mut targets = vec![0; starts[len]];
        for (from, to) in edges {
            targets[free[from as usize]] = to;
            free[from as usize] += 1;
        }
        Self { starts, targets }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize]..self.starts[node as usize + 1]]
    }
}

/// The nodes each after its parents; shorter than the graph when there are cycles (Kahn's algorithm).
fn order(parents: &Adjacency, children: &Adjacency) -> Vec<u32> {
    let len = parents.starts.len() - 1;
    let mut open: Vec<usize> = (0..len as u32).map(|node| parents.of(node).len()).collect();
    let mut order: Vec<u32> = (0..len as u32).filter(|&node| open[node as usize] == 0).collect();
    order.reserve(len - order.len());
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        for &child in children.of(node) {
            open[child as usize] -= 1;
            if open[child as usize] == 0 {
                order.push(child);
            }
        }
        next += 1;
    }
    order
}

/// Disjoint cycles among the nodes that the topological order left out.
///
/// Each of those has a parent that was left out too, so a walk from parent to parent runs into a cycle. Once told, the
/// cycle is taken for done and the order goes on from it: what is left then has a cycle of its own.
fn cycles(parents: &Adjacency, children: &Adjacency, order: &[u32]) -> Vec<Vec<u32>> {
    let len = parents.starts.len() - 1;
    let mut done = vec![false; len];
    let mut open: Vec<usize> = (0..len as u32).map(|node| parents.of(node).len()).collect();
    finish(order, &mut done, &mut open, children);
    let mut cycles = Vec::new();
    let mut first = 0;
    while cycles.len() < CYCLES_MAX {
        while done.get(first) == Some(&true) {
            first += 1;
        }
        if first == len {
            break;
        }
        let cycle = cycle_above(first as u32, parents, &done);
        finish(&cycle, &mut done, &mut open, children);
        cycles.push(cycle);
    }
    cycles
}

/// Marks nodes as done, and all that then has no parent left that is not. `open` counts those for every node.
fn finish(nodes: &[u32], done: &mut [bool], open: &mut [usize], children: &Adjacency) {
    let mut reached = nodes.to_vec();
    for &node in nodes {
        done[node as usize] = true;
    }
    while let Some(node) = reached.pop() {
        for &child in children.of(node) {
            open[child as usize] -= 1;
            if open[child as usize] == 0 && !std::mem::replace(&mut done[child as usize], true) {
                reached.push(child);
            }
        }
    }
}

/// The cycle that a walk from parent to parent runs into, in the direction of the edges, from its lowest node on.
fn cycle_above(start: u32, parents: &Adjacency, done: &[bool]) -> Vec<u32> {
    let mut place = HashMap::new();
    let mut walk = Vec::new();
    let mut node = start;
    while let Entry::Vacant(free) = place.entry(node) {
        free.insert(walk.len());
        walk.push(node);
        let open = parents.of(node).iter().copied().find(|&parent| !done[parent as usize]);
        node = open.expect("a node that is not done has a parent that is not done");
    }
    let mut cycle = walk.split_off(place[&node]);
    cycle.reverse();
    let lowest = (0..cycle.len()).min_by_key(|&place| cycle[place]).unwrap_or(0);
    cycle.rotate_left(lowest);
    cycle
}

fn numbered(tasks: &[TaskConfig]) -> impl Iterator<Item = (u32, &TaskConfig)> {
    (0..).zip(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, needs: &[&str]) -> TaskConfig {
        TaskConfig {
            name: name.to_owned(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            ..TaskConfig::default()
        }
    }

    #[test]
    fn parents_come_before_children() {
        let tasks = [task("report", &["merge"]), task("merge", &["a", "b"]), task("a", &[]), task("b", &["a"])];
        let graph = Graph::of(&tasks).expect("a graph");
        assert_eq!(graph.order(), [2, 3, 1, 0]);
        assert_eq!(graph.roots().collect::<Vec<_>>(), [2]);
        assert_eq!(graph.parents(1), [2, 3]);
        assert_eq!(graph.children(2), [1, 3]);
        assert_eq!(graph.ancestors(0), [1, 2, 3]);
        assert_eq!(graph.descendants(3), [0, 1]);
    }

    #[test]
    fn a_need_named_twice_is_one_edge() {
        let graph = Graph::of(&[task("a", &[]), task("b", &["a", "a"])]).expect("a graph");
        assert_eq!(graph.parents(1), [0]);
        assert_eq!(graph.edges(), 1);
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let tasks = [
            task("a", &["c"]),
            task("b", &["a"]),
            task("c", &["b"]),
            task("a", &["lost"]),
            task("alone", &["alone"]),
            task("x", &["y"]),
            task("y", &["x", "a"]),
        ];
        assert_eq!(
            Graph::of(&tasks),
            Err(vec![
                Fault::DuplicateName { node: 3, first: 0 },
                Fault::UnknownParent { node: 3, need: 0 },
                Fault::SelfEdge { node: 4, need: 0 },
                Fault::Cycle(vec![0, 1, 2]),
                Fault::Cycle(vec![5, 6]),
            ])
        );
    }

    #[test]
    fn what_hangs_below_a_cycle_is_not_part_of_it() {
        let cycles = Graph::from_edges(5, vec![(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)]);
        assert_eq!(cycles, Err(vec![vec![1, 2]]));
    }

    #[test]
    fn no_tasks_are_an_empty_graph() {
        let graph = Graph::of(&[]).expect("a graph");
        assert!(graph.is_empty());
        assert_eq!(graph.roots().count(), 0);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_is_walked_without_recursion() {
        let len = 100_000;
        let graph = Graph::from_edges(len, (1..len as u32).map(|node| (node - 1, node)).collect()).expect("a graph");
        assert_eq!(graph.ancestors(len as u32 - 1).len(), len - 1);
        let mut edges: Vec<_> = (1..len as u32).map(|node| (node - 1, node)).collect();
        edges.push((len as u32 - 1, 0));
        let cycles = Graph::from_edges(len, edges).expect_err("a ring");
        assert_eq!(cycles[0].len(), len);
        assert_eq!(&cycles[0][..3], [0, 1, 2]);
    }

    #[test]
    fn questions_asked_together_get_the_answers_of_single_ones() {
        // A ladder with rungs: enough distinct ancestors for more than one walk.
        let edges = (0..199_u32).flat_map(|node| [(node, node + 1), (node, (node * 7 + 3).clamp(node + 1, 199))]);
        let graph = Graph::from_edges(400, edges.collect()).expect("a graph");
        let pairs: Vec<(u32, u32)> = (0..400).flat_map(|a| (0..400).step_by(13).map(move |b| (a, b))).collect();
        let together = graph.come_before(&pairs);
        for (&(ancestor, node), answer) in pairs.iter().zip(together) {
            assert_eq!(answer, graph.ancestors(node).binary_search(&ancestor).is_ok(), "{ancestor} before {node}");
        }
    }
}
