//! Whatever happens, in whatever order, the promises hold: an onlooker sees every event and every output.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use super::*;

/// Something that may happen next, by the dice.
#[derive(Debug, Clone)]
enum Event {
    RunNew { slot: u32, task: TaskRef, self_stop: bool },
    Reset { task: TaskRef },
    ResultAck { slot: u32 },
    Started { nth: usize },
    Ended { nth: usize, ok: bool },
    Ack { back: u64 },
    Cut,
    Pass { seconds: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let some_task = (0_u8..3, 1_u64..5).prop_map(|(id, lease)| task(id, lease));
    let event = prop_oneof![
        4 => (0_u32..2, some_task.clone(), any::<bool>())
            .prop_map(|(slot, task, self_stop)| Event::RunNew { slot, task, self_stop }),
        2 => some_task.prop_map(|task| Event::Reset { task }),
        2 => (0_u32..2).prop_map(|slot| Event::ResultAck { slot }),
        3 => (0_usize..4).prop_map(|nth| Event::Started { nth }),
        3 => (0_usize..4, any::<bool>()).prop_map(|(nth, ok)| Event::Ended { nth, ok }),
        2 => (0_u64..3).prop_map(|back| Event::Ack { back }),
        1 => Just(Event::Cut),
        2 => (0_u64..30).prop_map(|seconds| Event::Pass { seconds }),
    ];
    vec(event, 0..60)
}

/// What an onlooker knows who sees every event and every output, and nothing of the machine's inside.
#[derive(Default)]
struct Onlooker {
    /// Processes that exist: slot, task, self-stop, whether a stop was ordered.
    live: Vec<(u32, TaskRef, bool, bool)>,
    started: HashMap<Uuid, u64>,
    not_held: HashMap<Uuid, u64>,
    /// Results kept and not yet acknowledged.
    kept: HashMap<u32, TaskRef>,
    acked: Vec<TaskRef>,
    /// `RUN_NEW` of this session by command seq: what must be named by the first frame whose ack covers it.
    unanswered: Vec<(u64, TaskRef)>,
}

impl Onlooker {
    fn see(&mut self, outputs: &[Output], specs: &HashMap<TaskRef, bool>) {
        for output in outputs {
            match output {
                Output::Start { slot, task, .. } => {
                    assert!(!self.live.iter().any(|(_, live, ..)| live.id == task.id), "two processes of {task}");
                    let newest = self.started.insert(task.id, task.lease);
                    assert!(newest.is_none_or(|lease| lease < task.lease), "{task} started after {newest:?}");
                    let gone = self.not_held.get(&task.id);
                    assert!(gone.is_none_or(|lease| *lease < task.lease), "{task} started after NOT_HELD");
                    assert!(!self.kept.contains_key(slot), "slot {slot} was given away with a result unacknowledged");
                    self.live.push((*slot, *task, specs[task], false));
                }
                Output::Stop { task, .. } => {
                    for live in self.live.iter_mut().filter(|live| live.1 == *task) {
                        live.3 = true;
                    }
                }
                Output::Keep { slot, task, .. } => {
                    assert_eq!(self.kept.insert(*slot, *task), None, "one slot keeps one result");
                }
                Output::Forget { slot } => {
                    let forgotten = self.kept.remove(slot);
                    let acked = |task: TaskRef| self.acked.contains(&task);
                    // The other way to be forgotten: a higher lease of the same task came for this slot.
                    let replaced = |task: TaskRef| specs.keys().any(|t| t.id == task.id && t.lease > task.lease);
                    assert!(forgotten.is_none_or(|task| acked(task) || replaced(task)), "{forgotten:?} was forgotten");
                }
                Output::Send(frame) => self.read(frame),
                Output::Redial(_) => self.unanswered.clear(),
                Output::EndedTold | Output::Left => {}
            }
        }
    }

    fn read(&mut self, frame: &Frame) {
        if frame.hello.is_some() {
            self.unanswered.clear();
        }
        for report in &frame.slots {
            if let (Some(Answer::NotHeld), Some(task)) = (report.answer, report.task) {
                let lives = self.live.iter().find(|(_, live, ..)| live.id == task.id && live.lease <= task.lease);
                assert_eq!(lives, None, "NOT_HELD of {task} while it lives");
                let lease = self.not_held.entry(task.id).or_default();
                *lease = task.lease.max(*lease);
            }
            // A report of a higher lease settles the lower ones.
            let told = |task: &TaskRef| report.task.is_some_and(|told| told.id == task.id && told.lease >= task.lease);
            self.unanswered.retain(|(_, task)| !told(task));
        }
        let silent = self.unanswered.iter().find(|(seq, _)| *seq <= frame.ack);
        assert_eq!(silent, None, "{frame:?} covers a RUN_NEW and says nothing of it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_promises_hold(events in events()) {
        let mut world = World::new(2);
        let mut seen = Onlooker::default();
        let mut specs: HashMap<TaskRef, bool> = HashMap::new();
        let mut connected = false;
        for event in events {
            if !connected {
                let outputs = [world.open(), world.welcome(Vec::new())].concat();
                seen.see(&outputs, &specs);
                connected = true;
            }
            let outputs = match event {
                Event::RunNew { slot, task, self_stop } => {
                    specs.entry(task).or_insert(self_stop);
                    let self_stop_after = self_stop.then_some(SELF_STOP);
                    specs.insert(task, if world.machine.place_of(task).is_some() { specs[&task] } else { self_stop });
                    seen.unanswered.push((world.seq + 1, task));
                    world.run_new(slot, task, RunSpec { self_stop_after, ..spec() })
                }
                Event::Reset { task } => world.reset(task),
                Event::ResultAck { slot } => match seen.kept.get(&slot).copied() {
                    Some(task) => {
                        seen.acked.push(task);
                        world.receive(0, vec![Order::ResultAck { task }])
                    }
                    None => continue,
                },
                Event::Started { nth } => match seen.live.get(nth).copied() {
                    Some((slot, task, ..)) => world.started(slot, task),
                    None => continue,
                },
                Event::Ended { nth, ok } => {
                    if nth >= seen.live.len() {
                        continue;
                    }
                    let (slot, task, ..) = seen.live.remove(nth);
                    world.exited(slot, task, i32::from(!ok))
                }
                Event::Ack { back } => {
                    let newest = world.frames.last().map_or(0, |frame| frame.seq);
                    world.receive(newest.saturating_sub(back), vec![Order::GoOn])
                }
                Event::Cut => {
                    connected = false;
                    world.step(Input::Closed)
                }
                Event::Pass { seconds } => world.pass(Duration::from_secs(seconds)),
            };
            connected &= !outputs.iter().any(|output| matches!(output, Output::Redial(_)));
            seen.see(&outputs, &specs);
            for (_, task, self_stop, stopped) in &seen.live {
                let due = world.machine.lifeline().map(|lifeline| lifeline + SELF_STOP);
                prop_assert!(!self_stop || *stopped || due.is_some_and(|due| world.now < due), "{task} outlived its time");
            }
            prop_assert!(world.machine.next_deadline().is_none_or(|due| due > world.now), "what is due is done");
        }
    }
}
