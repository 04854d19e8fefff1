//! A runner that takes no more work.

use super::*;

#[test]
fn a_leaving_runner_takes_nothing_new_finishes_and_says_goodbye() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    world.step(Input::Leave);
    assert_eq!(world.last().drain, Drain::Draining);
    world.run_new(0, task(2, 1), spec());
    assert_eq!(world.answers(), [(Some(task(2, 1)), Answer::RejectedDraining)]);
    world.exited(0, task(1, 1), 0);
    let outputs = world.receive(0, vec![Order::ResultAck { task: task(1, 1) }]);
    assert_eq!(outputs.last(), Some(&Output::Left));
    assert_eq!(world.last().drain, Drain::Leaving);
}

#[test]
fn a_runner_stop_burns_no_attempt() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    assert_eq!(stops(&world.step(Input::StopAll)), [task(1, 1)]);
    world.exited(0, task(1, 1), 143);
    assert_eq!(world.results(), [(task(1, 1), EndReason::RunnerStop)]);
}

#[test]
fn a_scheduler_may_drain_and_resume_a_runner() {
    let mut world = World::connected(1);
    world.receive(0, vec![Order::Drain]);
    assert_eq!(world.last().drain, Drain::Draining);
    world.receive(0, vec![Order::Resume]);
    assert_eq!(world.last().drain, Drain::Working);
    assert_eq!(starts(&world.run_new(0, task(1, 1), spec())), [task(1, 1)]);
}
