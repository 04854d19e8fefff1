//! Values on their way from a request through templates and environments into processes, byte for byte.

use std::fs;

use baton_tests::{RunnerSpec, World, job, stories, v1::JobState};
use serde_json::json;
use tonic::Code;

/// The most bytes of one parameter and of one output.
const VALUE_MAX: usize = 64 * 1024;

/// Whatever a shell, a template, a JSON reader or a terminal might take for its own.
const AWKWARD: [&str; 7] = [
    r#"it's "2026-05-06 10:59:09"; id"#,
    "2023-10-26 14:00:00",
    "$[${x}-1] ${ {{ }} %s {% if %} {# #} `id` $(id) $HOME \\n \\",
    "line one\nline two\r\n\ttabbed\n\n",
    "\u{202e}right to left, é, ☕, 数据, \u{1f980}",
    " leading and trailing ",
    "",
];

stories! {
    /// J01, J02, J03, J06.
    async fn values_arrive_byte_for_byte(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let source = json!({
            "name": "bytes",
            "params": {"value": "unset"},
            "tasks": [
                {
                    "name": "write",
                    "command": [
                        "sh",
                        "-c",
                        "printf %s \"$1\" > argument\nprintf %s \"$VALUE\" > variable\nprintf %s \"$BATON_PARAM_VALUE\" > param\n\
                         cp json \"$BATON_OUTPUT\"",
                        "sh",
                        "{{ params.value }}",
                    ],
                    "env": {"VALUE": "{{ params.value }}"},
                },
                {
                    "name": "read",
                    "needs": ["write"],
                    "env": {"VALUE": "{{ tasks.write.output.value }}"},
                    "shell": "printf %s \"$VALUE\" > output",
                },
            ],
        });
        cluster.ask().apply(&source.to_string()).await.expect("it is applied");
        let large = "ü'\"{{$\n".repeat(VALUE_MAX / 8);
        // As long as a parameter may be, and as JSON no longer than an output may be.
        let longest = "x".repeat(VALUE_MAX - 32);
        let work = cluster.work_dir();
        for value in AWKWARD.into_iter().chain([large.as_str(), longest.as_str()]) {
            let json = json!({ "value": value }).to_string();
            let fits = json.len() <= VALUE_MAX;
            fs::write(work.join("json"), if fits { json } else { json!({"value": ""}).to_string() }).expect("it is written");
            let id = cluster.ask().run("bytes", &[("value", value)]).await.expect("it is accepted");
            cluster.done(&id).await.finished();
            let places = ["argument", "variable", "param"].into_iter().chain(fits.then_some("output"));
            for place in places {
                let arrived = fs::read(work.join(place)).expect("it was written");
                assert!(arrived == value.as_bytes(), "{place}: {:?}", String::from_utf8_lossy(&arrived));
            }
        }
    }

    /// J04, J06: what is too large is refused where it comes in, and on the task where it could not be known before.
    async fn what_is_too_large_is_refused_with_its_limit(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let ask = cluster.ask();
        let sums = json!({
            "name": "sums",
            "params": {"a": "", "b": "", "c": ""},
            "tasks": [{"name": "work", "command": ["echo", "{{ params.a }}{{ params.b }}{{ params.c }}"]}],
        });
        ask.apply(&sums.to_string()).await.expect("it is applied");
        let over = "x".repeat(VALUE_MAX + 1);
        let refused = ask.run("sums", &[("a", &over)]).await.expect_err("one byte too many");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("65536"), "{}", refused.message());
        let refused = ask.run("sums", &[("a", "\0")]).await.expect_err("no process can be given it");
        assert_eq!(refused.code(), Code::InvalidArgument, "{}", refused.message());

        let full = "x".repeat(VALUE_MAX);
        let id = ask.run("sums", &[("a", &full), ("b", &full), ("c", &full)]).await.expect("each of them fits");
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed);
        assert!(view.task("work").reason.contains("131071"), "{}", view.reasons());

        let variable = json!([{"name": "work", "shell": "true", "env": {"BIG": "x".repeat(140 * 1024)}}]);
        let refused = ask.apply(&job("variable", &variable)).await.expect_err("no process can be given it");
        assert!(refused.message().contains("env"), "{}", refused.message());

        let tasks = json!([{"name": "work", "shell": "head -c 70000 /dev/zero | tr '\\0' x > $BATON_OUTPUT"}]);
        let id = cluster.run(&job("output", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.task("work").reason, "it wrote 70000 bytes to BATON_OUTPUT; the limit is 65536");
    }

    async fn items_of_a_list_become_shards_and_their_outputs_a_list(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(8)).start().await;
        let tasks = json!([
            {"name": "list", "shell": "echo '{\"files\": [\"a b\", \"it'\"'\"'s\", \"☕\"], \"none\": []}' > $BATON_OUTPUT"},
            {
                "name": "each",
                "needs": ["list"],
                "shards": {"items": "{{ tasks.list.output.files }}", "max_parallel": 2},
                "env": {"ITEM": "{{ shard.item }}"},
                "shell": "echo \"got=$BATON_SHARD_INDEX/$BATON_SHARD_COUNT $ITEM\" > $BATON_OUTPUT",
            },
            {"name": "nothing", "needs": ["list"], "shards": {"items": "{{ tasks.list.output.none }}"}, "shell": "exit 1"},
            {
                "name": "join",
                "needs": ["each", "nothing"],
                "command": ["sh", "-c", "printf %s \"$1\" > joined", "sh", "{{ tasks.each.output | tojson }}"],
            },
        ]);
        let id = cluster.run(&job("items", &tasks)).await;
        let view = cluster.done(&id).await;
        view.finished();
        let items: Vec<&str> = view.shards("each").iter().map(|shard| shard.shard_item.as_str()).collect();
        assert_eq!(items, ["a b", "it's", "☕"]);
        assert!(view.shards("nothing").is_empty());
        let joined: serde_json::Value =
            serde_json::from_slice(&fs::read(cluster.work_dir().join("joined")).expect("it was written")).expect("a list");
        assert_eq!(joined, json!([{"got": "0/3 a b"}, {"got": "1/3 it's"}, {"got": "2/3 ☕"}]));
    }

    async fn a_group_finishes_with_the_share_it_was_asked_for(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(8)).start().await;
        let tasks = |percent: u32| {
            json!([
                {
                    "name": "each",
                    "shards": {"count": 4, "min_success_percent": percent},
                    "shell": "test $BATON_SHARD_INDEX -ne 2",
                },
                {"name": "after", "needs": ["each"], "shell": "true"},
            ])
        };
        for (percent, summary) in
            [(75, "FINISHED; each=FINISHED, after=FINISHED"), (76, "FAILED; each=FAILED, after=SKIPPED")]
        {
            let id = cluster.run(&job(&format!("percent-{percent}"), &tasks(percent))).await;
            assert_eq!(cluster.done(&id).await.summary(), summary);
        }
    }
}
