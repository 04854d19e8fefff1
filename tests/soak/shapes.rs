//! The job configs that a soak runs: each leaves traces by which a broken promise shows.

use baton_tests::{Cluster, Marks, service::Service};
use serde_json::{Value, json};

/// Those that clients run, by name.
pub(crate) const SHAPES: [&str; 8] =
    ["single", "chain", "diamond", "shards", "stubborn", "limited", "nested", "asking"];
/// The one that a schedule runs, every so often.
pub(crate) const TICKING: &str = "ticking";
/// In seconds.
pub(crate) const TICK: i64 = 2;
/// How many tasks of `limited` may run at once, whatever jobs they are of.
const ROOMS: usize = 2;

/// What a mark begins with that no task may leave: two copies of it ran at once, or more tasks than their key allows.
pub(crate) const OVERLAP: &str = "overlap";
pub(crate) const CROWDED: &str = "crowded";

/// Applies them all. Each task that is a process holds a lock for as long as anything of it lives, so that a second copy
/// shows.
pub(crate) async fn apply(cluster: &Cluster, marks: &Marks, service: &Service) {
    let locks = cluster.directory().join("locks");
    std::fs::create_dir(&locks).expect("a directory can be made");
    let locks = locks.display();
    let again = json!({"max_attempts": 3, "delay": "100ms"});
    let task = |name: &str, needs: &[&str], before: &str, seconds: &str| {
        let body = marks.around(&format!("sleep {seconds}"));
        let second = marks.line(OVERLAP);
        let script = format!("exec 9> \"{locks}/$BATON_TASK_ID\"\nflock -n 9 || {second}\n{before}\n{body}");
        json!({"name": name, "needs": needs, "shell": script, "retry": again})
    };
    let plain = |name: &str, needs: &[&str], seconds: &str| task(name, needs, "", seconds);
    let with = |mut task: Value, key: &str, value: Value| {
        task[key] = value;
        task
    };
    let rooms: Vec<String> =
        (0..ROOMS).map(|room| format!("{{ exec 8> \"{locks}/room-{room}\"; flock -n 8; }}")).collect();
    let enter = format!("{} || {}", rooms.join(" || "), marks.line(CROWDED));
    let key = json!({"key": "rooms", "limit": ROOMS});
    let asking = json!({"name": "asking", "http": {"method": "POST", "urls": [service.url("/told")]}, "retry": again});
    let told = json!([{"events": ["finished", "failed", "terminated"], "http": {"url": service.url("/called-back")}}]);
    let shapes: [(&str, Value); 9] = [
        ("single", json!([plain("only", &[], "0.2")])),
        ("chain", json!([plain("a", &[], "0.1"), plain("b", &["a"], "0.1"), plain("c", &["b"], "0.1")])),
        (
            "diamond",
            json!([
                plain("top", &[], "0.1"),
                plain("left", &["top"], "0.2"),
                plain("right", &["top"], "0.2"),
                plain("bottom", &["left", "right"], "0.1"),
            ]),
        ),
        (
            "shards",
            json!([
                with(plain("part", &[], "0.3"), "shards", json!({"count": 6, "max_parallel": 4})),
                plain("gather", &["part"], "0.1"),
            ]),
        ),
        // Something of it leaves the group, does not want to go, and holds the lock too.
        ("stubborn", json!([task("stubborn", &[], "trap '' TERM\nsetsid sleep 1 &", "0.5")])),
        ("limited", json!([with(task("limited", &[], &enter, "0.2"), "concurrency", key)])),
        (
            "nested",
            json!([
                {"name": "inner", "job": {"name": "single"}, "retry": {"max_attempts": 2}},
                plain("outer", &["inner"], "0.1"),
            ]),
        ),
        ("asking", json!([asking])),
        (TICKING, json!([plain("tick", &[], "0.1")])),
    ];
    for (name, tasks) in shapes {
        let mut config = json!({"name": name, "tasks": tasks});
        if name == TICKING {
            config["schedules"] = json!([{"name": "often", "every": format!("{TICK}s"), "misfire": "run_all"}]);
            config["overlap"] = "allow".into();
        }
        if name == "asking" {
            config["callbacks"] = told.clone();
        }
        cluster.ask().apply(&config.to_string()).await.unwrap_or_else(|status| panic!("{name}: {}", status.message()));
    }
}
