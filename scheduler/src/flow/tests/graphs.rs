//! Large graphs, at the size of a test: what is measured at full size in `bench/` is at least right.

use std::collections::BTreeSet;

use super::*;

impl Puppet {
    /// Finishes so many tasks, one after the other, and tells their names in that order.
    pub(super) async fn finish(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let (slot, task, spec) = self.next_run().await;
            let shard = spec.shard.map(|(index, ..)| format!("#{index}")).unwrap_or_default();
            names.push(format!("{}{shard}", spec.task_name));
            self.end(slot, task, 0).await;
        }
        names
    }
}

/// Diamonds one below the other: `j0`, then `a1`, `b1`, `j1`, and so on.
fn diamonds(count: usize) -> Vec<TaskConfig> {
    let mut tasks = vec![task("j0", &[])];
    for at in 1..=count {
        let (a, b, above) = (format!("a{at}"), format!("b{at}"), format!("j{}", at - 1));
        tasks.push(task(&a, &[&above]));
        tasks.push(task(&b, &[&above]));
        tasks.push(task(&format!("j{at}"), &[&a, &b]));
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_diamonds_runs_each_of_its_tasks_once_and_in_order() {
    const COUNT: usize = 40;
    for scene in Scene::on_each_database().await {
        scene.apply(diamonds(COUNT)).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let names = runner.finish(3 * COUNT + 1).await;
        let places: BTreeMap<&str, usize> = names.iter().zip(0..).map(|(name, place)| (name.as_str(), place)).collect();
        assert_eq!(places.len(), names.len(), "a task ran twice");
        for at in 1..=COUNT {
            for side in [format!("a{at}"), format!("b{at}")] {
                assert!(places[format!("j{}", at - 1).as_str()] < places[side.as_str()]);
                assert!(places[side.as_str()] < places[format!("j{at}").as_str()]);
            }
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

/// A job of more nodes than a turn writes: what those of the first slice ask for is decided with the last.
#[tokio::test(flavor = "multi_thread")]
async fn the_roots_of_a_job_that_is_written_in_slices_are_opened_each_as_it_asks() {
    const PLAIN: usize = 5_050;
    for scene in Scene::on_each_database().await {
        let mut tasks: Vec<TaskConfig> = (0..PLAIN).map(|number| task(&format!("t{number}"), &[])).collect();
        let shards = Shards { split: Split::Count(2), max_parallel: 2, min_success_percent: 100 };
        let few = [
            TaskConfig { enabled: Some(false), ..task("disabled", &[]) },
            TaskConfig { when: "1 == 2".into(), ..task("not", &[]) },
            TaskConfig { when: "1 == 1".into(), ..task("so", &[]) },
            TaskConfig { queue_timeout: Some(Duration::from_hours(1)), ..task("impatient", &[]) },
            TaskConfig { shards: Some(shards), ..task("fan", &[]) },
            task("child", &["t0"]),
        ];
        for (at, one) in few.into_iter().enumerate() {
            tasks.insert(3 * at + 1, one);
        }
        scene.apply(tasks).await;
        let job = scene.run().await;
        // The plain ones, those that are so and impatient, and two shards.
        scene.until(job, PLAIN as i64 + 4, TaskState::Queued).await;
        let tx = scene.world.store.begin().await.unwrap();
        let text = "SELECT task_config.name, task.state FROM task
                    JOIN task_config ON task_config.id = task.task_config_id
                    WHERE task.job_id = :job AND task.state <> 'QUEUED' ORDER BY task.node";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
        let others: Vec<(String, String)> =
            rows.iter().map(|row| (row.column("name").unwrap(), row.column("state").unwrap())).collect();
        let others: Vec<(&str, &str)> = others.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
        let expected = [("disabled", "SKIPPED"), ("not", "SKIPPED"), ("fan", "RUNNING"), ("child", "CREATED")];
        assert_eq!(others, expected);
        // All of it is one change of the job, for whoever watches it.
        let text = "SELECT count(*) AS count FROM task JOIN job ON job.id = task.job_id
                    WHERE job.id = :job AND task.state = 'QUEUED' AND task.seq = job.seq AND task.queued_at = job.started_at";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
        assert_eq!(rows[0].column::<i64>("count").unwrap(), PLAIN as i64 + 4);
        let alarms =
            tx.query(store::sql::statement(tx.backend(), "SELECT task_id FROM task_alarm", &[])).await.unwrap();
        assert_eq!(alarms.len(), 1);
        drop(tx);
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        runner.next_run().await;
        assert_eq!(scene.terminate(job).await as usize, PLAIN + 5);
        scene.engine.stop().await;
    }
}

/// Fans one below the other: `j0`, so many tasks, `j1`, and so on.
fn fans(count: usize, width: usize) -> Vec<TaskConfig> {
    let mut tasks = vec![task("j0", &[])];
    for at in 1..=count {
        let names: Vec<String> = (0..width).map(|nth| format!("f{at}-{nth}")).collect();
        tasks.extend(names.iter().map(|name| task(name, &[&format!("j{}", at - 1)])));
        tasks.push(task(&format!("j{at}"), &names.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    tasks
}

/// K05. What the end of a task costs is its children, however many others wait.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_task_reads_no_more_rows_when_many_others_wait() {
    const WIDTH: usize = 20;
    /// What a busy machine's once-a-second passes may read meanwhile.
    const PASSES: usize = 200;
    for mut scene in Scene::on_each_database().await {
        let fuse = scene.overhear().await;
        let mut read = Vec::new();
        for fans_below in [5, 100] {
            scene.apply(fans(fans_below, WIDTH)).await;
            let mut runner = Puppet::dial(&scene, hello("r", &fans_below.to_string(), 1, 1)).await;
            let job = scene.run().await;
            scene.until(job, 1, TaskState::Dispatched).await;
            fuse.rows_read();
            runner.finish(2 * (WIDTH + 1)).await;
            read.push(fuse.rows_read());
            assert!(scene.terminate(job).await > 0);
        }
        assert!(read[0] > 2 * WIDTH && read[1] < read[0] + PASSES, "rows read with few and with many: {read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_at_the_top_of_a_long_chain_reaches_its_end_at_once() {
    const COUNT: usize = 300;
    for scene in Scene::on_each_database().await {
        scene.apply(diamonds(COUNT)).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        runner.end(slot, first, 1).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let skipped = tasks.values().filter(|(state, _)| *state == TaskState::Skipped).count();
        assert_eq!(skipped, 3 * COUNT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_several_slices_queues_nothing_before_it_is_written() {
    // A fan of fans, larger than one turn writes.
    const FANS: usize = 53;
    const LEAVES: usize = 100;
    for scene in Scene::on_each_database().await {
        let mut tasks = vec![task("root", &[])];
        for fan in 0..FANS {
            let hub = format!("hub{fan}");
            tasks.push(task(&hub, &["root"]));
            tasks.extend((0..LEAVES).map(|leaf| task(&format!("leaf{fan}-{leaf}"), &[&hub])));
        }
        let total = tasks.len();
        scene.apply(tasks).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 8)).await;
        let job = scene.run().await;
        let names = runner.finish(1 + FANS + 10).await;
        assert_eq!(names[0], "root");
        assert!(names[1..].iter().all(|name| name.starts_with("hub") || name.starts_with("leaf")));
        scene.terminate(job).await;
        let row = scene.world.store.job(job).await.unwrap().expect("the job is there");
        assert_eq!(row.tasks_total as usize, total);
        assert!(row.tasks_ended as usize >= total - 8, "{} of {total} ended", row.tasks_ended);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_shards_each_run_once_and_only_so_many_at_a_time() {
    const COUNT: u32 = 500;
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(COUNT), max_parallel: 16, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }, task("join", &["work"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 64)).await;
        let job = scene.run().await;
        let names = runner.finish(COUNT as usize + 1).await;
        assert_eq!(names.last().map(String::as_str), Some("join"));
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "a shard ran twice");
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}
