//! Tasks in their slots: leases, resets, results, and what is refused.

use super::{super::tasks::RUNNING_DELAY, *};

#[test]
fn a_task_is_started_reported_kept_and_forgotten_once_acknowledged() {
    let mut world = World::connected(1);
    assert_eq!(starts(&world.run_new(0, task(1, 1), spec())), [task(1, 1)]);
    world.started(0, task(1, 1));
    world.pass(RUNNING_DELAY);
    assert_eq!((world.last().ack, world.last().slots[0].status), (2, Status::Running));
    assert_eq!(world.last().slots[0].pid, Some(7));
    let outputs = world.exited(0, task(1, 1), 0);
    assert!(matches!(outputs[..], [Output::Keep { .. }, Output::Send(_)]), "kept before it is told: {outputs:?}");
    assert_eq!(world.last().slots[0].status, Status::Finished);
    assert_eq!(world.receive(0, vec![Order::ResultAck { task: task(1, 1) }]), [Output::Forget { slot: 0 }]);
    assert_eq!(world.machine.held(), 0);
}

#[test]
fn a_task_that_is_over_at_once_is_told_in_one_frame() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    let before = world.frames.len();
    assert!(world.started(0, task(1, 1)).is_empty(), "its start can wait");
    world.exited(0, task(1, 1), 0);
    assert_eq!((world.frames.len() - before, world.last().ack), (1, 2));
    assert_eq!(world.results(), [(task(1, 1), EndReason::Exit)]);
    world.pass(ACK_DELAY);
    assert_eq!(world.frames.len() - before, 1, "nothing is left to say");
}

#[test]
fn what_comes_together_is_told_together() {
    let mut world = World::connected(2);
    world.run_new(0, task(1, 1), spec());
    world.run_new(1, task(2, 1), spec());
    let ends = [(0, task(1, 1)), (1, task(2, 1))];
    let inputs = ends.map(|(slot, task)| Input::Ended { slot, task, end: ended(Exit::Code(0)) });
    let outputs = world.machine.step_all(world.now, inputs);
    let [Output::Keep { .. }, Output::Keep { .. }, Output::Send(frame)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(frame.slots.iter().filter(|report| report.result.is_some()).count(), 2);
}

#[test]
fn run_new_twice_starts_one_process_and_is_answered_with_its_state() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    assert!(starts(&world.run_new(0, task(1, 1), spec())).is_empty());
    assert_eq!((world.last().ack, world.last().slots[0].pid), (3, Some(7)));
    world.exited(0, task(1, 1), 3);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(world.results(), [(task(1, 1), EndReason::Exit), (task(1, 1), EndReason::Exit)]);
}

#[test]
fn a_lower_lease_is_stale() {
    let mut world = World::connected(2);
    world.run_new(0, task(1, 5), spec());
    assert!(starts(&world.run_new(1, task(1, 4), spec())).is_empty());
    assert_eq!(world.answers(), [(Some(task(1, 4)), Answer::Stale)]);
}

#[test]
fn a_higher_lease_waits_for_the_end_of_the_older_process() {
    for slot in [0, 1] {
        let mut world = World::connected(2);
        world.run_new(0, task(1, 1), spec());
        world.started(0, task(1, 1));
        let outputs = world.run_new(slot, task(1, 2), spec());
        assert_eq!((starts(&outputs), stops(&outputs)), (vec![], vec![task(1, 1)]));
        let report = world.last().slots.iter().find(|report| report.task == Some(task(1, 2))).expect("told at once");
        assert_eq!((report.status, report.pid), (Status::Running, None));
        assert_eq!(starts(&world.exited(0, task(1, 1), 143)), [task(1, 2)]);
    }
}

#[test]
fn a_reset_is_answered_by_the_result_once_the_processes_are_gone() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(stops(&world.reset(task(1, 1))), [task(1, 1)]);
    assert!(world.results().is_empty());
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Reset)]);
    assert_eq!(world.last().slots[0].status, Status::Failed);
}

#[test]
fn a_reset_of_something_unknown_is_not_held_and_can_never_start_afterwards() {
    let mut world = World::connected(1);
    world.reset(task(1, 1));
    assert!(starts(&world.run_new(0, task(1, 1), spec())).is_empty());
    assert_eq!(world.answers(), [(Some(task(1, 1)), Answer::NotHeld), (Some(task(1, 1)), Answer::Stale)]);
}

#[test]
fn not_held_of_a_newer_lease_waits_for_the_processes_of_an_older_one() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(stops(&world.reset(task(1, 3))), [task(1, 1)]);
    assert!(world.answers().is_empty());
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.answers(), [(Some(task(1, 3)), Answer::NotHeld)]);
}

#[test]
fn a_slot_with_an_unacknowledged_result_is_busy_and_the_ack_may_come_with_the_next_task() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.exited(0, task(1, 1), 0);
    world.run_new(0, task(2, 1), spec());
    assert_eq!(world.answers(), [(Some(task(2, 1)), Answer::RejectedBusy)]);
    let next = Order::RunNew { slot: 0, task: task(3, 1), spec: Ok(Box::new(spec())) };
    assert_eq!(starts(&world.receive(0, vec![Order::ResultAck { task: task(1, 1) }, next])), [task(3, 1)]);
}

/// An hour in which no result is taken: what is kept is bounded by the slots, and told whole only once a stream.
#[test]
fn a_scheduler_that_takes_no_result_makes_a_runner_keep_one_for_each_slot_and_no_more() {
    let mut world = World::connected(2);
    for slot in [0, 1] {
        world.run_new(u32::from(slot), task(slot, 1), spec());
        world.exited(u32::from(slot), task(slot, 1), 0);
    }
    for number in 2..10_000u32 {
        let next = TaskRef { id: Uuid::from_u128(u128::from(number) + 1), ..task(0, 1) };
        assert!(starts(&world.run_new(number % 2, next, spec())).is_empty());
    }
    let refused = world.answers().iter().filter(|(_, answer)| *answer == Answer::RejectedBusy).count();
    assert_eq!(refused, 9_998);
    for _ in 0..360 {
        world.pass(BEAT);
        assert_eq!(world.last().slots.len(), 2);
    }
    assert_eq!(world.results().len(), 2);
}

#[test]
fn what_cannot_be_run_is_rejected_with_its_reason() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), RunSpec { target: Target::Unknown, ..spec() });
    world.run_new(9, task(2, 1), spec());
    world.receive(0, vec![Order::RunNew { slot: 0, task: task(3, 1), spec: Err("no argv".into()) }]);
    world.receive(0, vec![Order::Unknown { kind: 99, slot: 0, task: None }]);
    let answers: Vec<_> = world.answers().into_iter().map(|(_, answer)| answer).collect();
    let expected = [Answer::RejectedTarget, Answer::RejectedSpec, Answer::RejectedSpec, Answer::Unsupported];
    assert_eq!(answers, expected);
}
