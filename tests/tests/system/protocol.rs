//! The heartbeat protocol, frame by frame, with a runner played by hand: the scheduler keeps its side whatever comes.

use baton_tests::{
    ByHand, World,
    by_hand::{ended, running},
    job, one_task, stories,
    v1::{
        Answer, CommandKind, DisconnectReason, EndReason, Hello, SlotReport, SlotStatus, TaskRef, TaskState,
        VerdictKind,
    },
};
use serde_json::json;

/// An answer about a task, from slot 0.
fn answer(task: &TaskRef, answer: Answer) -> SlotReport {
    SlotReport {
        slot: 0,
        status: SlotStatus::Idle.into(),
        task: Some(task.clone()),
        answer: answer.into(),
        ..Default::default()
    }
}

stories! {
    /// Rule 3: a rejection is proof, so the task is given out anew under a higher lease, and what the old lease still
    /// says changes nothing.
    async fn a_report_under_an_old_lease_changes_nothing(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("leased", "true")).await;
        let first = runner.next_run().await.task.expect("it names its task");
        runner.say(vec![answer(&first, Answer::RejectedBusy)]).await;
        let second = runner.idle_until_run().await.task.expect("it names its task");
        assert_eq!(second.task_id, first.task_id);
        assert_eq!(second.attempt, 1, "a rejection burns no attempt");
        assert!(second.lease > first.lease);

        runner.say(vec![running(0, &second)]).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        runner.say(vec![ended(0, &first, 0)]).await;
        runner.say(vec![running(0, &second)]).await;
        runner.say(vec![ended(0, &second, 3)]).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.task("work").exit_code, Some(3), "the report of the present lease decides");
        assert_eq!(view.summary(), "FAILED; work=FAILED");
    }

    /// Rule 2, seen from the scheduler.
    async fn idle_counts_only_past_the_ack(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let before = runner.received();
        let id = cluster.run(&one_task("crossed", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        let idle = SlotReport { slot: 0, status: SlotStatus::Idle.into(), ..Default::default() };
        runner.say_acking(before, vec![idle.clone()]).await;
        runner.say(vec![running(0, &task)]).await;
        let view = cluster.task_is(&id, "work", TaskState::Running).await;
        assert_eq!(view.task("work").attempt, 1);

        // Past the ack it means that the work is gone.
        runner.say(vec![idle]).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(!view.task("work").reason.is_empty());
    }

    /// Rule 5.
    async fn a_result_is_acknowledged_as_often_as_it_comes(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("result", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        runner.say(vec![ended(0, &task, 0)]).await;
        let acked = runner.next(CommandKind::ResultAck).await.expect("the stream lives");
        assert_eq!(acked.task.as_ref(), Some(&task));
        runner.say(vec![ended(0, &task, 0)]).await;
        let acked = runner.next(CommandKind::ResultAck).await.expect("the stream lives");
        assert_eq!(acked.task.as_ref(), Some(&task));
        cluster.done(&id).await.finished();

        // The next hello that still holds it is told to forget it.
        let runner = runner.dial_again(&cluster.api(), vec![ended(0, &task, 0)]).await.expect("it is welcome");
        let verdict = runner.welcome.verdicts.first().expect("each item has a verdict");
        assert_eq!(verdict.kind(), VerdictKind::Ack);
    }

    /// Rule 6.
    async fn each_item_of_an_inventory_gets_its_verdict(world: World) {
        let cluster = world.start().await;
        let hello = Hello { slots: 3, ..ByHand::hello("hand") };
        let mut runner = ByHand::dial(&cluster.api(), hello).await.expect("it is welcome");
        let id = cluster.run(&one_task("held", "true")).await;
        let run = runner.next_run().await;
        assert_eq!(run.slot, 0, "of idle slots the first is taken");
        let task = run.task.expect("it names its task");
        runner.say(vec![running(0, &task)]).await;
        cluster.task_is(&id, "work", TaskState::Running).await;

        let old = TaskRef { lease: task.lease - 1, ..task.clone() };
        let unknown = TaskRef { task_id: uuid::Uuid::now_v7().to_string(), attempt: 1, lease: 1 };
        let inventory = vec![running(0, &task), running(1, &old), running(2, &unknown)];
        let mut runner = runner.dial_again(&cluster.api(), inventory).await.expect("it is welcome");
        let verdict = |task: &TaskRef| {
            let verdicts = &runner.welcome.verdicts;
            verdicts.iter().find(|verdict| verdict.task.as_ref() == Some(task)).expect("it has one").kind()
        };
        assert_eq!(verdict(&task), VerdictKind::Adopt);
        assert_eq!(verdict(&old), VerdictKind::Reset);
        assert_eq!(verdict(&unknown), VerdictKind::Reset);

        cluster.ask().terminate(&id, "").await.expect("the wish is stored");
        let reset = runner.next(CommandKind::Reset).await.expect("the stream lives");
        assert_eq!(reset.task.as_ref(), Some(&task));
        // The answer is lost with the stream, so the next hello is told again.
        let mut runner = runner.dial_again(&cluster.api(), vec![running(0, &task)]).await.expect("it is welcome");
        assert_eq!(runner.welcome.verdicts[0].kind(), VerdictKind::Cancel);
        runner.say(vec![answer(&task, Answer::NotHeld)]).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "TERMINATED; work=TERMINATED");
    }

    /// Rule 6: what the inventory lacks.
    async fn a_hello_of_a_new_boot_without_the_task_loses_its_attempt(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let tasks = json!([{"name": "work", "shell": "true", "retry": {"max_attempts": 2}}]);
        let id = cluster.run(&job("reboot", &tasks)).await;
        let task = runner.next_run().await.task.expect("it names its task");
        runner.say(vec![running(0, &task)]).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        let hello = Hello { boot_id: uuid::Uuid::new_v4().to_string(), ..runner.said().clone() };
        drop(runner);
        let mut runner = ByHand::dial(&cluster.api(), hello).await.expect("it is welcome");
        runner.beat_idle().await;
        let again = runner.next_run().await.task.expect("it names its task");
        assert_eq!((again.task_id, again.attempt), (task.task_id, 2));
        assert!(again.lease > task.lease);
    }

    async fn a_hello_of_the_same_boot_without_a_dispatched_task_burns_nothing(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        cluster.run(&one_task("unseen", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        // The command was lost on its way: the same process says that it never had it.
        let mut runner = runner.dial_again(&cluster.api(), Vec::new()).await.expect("it is welcome");
        runner.beat_idle().await;
        let again = runner.next_run().await.task.expect("it names its task");
        assert_eq!((again.task_id, again.attempt), (task.task_id, 1));
        assert!(again.lease > task.lease);
    }

    /// Rule 7.
    async fn of_two_streams_of_one_process_the_later_counts(world: World) {
        let cluster = world.start().await;
        let api = cluster.api();
        let hello = ByHand::hello("hand");
        let mut first = ByHand::dial(&api, hello.clone()).await.expect("it is welcome");
        let mut second = ByHand::dial(&api, Hello { conn: 2, ..hello.clone() }).await.expect("it is welcome");
        let told = first.next(CommandKind::Disconnect).await.and_then(|command| command.disconnect);
        // It is told, unless the stream was closed before it could be.
        assert!(told.is_none_or(|told| told.reason() == DisconnectReason::Replaced));
        assert!(ByHand::dial(&api, hello).await.is_err(), "a stream of the past is not welcome");
        cluster.run(&one_task("once", "true")).await;
        assert!(second.next_run().await.task.is_some(), "the later one still counts");
    }

    /// Rule 7: a hello that was on its way for so long that its process is gone.
    async fn a_late_hello_of_an_older_boot_takes_nothing_from_the_newer_one(world: World) {
        let cluster = world.start().await;
        let api = cluster.api();
        let newer = Hello { boot_number: 2, ..ByHand::hello("hand") };
        let older = Hello { boot_id: "older".to_owned(), boot_number: 1, conn: 9, ..newer.clone() };
        let mut alive = ByHand::dial(&api, newer.clone()).await.expect("it is welcome");
        let id = cluster.run(&one_task("held", "true")).await;
        let run = alive.next_run().await;
        let task = run.task.expect("a task is given out");
        alive.say(vec![running(0, &task)]).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        assert!(ByHand::dial(&api, older).await.is_err(), "a boot of the past is not welcome");
        let copy = Hello { boot_id: "copy".to_owned(), ..newer };
        assert!(ByHand::dial(&api, copy).await.is_err(), "nor is a copy of its state directory");
        alive.say(vec![ended(0, &task, 0)]).await;
        let view = cluster.done(&id).await;
        assert_eq!((view.summary().as_str(), view.task("work").attempt), ("FINISHED; work=FINISHED", 1));
    }

    /// Rule 11.
    async fn two_hosts_with_one_id_do_not_push_each_other_out(world: World) {
        let cluster = world.start().await;
        let api = cluster.api();
        let mut first = ByHand::dial(&api, ByHand::hello("hand")).await.expect("it is welcome");
        let refused = ByHand::dial(&api, ByHand::hello("hand")).await.expect_err("the first one lives");
        let said = refused.message().to_lowercase();
        assert!(said.contains("duplicate") || said.contains("in use"), "{said}");
        cluster.run(&one_task("mine", "true")).await;
        assert!(first.next_run().await.task.is_some(), "the earlier one still counts");
    }

    /// Rule 3: a task that every runner refuses does not go round for ever.
    async fn a_task_that_is_refused_again_and_again_fails_with_that_reason(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("refused", "true")).await;
        let mut refusals = 0;
        let view = loop {
            tokio::select! {
                run = runner.next_run() => {
                    let task = run.task.expect("it names its task");
                    refusals += 1;
                    assert!(refusals <= 10, "it goes round for ever");
                    runner.say(vec![answer(&task, Answer::RejectedSpec)]).await;
                    runner.beat_idle().await;
                }
                view = cluster.done(&id) => break view,
            }
        };
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert_eq!(refusals, 5);
        assert!(!view.task("work").reason.is_empty());
    }

    /// Rule 14.
    async fn a_runner_from_the_future_is_served(world: World) {
        let cluster = world.start().await;
        let mut hello = ByHand::hello("hand");
        hello.protocol_version = 7;
        hello.capabilities.push("teleport".to_owned());
        let mut runner = ByHand::dial(&cluster.api(), hello).await.expect("it is welcome");
        assert_eq!(runner.welcome.protocol_version, 1, "the scheduler says what it speaks");
        let id = cluster.run(&one_task("old-news", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        let mut report = running(0, &task);
        report.answer = 99;
        runner.say(vec![report]).await;
        runner.say(vec![ended(0, &task, 0)]).await;
        cluster.done(&id).await.finished();
    }

    /// A runner that acknowledges nothing is not left to hold a task for ever.
    async fn a_command_without_an_answer_closes_the_stream(world: World) {
        let cluster = world.quick().start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("deaf", "true")).await;
        runner.next_run().await;
        // Nothing is said any more: first the task is asked back, then the stream is closed, then the runner is lost.
        assert!(runner.next(CommandKind::Reset).await.is_some());
        while runner.next(CommandKind::GoOn).await.is_some() {}
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("lost"), "{}", view.reasons());
    }

    /// I06: what is refused is refused once and for all; whoever sends it again is answered, and fills no log.
    async fn a_result_that_is_refused_again_and_again_costs_next_to_nothing(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("too-much", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        let mut report = ended(0, &task, 0);
        report.result.as_mut().expect("it has ended").output = vec![b'x'; 70_000].into();
        runner.say(vec![report.clone()]).await;
        let refusal = runner.next(CommandKind::ResultAck).await.expect("the stream lives");
        assert!(refusal.message.contains("70000") || refusal.message.contains("65536"), "{}", refusal.message);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("refused"), "{}", view.reasons());

        let written = cluster.scheduler_output(0).len();
        for _ in 0..300 {
            runner.say(vec![report.clone()]).await;
            assert!(runner.next(CommandKind::ResultAck).await.is_some());
        }
        let more = cluster.scheduler_output(0).len() - written;
        assert!(more < 2_000, "{more} bytes in the log of the scheduler");
        let after = cluster.ask().get(&id).await.expect("it is there");
        assert_eq!((after.job.end_time, after.task("work").attempt), (view.job.end_time, 1), "and nothing has changed");
    }

    /// A message that is far too long is cut between two characters and says so; it is no reason to refuse the report,
    /// which would come again for ever.
    async fn a_message_that_is_far_too_long_is_cut_and_its_report_taken_once(world: World) {
        let cluster = world.start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("wordy", "true")).await;
        let task = runner.next_run().await.task.expect("it names its task");
        let mut report = ended(0, &task, 1);
        let said = "\"ü\\\n".repeat(1 << 18);
        report.result.as_mut().expect("it has ended").message.clone_from(&said);
        runner.say(vec![report.clone()]).await;
        let taken = runner.next(CommandKind::ResultAck).await.expect("the stream lives");
        assert_eq!(taken.message, "", "it is not refused");
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        let reason = view.task("work").reason.clone();
        let kept = reason.strip_suffix("… (cut)").unwrap_or_else(|| panic!("it says that it was cut: {reason}"));
        assert_eq!(kept.chars().count(), 4096);
        assert!(kept.contains(&said[..64]), "{kept}");

        runner.say(vec![report]).await;
        assert!(runner.next(CommandKind::ResultAck).await.is_some(), "what is sent again is acknowledged again");
        let after = cluster.ask().get(&id).await.expect("it is there");
        assert_eq!((after.job.end_time, after.task("work").attempt), (view.job.end_time, 1), "and nothing has changed");
    }

    /// Rule 3: a task that is taken back because its runner did not answer in time burns no attempt, begun or not.
    async fn a_task_that_was_taken_back_for_want_of_an_answer_is_given_out_again(world: World) {
        let cluster = world.quick().start().await;
        let mut runner = ByHand::dial(&cluster.api(), ByHand::hello("hand")).await.expect("it is welcome");
        let id = cluster.run(&one_task("slow", "true")).await;
        let mut leases = Vec::new();
        for begun in [true, false] {
            let task = runner.next_run().await.task.expect("it names its task");
            assert_eq!(task.attempt, 1);
            leases.push(task.lease);
            // The command was on its way for so long that the next one is there already.
            assert!(runner.next(CommandKind::Reset).await.is_some());
            runner.say(vec![running(0, &task)]).await;
            let mut report = ended(0, &task, 1);
            let result = report.result.as_mut().expect("it has ended");
            (result.end_reason, result.exit_code) = (EndReason::Reset.into(), None);
            result.signal = begun.then_some(15);
            runner.say(vec![report]).await;
            runner.beat_idle().await;
        }
        let task = runner.next_run().await.task.expect("it names its task");
        assert!(leases.iter().all(|lease| *lease < task.lease));
        runner.say(vec![running(0, &task)]).await;
        runner.say(vec![ended(0, &task, 0)]).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
    }
}
