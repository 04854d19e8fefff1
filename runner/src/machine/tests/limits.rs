//! What time alone brings to a task.

use super::*;

fn cut_off() -> RunSpec {
    RunSpec { self_stop_after: Some(SELF_STOP), ..spec() }
}

#[test]
fn a_timeout_ends_the_task_and_says_so() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), RunSpec { timeout: Some(Duration::from_secs(1)), ..spec() });
    world.started(0, task(1, 1));
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
    assert!(stops(&world.pass(Duration::from_secs(1))).is_empty(), "once is enough");
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Timeout)]);
}

#[test]
fn self_stop_counts_from_the_sending_of_the_newest_acknowledged_frame() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.pass(BEAT);
    let beat = world.last().seq;
    // Answers without a newer ack prove that the scheduler lives, not that it has committed.
    world.pass(Duration::from_secs(4));
    world.receive(1, vec![Order::GoOn]);
    assert!(stops(&world.pass(Duration::from_secs(30))).is_empty());
    world.open();
    world.welcome(Vec::new());
    world.now = world.now + Duration::from_secs(1);
    let _ = beat;
    assert!(
        stops(&world.pass(SELF_STOP.checked_sub(Duration::from_secs(2)).unwrap())).is_empty(),
        "the hello was acknowledged"
    );
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
}

#[test]
fn a_scheduler_that_cannot_commit_does_not_prolong_a_task() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    for _ in 0..4 {
        assert!(stops(&world.pass(BEAT)).is_empty());
        world.receive(1, vec![Order::GoOn]);
    }
    assert_eq!(stops(&world.pass(BEAT)), [task(1, 1)]);
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::SelfStop)]);
}

#[test]
fn a_planned_stop_of_the_scheduler_holds_self_stop_off_until_the_next_welcome() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    let hold_for = Duration::from_mins(10);
    let outputs = world.receive(0, vec![Order::Disconnect { hold_for }]);
    assert_eq!(outputs.last(), Some(&Output::Redial(Redial::Told)));
    assert!(stops(&world.pass((hold_for + SELF_STOP).checked_sub(Duration::from_secs(1)).unwrap())).is_empty());
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
}

#[test]
fn a_runner_that_was_frozen_past_self_stop_says_so_whatever_it_finds_first() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.now = world.now + SELF_STOP;
    world.exited(0, task(1, 1), 0);
    world.open();
    let hello = world.last().hello.clone().expect("hello");
    assert_eq!(hello.held[0].result.as_ref().map(|result| result.end_reason), Some(EndReason::SelfStop));
}

#[test]
fn a_task_that_arrives_when_its_time_is_over_is_late() {
    let mut world = World::connected(1);
    world.now = world.now + SELF_STOP;
    world.run_new(0, task(1, 1), cut_off());
    assert_eq!(world.answers(), [(Some(task(1, 1)), Answer::RejectedLate)]);
}

#[test]
fn a_longer_grace_ends_at_self_stop_plus_the_set_grace() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.receive(0, vec![Order::Reset { slot: 0, task: task(1, 1), grace: Some(Duration::from_hours(1)) }]);
    let outputs = world.pass(SELF_STOP);
    let set = Output::Stop { slot: 0, task: task(1, 1), grace: Duration::from_secs(10) };
    assert!(outputs.contains(&set), "{outputs:?}");
}
