//! Every example ends as its head says, so that nobody learns from one that does not work.

use std::{fs, path::PathBuf};

use baton_tests::{RunnerSpec, World, programs, service::Service, stories};

/// The mark before the outcome that an example promises.
const OUTCOME: &str = "# outcome: ";

/// The param by which an example is told whom to ask.
const SERVICE: &str = "echo_service";

fn examples() -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(programs::repository().join("examples"))
        .expect("there are examples")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() > 10, "the examples are gone");
    files
}

/// What an example promises: the state of the job, then that of each task it names.
fn promise(text: &str) -> (String, Vec<(String, String)>) {
    let line = text.lines().find_map(|line| line.strip_prefix(OUTCOME)).expect("an example tells its outcome");
    let (job, tasks) = line.split_once("; ").expect("an outcome is `JOB; task=STATE, ...`");
    let tasks = tasks.split(", ").map(|task| task.split_once('=').expect("a task has a state"));
    (job.to_owned(), tasks.map(|(name, state)| (name.to_owned(), state.to_owned())).collect())
}

stories! {
    async fn every_example_ends_as_its_head_says(world: World) {
        let cluster = world
            .runner(RunnerSpec::named("one").slots(8).asks_this_machine())
            .runner(RunnerSpec::named("two").label("pool=etl").asks_this_machine())
            .start()
            .await;
        fs::copy(programs::repository().join("Cargo.lock"), cluster.work_dir().join("Cargo.lock")).expect("it is there");
        let service = Service::start().await.url("");
        let calendar = programs::repository().join("examples/calendars/holidays-de.yaml");
        cluster.baton(&["calendar", "apply", &calendar.to_string_lossy()]).await.exits(0);
        // All at once: examples must not get into each other's way.
        let mut jobs = Vec::new();
        for path in examples() {
            let text = fs::read_to_string(&path).expect("an example can be read");
            // The service that an example asks is one of ours.
            let params = [(SERVICE, service.as_str())];
            let params = if text.contains(SERVICE) { &params[..] } else { &[] };
            jobs.push((path, promise(&text), cluster.run_with(&text, params).await));
        }
        for (path, (job, tasks), id) in jobs {
            let view = cluster.done(&id).await;
            let file = path.file_name().unwrap_or_default().display();
            let seen = format!("{file}: {}\n{}", view.summary(), view.reasons());
            assert_eq!(view.job.state().as_str_name(), format!("JOB_STATE_{job}"), "{seen}");
            for (name, state) in tasks {
                assert_eq!(view.state(&name).as_str_name(), format!("TASK_STATE_{state}"), "{name}; {seen}");
            }
        }
        cluster.nothing_left_running().await;
    }
}
