//! Bad networks: whatever is lost, late or repeated between a runner and its scheduler, a task runs once and its end counts.

use std::time::Duration;

use baton_tests::{
    Cluster, Marks, PATIENCE, RunnerSpec, World,
    beats::{Beats, Fate, Frame},
    eventually, one_task,
    proxy::{Cut, Proxy, Way},
    soon, stories,
    v1::{CommandKind, DrainState, JobState, RunnerState, SlotStatus, TaskState},
};

async fn behind_proxy(world: World) -> (Cluster, Proxy) {
    let mut cluster = world.with_fronts().start().await;
    let proxy = Proxy::at(cluster.front(0), cluster.address()).await;
    cluster.add_runner(RunnerSpec::named("one").through(proxy.address())).await;
    (cluster, proxy)
}

async fn behind_beats(world: World) -> (Cluster, Beats) {
    let mut cluster = world.with_fronts().start().await;
    let beats = Beats::at(cluster.front(0), cluster.address()).await;
    cluster.add_runner(RunnerSpec::named("one").through(beats.address())).await;
    (cluster, beats)
}

/// Holds back `RUN_NEW`, and everything that comes down after it, until it is released.
fn hold_from_run_new(beats: &Beats) {
    let mut held = false;
    beats.judge(move |frame| {
        held |= frame.commands(CommandKind::RunNew);
        if held && matches!(frame, Frame::Down(_)) { Fate::Hold } else { Fate::Pass }
    });
}

/// Runs one short task through the proxy and checks that it ran once and finished at its first attempt.
async fn runs_once(cluster: &Cluster, name: &str) -> Marks {
    let marks = cluster.marks(name);
    let id = cluster.run(&one_task(name, &marks.around("true"))).await;
    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "no attempt was burnt: {}", view.reasons());
    assert_eq!((marks.count("begin"), marks.count("end")), (1, 1), "it ran once");
    marks
}

