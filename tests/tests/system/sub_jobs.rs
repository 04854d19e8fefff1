//! Jobs that stand for tasks of others, and jobs that come after others.

use baton_tests::{
    PATIENCE, RunnerSpec, World, eventually, stories,
    v1::{self, JobState, TaskState},
};

/// The jobs of a config, oldest first.
async fn jobs_of(cluster: &baton_tests::Cluster, name: &str) -> Vec<v1::Job> {
    cluster.ask().jobs(name).await.expect("jobs are listed")
}

/// Waits until a config has so many jobs, then gives them.
async fn until_jobs(cluster: &baton_tests::Cluster, name: &str, count: usize) -> Vec<v1::Job> {
    eventually(&format!("{name} has {count} jobs"), PATIENCE, || async move {
        let jobs = jobs_of(cluster, name).await;
        (jobs.len() >= count).then_some(jobs)
    })
    .await
}

stories! {
    async fn a_plan_of_three_runs_in_order_and_hands_its_values_on(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("order");
        let job = |name: &str| format!("---\nname: {name}\nparams: {{day: ''}}\ntasks:\n  - name: work\n    env: {{DAY: '{{{{ params.day }}}}'}}\n    shell: |\n      {}\n      echo day=$DAY > $BATON_OUTPUT\n", marks.line(name));
        let plan = "name: plan\nparams: {day: monday}\ntasks:\n\
                    - {name: a, job: {name: ja, params: {day: '{{ params.day }}'}}}\n\
                    - {name: b, needs: [a], job: {name: jb, params: {day: '{{ tasks.a.output.day }}'}}}\n\
                    - {name: c, needs: [b], job: {name: jc, params: {day: '{{ tasks.b.output.day }}'}}}\n";
        let id = cluster.run(&format!("{plan}{}{}{}", job("ja"), job("jb"), job("jc"))).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; a=FINISHED, b=FINISHED, c=FINISHED", "{}", view.reasons());
        assert_eq!(view.task("c").output, r#"{"day":"monday"}"#);
        assert_eq!([marks.count("ja"), marks.count("jb"), marks.count("jc")], [1, 1, 1]);
        for (name, task) in [("ja", "a"), ("jb", "b"), ("jc", "c")] {
            let jobs = jobs_of(&cluster, name).await;
            assert_eq!(jobs.len(), 1);
            assert_eq!(jobs[0].trigger(), v1::TriggerKind::SubJob);
            assert_eq!((jobs[0].parent_job_id.as_str(), jobs[0].parent_task_id.as_str()), (id.as_str(), view.task(task).id.as_str()));
        }
    }

    /// D09: a nested graph that is tried again and fails, and whose failure is ignored.
    async fn a_nested_failure_lets_the_parent_go_on_once(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(4)).start().await;
        let marks = cluster.marks("tries");
        let source = format!(
            "name: outer\ntasks:\n- {{name: nested, on_failure: ignore, retry: {{max_attempts: 2}}, job: {{name: inner}}}}\n\
             - {{name: after, needs: [nested], shell: '{}'}}\n---\nname: inner\ntasks:\n\
             - {{name: fails, retry: {{max_attempts: 2}}, shell: '{}; exit 1'}}\n",
            marks.line("after"), marks.line("try")
        );
        let id = cluster.run(&source).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; nested=FAILED, after=FINISHED", "{}", view.reasons());
        assert_eq!((marks.count("try"), marks.count("after"), view.task("nested").attempt), (4, 1, 2));
        assert_eq!(jobs_of(&cluster, "inner").await.len(), 2, "each try has a job of its own");
    }

    async fn a_terminated_plan_is_over_when_the_last_process_of_its_jobs_is_gone(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let script = format!("trap '{}; exit 0' TERM; {}; while true; do sleep 0.1; done", marks.line("over"), marks.line("begin"));
        let source = format!(
            "name: plan\ntasks: [{{name: load, job: {{name: load}}}}]\n---\nname: load\ntasks:\n- name: work\n  shell: |\n    {script}\n"
        );
        let id = cluster.run(&source).await;
        marks.reach("begin", 1).await;
        cluster.ask().terminate(&id, "").await.expect("it is terminated");
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "TERMINATED; load=TERMINATED", "{}", view.reasons());
        assert_eq!(marks.count("over"), 1, "its process was gone before");
        cluster.nothing_left_running().await;
        assert_eq!(jobs_of(&cluster, "load").await[0].state(), JobState::Terminated);
    }

    async fn a_job_that_is_terminated_by_itself_fails_its_task(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("never");
        let source = format!(
            "name: plan\ntasks:\n- {{name: load, retry: {{max_attempts: 3}}, job: {{name: load}}}}\n---\nname: load\ntasks:\n- name: work\n  shell: |\n    {}\n",
            gate.wait()
        );
        let id = cluster.run(&source).await;
        let child = until_jobs(&cluster, "load", 1).await.remove(0).id;
        cluster.task_is(&child, "work", TaskState::Running).await;
        cluster.ask().terminate(&child, "").await.expect("it is terminated");
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; load=FAILED", "{}", view.reasons());
        assert!(view.task("load").reason.contains("was terminated: terminated: a test wants it so"), "{}", view.reasons());
        assert_eq!(jobs_of(&cluster, "load").await.len(), 1);
    }

    async fn a_killed_scheduler_comes_back_to_the_same_children(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one").slots(4)).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let source = format!(
            "name: plan\ntasks:\n- {{name: load, shards: {{count: 3}}, job: {{name: load}}}}\n- {{name: after, needs: [load], shell: '{}'}}\n---\n\
             name: load\ntasks:\n- name: work\n  shell: |\n    {}\n",
            marks.line("after"), marks.around(&gate.wait()).replace('\n', "\n    ")
        );
        let id = cluster.run(&source).await;
        marks.reach("begin", 3).await;
        cluster.scheduler(0).kill();
        gate.open();
        marks.reach("end", 3).await;
        cluster.start_scheduler(0).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!((marks.count("begin"), marks.count("after")), (3, 1));
        assert_eq!(jobs_of(&cluster, "load").await.len(), 3, "one job a shard, before and after");
    }

    /// D10: a ring of jobs is refused, and what was stored goes on working.
    async fn a_ring_of_jobs_is_refused_with_its_names(world: World) {
        let cluster = world.start().await;
        let leaf = "name: j1\ntasks: [{name: t, shell: 'true'}]\n";
        cluster.ask().apply(&format!("{leaf}---\nname: j2\nafter_jobs: [j1]\ntasks: [{{name: t, shell: 'true'}}]\n")).await.expect("no ring");
        let refused = |source: &str| {
            let (ask, source) = (cluster.ask(), source.to_owned());
            async move { ask.apply(&source).await.expect_err("a ring").message().to_owned() }
        };
        let ring = refused("name: j1\nafter_jobs: [j2]\ntasks: [{name: t, shell: 'true'}]\n").await;
        assert!(ring.contains("these 2 job configs would lead to one another without end: j1 → j2 → j1"), "{ring}");
        let itself = refused("name: j1\nafter_jobs: [j1]\ntasks: [{name: t, shell: 'true'}]\n").await;
        assert!(itself.contains("a job that leads to itself would run without end"), "{itself}");
    }

    /// D11: a job with a schedule of its own that also comes after another: each run says which it was.
    async fn a_successor_with_a_schedule_says_what_made_each_job(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let source = "name: first\ntasks: [{name: t, shell: 'true'}]\n---\n\
                      name: second\nafter_jobs: [first]\noverlap: allow\nschedules: [{name: often, every: 1s}]\ntasks: [{name: t, shell: 'true'}]\n";
        let first = cluster.run(source).await;
        cluster.done(&first).await.finished();
        let made = eventually("both make jobs", PATIENCE, || async {
            let jobs = jobs_of(&cluster, "second").await;
            let of = |kind| jobs.iter().filter(|job| job.trigger() == kind).count();
            let counts = (of(v1::TriggerKind::AfterJobs), of(v1::TriggerKind::Schedule));
            (counts.0 > 0 && counts.1 > 1).then_some(counts)
        })
        .await;
        assert_eq!(made.0, 1, "one end of the first makes one job");
    }

    /// A round that is not complete says whom it waits for.
    async fn a_round_tells_who_is_missing(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let one = |name: &str| format!("name: {name}\ntasks: [{{name: t, shell: 'true'}}]\n---\n");
        let report = "name: report\nafter_jobs: [load, check]\ntasks: [{name: t, shell: 'true'}]\n";
        cluster.ask().apply(&format!("{}{}{report}", one("load"), one("check"))).await.expect("it is stored");
        let described = cluster.baton(&["describe", "config", "report"]).await;
        assert!(described.stdout.contains("waits for load, check"), "{}", described.stdout);
        cluster.baton(&["run", "load", "--wait"]).await.exits(0);
        let described = cluster.baton(&["describe", "config", "report"]).await;
        assert!(described.stdout.contains("waits for check; load finished ("), "{}", described.stdout);
        cluster.baton(&["run", "check", "--wait"]).await.exits(0);
        eventually("the job is made, and the next round waits for both", PATIENCE, async || {
            let described = cluster.baton(&["describe", "config", "report"]).await;
            let made = jobs_of(&cluster, "report").await.len() == 1;
            (made && described.stdout.contains("waits for load, check")).then_some(())
        })
        .await;
    }

    /// K07: what others name is not deleted under their hands, and with force they stay editable.
    async fn what_others_name_is_not_deleted_by_mistake(world: World) {
        let cluster = world.start().await;
        cluster.ask().apply("name: j2\ntasks: [{name: t, shell: 'true'}]\n---\nname: j1\ntasks: [{name: t, job: {name: j2}}]\n").await.expect("it is stored");
        let refused = cluster.baton(&["delete", "config", "j2"]).await;
        refused.exits(5);
        assert!(refused.stderr.contains("job config \"j2\" is named by j1 (a `job` task)"), "{}", refused.stderr);
        cluster.baton(&["delete", "config", "j2", "--force"]).await.exits(0);
        cluster.ask().apply("name: j1\ntasks: [{name: t, shell: 'true'}]\n").await.expect("it is editable");
    }
}
