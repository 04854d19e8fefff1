//! What a repair does to a job, order by order, and what it refuses.

use super::*;
use crate::domain::definition::OnFailure;

fn node(state: TaskState, skip_cause: Option<SkipCause>, parents: Parents) -> Node {
    Node { state, skip_cause, rule: TriggerRule::AllSuccess, on_failure: OnFailure::Fail, parents, marked: false }
}

fn failed_above() -> Parents {
    Parents { total: 1, failed: 1, ..Parents::default() }
}

/// A chain: extract FAILED, load and publish SKIPPED for it.
fn broken_chain() -> (Graph, Vec<Node>) {
    let graph = Graph::from_edges(3, vec![(0, 1), (1, 2)]).unwrap();
    let skipped = node(TaskState::Skipped, Some(SkipCause::UpstreamFailed), failed_above());
    (graph, vec![node(TaskState::Failed, None, Parents::default()), skipped, skipped])
}

#[test]
fn what_a_failure_skipped_waits_again_when_the_failure_is_run_again() {
    let (graph, nodes) = broken_chain();
    let reopened = reopen(&graph, &nodes, &[0], false);
    assert_eq!(reopened.reconsidered, [1, 2]);
    assert_eq!((reopened.ended, reopened.failed), (0, 0));
    assert!(reopened.parents[1..].iter().all(|parents| *parents == Parents::waiting(1)));
}

#[test]
fn what_a_person_skipped_stays_skipped() {
    let (graph, mut nodes) = broken_chain();
    nodes[1].marked = true;
    let reopened = reopen(&graph, &nodes, &[0], false);
    assert_eq!(reopened.reconsidered, [] as [u32; 0]);
    assert_eq!(reopened.ended, 2);
}

#[test]
fn what_another_failure_keeps_closed_stays_skipped_and_names_that_one() {
    let graph = Graph::from_edges(3, vec![(0, 2), (1, 2)]).unwrap();
    let failed = node(TaskState::Failed, None, Parents::default());
    let parents = Parents { total: 2, failed: 2, ..Parents::default() };
    let skipped = node(TaskState::Skipped, Some(SkipCause::UpstreamFailed), parents);
    let reopened = reopen(&graph, &[failed, failed, skipped], &[0], false);
    assert_eq!(reopened.reconsidered, [] as [u32; 0]);
    assert_eq!(reopened.still_closed, [(2, Outcome::Failed)]);
    assert_eq!(reopened.parents[2], Parents { total: 2, failed: 1, ..Parents::default() });
}

#[test]
fn what_finished_is_kept_though_its_parent_is_run_again() {
    let graph = Graph::from_edges(2, vec![(0, 1)]).unwrap();
    let finished = node(TaskState::Finished, None, Parents { total: 1, succeeded: 1, ..Parents::default() });
    let reopened = reopen(&graph, &[node(TaskState::Finished, None, Parents::default()), finished], &[0], false);
    assert_eq!(reopened.reconsidered, [] as [u32; 0]);
    assert_eq!((reopened.ended, reopened.parents[1]), (1, Parents::waiting(1)));
}

#[test]
fn a_job_goes_on_where_it_stopped_once_what_stopped_it_is_run_again() {
    let graph = Graph::from_edges(3, vec![]).unwrap();
    let stops = Node { on_failure: OnFailure::Stop, ..node(TaskState::Failed, None, Parents::default()) };
    let stopped = node(TaskState::Skipped, Some(SkipCause::UpstreamFailed), Parents::default());
    let other = node(TaskState::Failed, None, Parents::default());
    let nodes = [stops, stopped, other];
    let all = reopen(&graph, &nodes, &[0, 2], true);
    assert_eq!((all.reconsidered, all.stopping), (vec![1], false));
    let without = reopen(&graph, &nodes, &[2], true);
    assert_eq!((without.reconsidered, without.stopping), (vec![], true));
}

#[test]
fn from_the_failures_means_those_that_count_and_what_was_cut_short() {
    let ignored = |state| Node { on_failure: OnFailure::Ignore, ..node(state, None, Parents::default()) };
    let nodes = [
        node(TaskState::Finished, None, Parents::default()),
        node(TaskState::Failed, None, Parents::default()),
        ignored(TaskState::Failed),
        ignored(TaskState::Terminated),
        node(TaskState::Skipped, Some(SkipCause::UpstreamFailed), Parents::default()),
        node(TaskState::Running, None, Parents::default()),
    ];
    assert_eq!(failures(&nodes), [1, 3]);
}

#[test]
fn only_what_a_person_does_changes_a_terminal_state() {
    let hands = [
        Hand::Rerun,
        Hand::Reconsider,
        Hand::ReopenShard,
        Hand::Mark(Mark::Finished),
        Hand::Mark(Mark::Failed),
        Hand::Mark(Mark::Skipped),
    ];
    for kind in [Kind::Task, Kind::Group, Kind::Shard] {
        for state in TaskState::ALL.into_iter().filter(|state| state.is_live() && *state != TaskState::Queued) {
            for hand in hands {
                assert_eq!(state.by_hand(kind, hand), None, "{state:?} is under way: {hand:?}");
            }
        }
    }
    for job in [JobState::Created, JobState::Skipped, JobState::Terminating] {
        assert_eq!(job.by_hand(), None, "{job:?}");
    }
}