stories! {
    async fn a_lost_run_new_is_sent_again_and_burns_no_attempt(world: World) {
        let (cluster, beats) = behind_beats(world).await;
        beats.once(Fate::Lose, |frame| frame.commands(CommandKind::RunNew));
        runs_once(&cluster, "lost").await;
        assert_eq!(beats.count(|frame| frame.commands(CommandKind::RunNew)), 2);
    }

    async fn a_task_that_started_as_the_stream_was_cut_is_adopted(world: World) {
        let (cluster, beats) = behind_beats(world).await;
        beats.once(Fate::PassAndCut, |frame| frame.commands(CommandKind::RunNew));
        let marks = cluster.marks("cut");
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("cut", &marks.around(&gate.wait()))).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1);
        assert_eq!(marks.count("begin"), 1);
    }

    async fn a_result_lost_with_the_stream_is_brought_by_the_next_hello(world: World) {
        let (cluster, beats) = behind_beats(world).await;
        beats.once(Fate::Lose, Frame::brings_result);
        runs_once(&cluster, "result").await;
    }

    async fn a_lost_acknowledgement_of_a_result_frees_the_slot_all_the_same(world: World) {
        let mut cluster = world.with_fronts().start().await;
        let beats = Beats::at(cluster.front(0), cluster.address()).await;
        cluster.add_runner(RunnerSpec::named("one").slots(1).through(beats.address())).await;
        beats.once(Fate::Lose, |frame| frame.commands(CommandKind::ResultAck));
        runs_once(&cluster, "ack").await;
        // The only slot is free again.
        runs_once(&cluster, "after").await;
    }

    /// Rule 2: what the runner sent before it had the command says nothing about the command.
    async fn an_idle_beat_that_crosses_run_new_fails_nothing(world: World) {
        // Slow beats: what is held is released long before anybody loses patience with the other.
        let (cluster, beats) = behind_beats(world.beat(Duration::from_secs(5))).await;
        hold_from_run_new(&beats);
        let marks = cluster.marks("crossed");
        let id = cluster.run(&one_task("crossed", &marks.around("true"))).await;
        eventually("an idle beat crosses the command", PATIENCE, || {
            let seen = beats.seen();
            let sent = seen.iter().position(|frame| frame.commands(CommandKind::RunNew));
            let crossed = sent.is_some_and(|sent| {
                seen[sent..].iter().any(|frame| matches!(frame, Frame::Up(beat) if beat.hello.is_none()))
            });
            std::future::ready(crossed.then_some(()))
        })
        .await;
        beats.release();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
        assert_eq!(marks.count("begin"), 1);
    }

    async fn run_new_twice_starts_one_process(world: World) {
        let (cluster, beats) = behind_beats(world).await;
        beats.once(Fate::Twice, |frame| frame.commands(CommandKind::RunNew));
        let marks = runs_once(&cluster, "twice").await;
        marks.assert_one_at_a_time();
    }

    async fn a_result_twice_ends_a_task_once(world: World) {
        let (cluster, beats) = behind_beats(world).await;
        beats.once(Fate::Twice, Frame::brings_result);
        runs_once(&cluster, "twice").await;
        runs_once(&cluster, "after").await;
    }

    async fn a_short_absence_is_a_non_event(world: World) {
        let (cluster, proxy) = behind_proxy(world).await;
        let marks = cluster.marks("short");
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("short", &marks.around(&gate.wait()))).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        for how in [Cut::Reset, Cut::Close] {
            proxy.refuse();
            proxy.cut(how);
            cluster.runner_is("one", RunnerState::Silent).await;
            proxy.heal();
            cluster.runner_is("one", RunnerState::Online).await;
        }
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1);
        assert_eq!(marks.count("begin"), 1);
    }

    /// G01, G03: what was given up stays given up, whatever the runner says when it is back.
    async fn a_long_absence_loses_the_attempt_for_good(world: World) {
        let (cluster, proxy) = behind_proxy(world.quick()).await;
        let marks = cluster.marks("long");
        let gate = cluster.gate("go");
        let done = cluster.run(&one_task("ends-while-away", &marks.around(&gate.wait()))).await;
        let runs = cluster.run(&one_task("runs-on", &marks.around("sleep 600"))).await;
        marks.reach("begin", 2).await;
        cluster.task_is(&done, "work", TaskState::Running).await;
        cluster.task_is(&runs, "work", TaskState::Running).await;
        proxy.part();
        gate.open();
        marks.reach("end", 1).await;
        for id in [&done, &runs] {
            let view = cluster.done(id).await;
            assert_eq!(view.job.state(), JobState::Failed);
            assert!(view.task("work").reason.contains("lost"), "{}", view.reasons());
        }
        proxy.heal();
        cluster.runner_is("one", RunnerState::Online).await;
        // The copy that still ran is ended, since nobody waits for it any more.
        cluster.nothing_left_running().await;
        for id in [&done, &runs] {
            let view = cluster.ask().get(id).await.expect("it is there");
            assert_eq!(view.summary(), "FAILED; work=FAILED", "a terminal state never changes");
        }
        runs_once(&cluster, "after").await;
    }

    async fn a_stream_that_stands_still_in_one_direction_is_dialled_anew(world: World) {
        let (cluster, proxy) = behind_proxy(world.quick()).await;
        for (way, name) in [(Way::Up, "up"), (Way::Down, "down")] {
            let marks = cluster.marks(name);
            let gate = cluster.gate(name);
            let id = cluster.run(&one_task(name, &marks.around(&gate.wait()))).await;
            marks.reach("begin", 1).await;
            cluster.task_is(&id, "work", TaskState::Running).await;
            let taken = proxy.taken();
            proxy.hold(way);
            soon("the runner dials again", || proxy.taken() > taken).await;
            proxy.heal();
            proxy.cut(Cut::Reset);
            gate.open();
            let view = cluster.done(&id).await;
            view.finished();
            assert_eq!(marks.count("begin"), 1);
        }
    }

    /// The runner is asked to stop while a command is on its way: it refuses it, and another runner takes the task.
    async fn a_runner_that_is_stopped_with_run_new_in_flight_gives_the_task_back(world: World) {
        let (mut cluster, beats) = behind_beats(world.beat(Duration::from_secs(5))).await;
        hold_from_run_new(&beats);
        let marks = cluster.marks("stopped");
        let id = cluster.run(&one_task("stopped", &marks.around("true"))).await;
        soon("the command is on its way", || beats.count(|frame| frame.commands(CommandKind::RunNew)) == 1).await;
        cluster.runner("one").part.terminate();
        soon("the runner says that it drains", || {
            beats.count(|frame| matches!(frame, Frame::Up(beat) if beat.drain() != DrainState::Working)) > 0
        })
        .await;
        beats.release();
        cluster.add_runner(RunnerSpec::named("two")).await;
        let view = cluster.done(&id).await;
        view.finished();
        let work = view.task("work");
        assert_eq!((work.attempt, work.runner_id.as_str()), (1, "two"), "{}", view.reasons());
        assert_eq!(marks.count("begin"), 1);
        let status = cluster.runner("one").part.end(PATIENCE).await;
        assert!(status.success(), "{status}");
    }

    /// The scheduler is asked to stop while its command is on its way: what began is adopted, what did not is sent again.
    async fn a_scheduler_that_is_stopped_with_run_new_in_flight_repeats_nothing(world: World) {
        let (mut cluster, beats) = behind_beats(world.beat(Duration::from_secs(5))).await;
        hold_from_run_new(&beats);
        let marks = cluster.marks("stopped");
        let id = cluster.run(&one_task("stopped", &marks.around("true"))).await;
        soon("the command is on its way", || beats.count(|frame| frame.commands(CommandKind::RunNew)) == 1).await;
        cluster.scheduler(0).terminate();
        let status = cluster.scheduler(0).end(PATIENCE).await;
        assert!(status.success(), "{status}");
        beats.release();
        cluster.start_scheduler(0).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!((view.task("work").attempt, marks.count("begin")), (1, 1), "{}", view.reasons());
    }

    async fn a_cut_within_a_frame_does_no_more_harm_than_any_other(world: World) {
        let (cluster, proxy) = behind_proxy(world).await;
        for bytes in [1, 10, 100, 1000] {
            for way in [Way::Down, Way::Up] {
                proxy.cut_after(way, bytes, Cut::Reset);
                runs_once(&cluster, &format!("cut-{bytes}-{way:?}").to_lowercase()).await;
            }
        }
    }
}

