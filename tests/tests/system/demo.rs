//! The example that a newcomer sees first: it must tell the truth about `Cargo.lock`, and leave nothing behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    time::Duration,
};

use baton_tests::{Part, RunnerSpec, World, eventually, processes, programs, run_program, stories, v1::TaskState};
use rustix::process::Signal;

/// How long the whole demo may take on a busy machine.
const DEMO_LIMIT: Duration = Duration::from_mins(2);

/// What is known of one name in `Cargo.lock`.
#[derive(Default)]
struct Name {
    versions: Vec<String>,
    sources: Vec<String>,
    dependencies: usize,
    dependents: usize,
}

/// The report by one plain pass over the lock file, sharing nothing with the example.
fn expected(lock: &str) -> String {
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    for package in lock.split("[[package]]").skip(1) {
        let field = |key: &str| package.lines().find(|line| line.starts_with(key)).map(quoted);
        let name = names.entry(field("name = ").expect("a package has a name")).or_default();
        name.versions.push(field("version = ").expect("a package has a version"));
        let source =
            field("source = ").map_or("workspace".to_owned(), |url| url.split('+').next().unwrap_or("").into());
        if !name.sources.contains(&source) {
            name.sources.push(source);
        }
        for dependency in package.lines().filter(|line| line.starts_with(" \"")) {
            name.dependencies += 1;
            *wanted.entry(quoted(dependency).split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    for (name, count) in wanted {
        names.entry(name).or_default().dependents = count;
    }
    let mut report = String::from("name,versions,version_list,sources,dependencies,dependents\n");
    for (name, facts) in names {
        let row = [
            name,
            facts.versions.len().to_string(),
            facts.versions.join(" "),
            facts.sources.join(" "),
            facts.dependencies.to_string(),
            facts.dependents.to_string(),
        ];
        report += &row.join(",");
        report.push('\n');
    }
    report
}

stories! {
    async fn the_example_reports_what_one_plain_pass_finds(world: World) {
        let cluster = world.runner(RunnerSpec::named("demo")).start().await;
        let lock = fs::read_to_string(programs::repository().join("Cargo.lock")).expect("it is committed");
        fs::write(cluster.work_dir().join("Cargo.lock"), &lock).expect("it can be copied");
        let example = fs::read_to_string(programs::repository().join("examples/dependencies.yaml")).expect("it is there");

        let id = cluster.run(&example).await;
        let view = cluster.done(&id).await;
        view.finished();

        let shards = view.shards("analyse");
        assert_eq!(shards.len(), 4);
        assert!(shards.iter().all(|shard| shard.state() == TaskState::Finished));
        let report = cluster.work_dir().join("target/demo").join(&id).join("report.csv");
        assert_eq!(fs::read_to_string(report).expect("the report is written"), expected(&lock));
        let shown = cluster.log_holds(&id, "report", "All of it:").await;
        assert!(shown.contains("Most depended upon") && shown.contains("▇▇▇"), "{shown}");
        let processes: BTreeSet<_> = shards.iter().map(|shard| shard.id.clone()).collect();
        assert_eq!(processes.len(), 4, "each shard is a task of its own");
    }
}

/// `examples/run-demo.sh` as `make run` calls it, with a temporary directory of its own.
fn demo(temporary: &std::path::Path) -> Command {
    // Where the tests themselves run in the background, SIGINT is ignored, and a shell cannot trap what it was started
    // without.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT", "sh"])
        .arg(programs::repository().join("examples/run-demo.sh"))
        .arg(programs::path("baton").parent().expect("programs lie in a directory"))
        .env("TMPDIR", temporary)
        .env_remove("BATON_ADDRESS");
    command
}

/// The processes that work in, or were told of, this directory.
fn of_directory(directory: &std::path::Path) -> Vec<i32> {
    processes::with_environment(&format!("TMPDIR={}", directory.display()))
}

#[tokio::test]
async fn make_run_shows_the_result_and_ends_by_itself() {
    let temporary = tempfile::tempdir().expect("a directory can be made");
    let output = run_program(demo(temporary.path())).await;
    output.exits(0);
    for text in ["names in several versions", "Most depended upon", "All of it: target/demo/"] {
        assert!(output.stdout.contains(text), "{text:?} is missing from\n{}", output.stdout);
    }
    assert_eq!(of_directory(temporary.path()), Vec::<i32>::new(), "it left something running");
    assert_eq!(fs::read_dir(temporary.path()).expect("it is there").count(), 0, "it left files behind");
}

#[tokio::test]
async fn make_run_leaves_nothing_behind_when_it_is_interrupted() {
    let temporary = tempfile::tempdir().expect("a directory can be made");
    let mut part = Part::start("demo", demo(temporary.path()), &temporary.path().join("demo.log"));
    let started = || std::future::ready(part.output().contains("starting").then_some(()));
    eventually("the demo has begun", DEMO_LIMIT, started).await;
    // What Ctrl-C does: the whole foreground group is told.
    part.signal_group(Signal::INT);
    let status = part.end(DEMO_LIMIT).await;
    assert_eq!(status.code(), Some(130), "{}", part.output());
    eventually("nothing is left running", DEMO_LIMIT, || {
        std::future::ready(of_directory(temporary.path()).is_empty().then_some(()))
    })
    .await;
    let left: Vec<_> = fs::read_dir(temporary.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["demo.log"], "it left files behind");
}
