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
        let fuse = std::sync::Arc::new(testing::Fuse::default());
        scene.engine.stop().await;
        scene.engine = schedules::engine_on(scene.world.with(&fuse));
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