#[tokio::test]
async fn a_log_stream_that_stands_still_holds_up_nothing() {
    // The runner's logs travel on a connection of their own; a slow one must not delay beats or results.
    let (cluster, proxy) = behind_proxy(World::plain()).await;
    proxy.delay(Way::Up, Duration::from_millis(20));
    let id = cluster.run(&one_task("loud", "head -c 3000000 /dev/zero | tr '\\0' x")).await;
    cluster.done(&id).await.finished();
    proxy.heal();
    eventually("all of it is stored", PATIENCE, || async {
        (cluster.log(&id, "work").await.len() == 3_000_000).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_quiet_stream_is_answered_beat_by_beat() {
    let (_cluster, beats) = behind_beats(World::plain().beat(Duration::from_secs(3))).await;
    let beat = |frame: &Frame| matches!(frame, Frame::Up(beat) if beat.slots.len() == 4);
    eventually("some beats, each of which lists every slot, are answered", PATIENCE, || {
        let answered = beats.count(|frame| frame.commands(CommandKind::GoOn));
        std::future::ready((answered >= 3 && beats.count(beat) >= 3).then_some(()))
    })
    .await;
    assert_eq!(beats.count(|frame| frame.reports(SlotStatus::Running)), 0);
    // Every frame is numbered, in both directions, from 1 and without a gap.
    let (mut up, mut down) = (0, 0);
    for frame in beats.seen() {
        match frame {
            Frame::Up(beat) => {
                up += 1;
                assert_eq!(beat.seq, up);
                assert!(beat.ack <= down, "it acknowledges what was never sent");
            }
            Frame::Down(command) => {
                down += 1;
                assert_eq!(command.seq, down);
                assert!(command.ack <= up, "it acknowledges what was never sent");
            }
        }
    }
}
