//! What begins to wait in a turn and what waits already are given out by one order, and what is given out at once is written
//! once.

use super::*;

fn of_priority(priority: i32, config: TaskConfig) -> TaskConfig {
    TaskConfig { priority: Some(priority), ..config }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_begins_to_wait_goes_before_what_waits_only_where_it_comes_first_by_rank() {
    for (priority, order) in [(0, ["first", "waits", "child"]), (1, ["first", "child", "waits"])] {
        for scene in Scene::on_each_database().await {
            let first = of_priority(9, task("first", &[]));
            let child = of_priority(priority, task("child", &["first"]));
            scene.apply(vec![first, task("waits", &[]), child]).await;
            let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
            let job = scene.run().await;
            let mut seen = Vec::new();
            for _ in 0..3 {
                let (slot, task, spec) = runner.next_run().await;
                assert_eq!((slot, task.attempt, task.lease), (0, 1, 1));
                seen.push(spec.task_name.clone());
                runner.end(slot, task, 0).await;
            }
            assert_eq!(seen, order);
            assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_out_in_the_turn_in_which_it_begins_to_wait_is_written_once() {
    for mut scene in Scene::on_each_database().await {
        let fuse = scene.overhear().await;
        let shards = Some(Shards { split: Split::Count(2), max_parallel: 1, min_success_percent: 100 });
        let second = TaskConfig { when: "tasks['first'].output.word == 'go'".into(), ..task("second", &["first"]) };
        let fan = TaskConfig { shards, ..task("fan", &["second"]) };
        scene.apply(vec![task("first", &[]), second, fan]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        let said = TaskResult { output: br#"{"word":"go"}"#.to_vec(), ..exit(0) };
        let told = SlotReport { result: Some(said), ..report(slot, SlotStatus::Finished, Some(first)) };
        runner.say(vec![told]).await;
        for name in ["second", "fan", "fan"] {
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.task_name, name);
            runner.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);

        let texts: Vec<String> = fuse.statements().into_iter().map(|statement| statement.sql).collect();
        assert!(texts.len() > 20, "only {} statements were run", texts.len());
        let twice: Vec<&String> = texts.iter().filter(|text| text.contains("SET state = 'DISPATCHED'")).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_sees_what_its_parent_left_in_the_very_turn() {
    for scene in Scene::on_each_database().await {
        let child = TaskConfig {
            target: Target::Command(vec!["echo".into(), "{{ tasks.first.output.word }}".into()]),
            ..task("child", &["first"])
        };
        scene.apply(vec![task("first", &[]), child]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        let said = TaskResult { output: br#"{"word":"hello"}"#.to_vec(), ..exit(0) };
        let told = SlotReport { result: Some(said), ..report(slot, SlotStatus::Finished, Some(first)) };
        runner.say(vec![told]).await;
        let (_, _, spec) = runner.next_run().await;
        assert_eq!(spec.target, Target::Command(vec!["echo".into(), "hello".into()]));
    }
}
