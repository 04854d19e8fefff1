//! What goes up a stream, when, and when a stream is left.

use super::*;

#[test]
fn a_command_is_acknowledged_soon_even_when_nothing_else_is_to_be_said() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.pass(ACK_DELAY);
    assert_eq!((world.last().ack, world.last().slots[0].status, world.last().slots[0].pid), (2, Status::Running, None));
}

#[test]
fn a_result_is_told_again_in_the_next_hello_and_by_ref_alone_in_beats() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.exited(0, task(1, 1), 0);
    world.receive(3, vec![Order::GoOn]);
    world.pass(BEAT);
    assert_eq!((world.last().slots[0].status, world.last().slots[0].result.is_some()), (Status::Finished, false));
    world.step(Input::Closed);
    world.open();
    let hello = world.last().hello.clone().expect("the first frame is the hello");
    assert!(hello.held[0].result.is_some());
    let ack = Verdict { task: task(1, 1), kind: VerdictKind::Ack, grace: None };
    assert!(world.welcome(vec![ack]).contains(&Output::Forget { slot: 0 }));
}

#[test]
fn what_ends_before_the_welcome_is_told_after_it() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.step(Input::Closed);
    world.open();
    let sent = world.frames.len();
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.frames.len(), sent, "nothing but the hello goes before the welcome");
    world.welcome(vec![Verdict { task: task(1, 1), kind: VerdictKind::Adopt, grace: None }]);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Exit)]);
}

#[test]
fn the_dead_of_an_earlier_boot_are_named_until_a_scheduler_has_heard_it() {
    let leftovers = Leftovers { results: Vec::new(), ended: vec![(0, task(1, 1))] };
    let mut world = World::with(1, leftovers);
    world.open();
    world.step(Input::Closed);
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.ended.clone()), Some(vec![task(1, 1)]));
    assert!(world.welcome(Vec::new()).contains(&Output::EndedTold));
    world.step(Input::Closed);
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.ended.len()), Some(0));
}

#[test]
fn a_result_of_an_earlier_boot_is_kept_in_a_slot_that_no_longer_exists() {
    let result = ended(Exit::Code(0)).into_result(None);
    let mut world = World::with(1, Leftovers { results: vec![(4, task(1, 1), result)], ended: Vec::new() });
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.held[0].slot), Some(4));
    world.welcome(vec![Verdict { task: task(1, 1), kind: VerdictKind::Ack, grace: None }]);
    assert_eq!(world.machine.held(), 0);
}

#[test]
fn a_deaf_stream_is_left_and_the_task_goes_on() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    world.pass(BEAT);
    let outputs = world.pass(Duration::from_secs(5));
    assert_eq!(outputs, [Output::Redial(Redial::Deaf)]);
    assert_eq!(world.machine.held(), 1);
}

#[test]
fn a_scheduler_that_answers_without_acknowledging_is_left_when_there_is_another() {
    for others in [true, false] {
        let mut world = World::new(1);
        world.step(Input::Opened { others });
        world.welcome(Vec::new());
        world.pass(BEAT / 2);
        world.receive(1, vec![Order::GoOn]);
        let moved = world.pass(BEAT / 2).contains(&Output::Redial(Redial::NotAcked));
        assert_eq!(moved, others);
    }
}

/// The outputs of more tasks than a scheduler takes in at once are brought by the frames after the hello.
#[test]
fn outputs_that_fill_more_than_one_frame_come_in_several() {
    const SLOTS: u32 = 100;
    let mut world = World::connected(SLOTS);
    for slot in 0..SLOTS {
        world.run_new(slot, task(slot as u8, 1), spec());
        world.started(slot, task(slot as u8, 1));
    }
    world.step(Input::Closed);
    for slot in 0..SLOTS {
        let end = End { output: vec![b'x'; crate::task::OUTPUT_MAX], ..ended(Exit::Code(0)) };
        world.step(Input::Ended { slot, task: task(slot as u8, 1), end });
    }
    let size = |reports: &[Report]| reports.iter().map(Report::bytes).sum::<usize>();
    let before = world.frames.len();
    world.open();
    let hello = world.last().hello.clone().expect("a stream begins with it");
    assert_eq!(hello.held.len(), SLOTS as usize, "nothing is left out");
    assert!(size(&hello.held) <= frames::FRAME_BYTES_MAX);
    let told = hello.held.iter().filter(|report| report.result.is_some()).count();
    assert!((1..SLOTS as usize).contains(&told), "as many as fit: {told}");
    assert!(hello.held.iter().all(|report| (report.result.is_none()) == (report.status == Status::Running)));

    world.welcome(Vec::new());
    assert!(world.frames[before..].iter().all(|frame| size(&frame.slots) <= frames::FRAME_BYTES_MAX));
    assert_eq!(world.results().len(), SLOTS as usize - told, "the others follow, each once");
    world.pass(BEAT);
    assert_eq!(world.results().len(), SLOTS as usize - told, "and never again in this stream");
}
