//! What a definition may say, what is refused, and with which words.

use super::super::{JobConfig, read, render};
use super::*;

/// Every problem of a file, as a line each: place, message, suggestion.
fn problems(source: &str) -> Vec<String> {
    let problems = read(source, "default").err().unwrap_or_default();
    problems
        .iter()
        .map(|problem| {
            let span = problem.span.expect("a place in the file");
            let suggestion = problem.suggestion.as_deref().map_or(String::new(), |text| format!(" | {text}"));
            format!("{}:{} {}{suggestion}", span.line, span.column, problem.message)
        })
        .collect()
}

fn one(source: &str) -> JobConfig {
    let mut documents = read(source, "default").unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(documents.len(), 1);
    documents.remove(0).config
}

/// A file with these lines after a good beginning, which has 3 lines.
fn job(rest: &str) -> String {
    format!("name: etl\nparams: {{day: \"1\", mode: full}}\ntasks:\n{}", rest.trim_start_matches('\n'))
}

#[test]
fn a_whole_definition_is_read() {
    let config = one("
name: orders-etl
namespace: data
labels: {team: data, cost: 12}
params: {day: \"{{ logical_time | date('%Y-%m-%d') }}\", on_time: true}
timeout: 3h
fail_fast: true
task_defaults: {retry: {max_attempts: 3, delay: 30s}, timeout: 40m, env: {TZ: UTC}, runner: {match_labels: {pool: etl}}}
tasks:
  - name: extract-orders
    command: [python, -m, etl.extract, --day, \"{{ params.day }}\", 1.50, 0x10]
    priority: 5
  - name: extract-users
    command: {argv: [python, -m, etl.users]}
    on_failure: ignore
  - name: join
    needs: [extract-orders, extract-users]
    shell: duckdb \"$DB\" < sql/join.sql
    env:
      DB: \"{{ tasks['extract-orders'].output.db }}\"
      N: 007
  - name: resize
    needs: [join]
    shards: {items: \"{{ tasks.join.output.files }}\", max_parallel: 8, min_success_percent: 90}
    command: [resize, --shard, \"{{ shard.index }}/{{ shard.count }}\", \"{{ shard.item }}\"]
  - name: publish
    needs: [resize]
    when: int(tasks['join'].output.rows) > 0 and tasks['extract-users'].state == 'FINISHED'
    shell: |
      echo {{ this is no template }}
    enabled: false
  - {name: tidy, needs: [publish], trigger_rule: all_done, shell: rm -rf work, shards: {one_per_runner: true}}
");
    assert_eq!((config.namespace.as_str(), config.name.as_str()), ("data", "orders-etl"));
    assert_eq!(config.labels["cost"], "12");
    assert_eq!(config.params["on_time"], "true");
    assert_eq!(config.timeout, Some(std::time::Duration::from_hours(3)));
    let Target::Command(argv) = &config.tasks[0].target else { panic!("a command") };
    assert_eq!(argv[5..], ["1.50", "0x10"]);
    assert_eq!(config.tasks[2].env["N"], "007");
    assert_eq!(config.tasks[4].target, Target::Shell("echo {{ this is no template }}\n".to_owned()));
    assert_eq!(config.tasks[5].shards.as_ref().map(|shards| &shards.split), Some(&Split::OnePerRunner));
    let resolved = config.resolved();
    assert_eq!(resolved[5].retry, Some(super::super::Retry::times(3, std::time::Duration::from_secs(30))));
    assert_eq!(validate(&config), []);
}

#[test]
fn every_problem_is_told_at_once_in_the_order_of_the_file() {
    let source = "\
nmae: etl
timeout: 90
enabled: true
tasks:
  - name: Extract Orders
    comand: [true]
  - name: join
    needs: [extract-order, join]
    shell: echo
    trigger_rule: all_sucess
    on_failure: transfer
    http: {url: x}
    priority: 101
    env: [A]
    enabled: yes
  - name: extract-orders
    command: true
    needs: joined
    shards: {count: 0}
    retry: {delay: 5s}
";
    assert_eq!(
        problems(source),
        [
            "1:1 unknown key \"nmae\" | did you mean \"name\"?",
            "2:10 timeout: \"90\" lacks a unit; write it like 90s, 15m, 1h30m, 1d or 500ms",
            "3:1 \"enabled\" is not supported by this version",
            "5:11 \"Extract Orders\" is no name: 1 to 100 of a-z, 0-9, \"-\", \"_\" and \".\", starting with a letter or digit | write \"extract-orders\"",
            "6:5 unknown key \"comand\" | did you mean \"command\"?",
            "8:13 task \"join\" needs \"extract-order\", which does not exist | did you mean \"extract-orders\"?",
            "8:28 task \"join\" needs itself",
            "10:19 trigger_rule: \"all_sucess\" is unknown | did you mean \"all_success\"?",
            "12:5 only one of command, shell, http, job can be set",
            "12:12 unknown key \"url\" | did you mean \"urls\"?",
            "13:15 priority: \"101\" is not a whole number from -100 to 100",
            "14:10 env must be a map of names to texts, not a list",
            "15:14 enabled: \"yes\" is neither true nor false",
            "17:14 argv must be a list, not a text | write [true]",
            "18:12 needs must be a list, not a text | write [joined]",
            "19:21 count: \"0\" is not a whole number from 1 to 100000",
            "20:5 max_attempts must be set, from 1 to 100",
        ]
    );
}

#[test]
fn output_is_never_kept_longer_than_its_job() {
    let source = "\
name: etl
retention: {age: 1d, count: 3, logs: 2d}
tasks: [{name: a, shell: x}]
";
    let problems = problems(source);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("2:38 logs are never kept longer than their job"), "{problems:?}");
}

#[test]
fn a_problem_is_drawn_as_the_manual_shows_it() {
    let source = "\
name: bad
tasks:
  - {name: extract-orders, shell: x}
  - {name: extract-users, shell: x}
  - name: join
    shell: x
    needs: [extract-order, extract-users]
";
    let problems = read(source, "default").expect_err("a problem");
    assert_eq!(
        render(&problems[0], source, "bad.yaml", false),
        "\
bad.yaml:7:13 error: task \"join\" needs \"extract-order\", which does not exist
    6 |     shell: x
    7 |     needs: [extract-order, extract-users]
      |             ^^^^^^^^^^^^^ did you mean \"extract-orders\"?
"
    );
}

#[test]
fn a_cycle_is_shown_with_its_path() {
    let source = job("
  - {name: a, shell: x, needs: [c]}
  - {name: b, shell: x, needs: [a]}
  - {name: c, shell: x, needs: [b]}
  - {name: d, shell: x, needs: [c]}
");
    assert_eq!(
        problems(&source),
        ["4:33 these 3 tasks wait for each other: a → b → c → a | take out one of these edges"]
    );
}

#[test]
fn what_is_twice_is_refused_and_an_edge_twice_is_one() {
    let source =
        job("  - {name: a, shell: x, shell: y}\n  - {name: a, shell: x}\n  - {name: b, shell: x, needs: [a, a]}\n");
    assert_eq!(
        problems(&source),
        ["4:25 \"shell\" stands here twice", "5:12 two tasks are named \"a\": tasks[0] and tasks[1]"]
    );
    one(&job("  - {name: a, shell: x}\n  - {name: b, shell: x, needs: [a, a]}\n"));
}

#[test]
fn a_job_without_tasks_and_a_task_without_work_are_refused() {
    assert_eq!(
        problems("name: empty\ntasks: []\n"),
        ["2:1 the job has no tasks | a job has at least one task: tasks: [{name: hello, shell: echo hello}]"]
    );
    assert_eq!(
        problems("name: empty\n"),
        ["1:1 the job has no tasks | a job has at least one task: tasks: [{name: hello, shell: echo hello}]"]
    );
    assert_eq!(
        problems(&job("  - name: idle\n")),
        ["4:5 task \"idle\" runs nothing | set command, shell, http or job"]
    );
    assert_eq!(
        problems(&job("  - {name: both, shell: x, command: [x]}\n")),
        ["4:28 only one of command, shell, http, job can be set"]
    );
    assert_eq!(
        problems(&job("  - {name: a, shell: x, shards: {max_parallel: 2}}\n")),
        ["4:33 one of count, items, one_per_runner must be set"]
    );
    // A job whose only task is disabled is allowed: it finishes with everything skipped.
    one(&job("  - {name: off, shell: x, enabled: false}\n"));
}

#[test]
fn a_file_that_defines_nothing_says_so() {
    for source in ["", "# only a comment\n", "---\n---\n", "\u{feff}"] {
        let problems = read(source, "default").expect_err("nothing");
        assert_eq!(problems[0].message, "the file defines no job", "{source:?}");
    }
}

#[test]
fn several_documents_are_several_configs_each_with_its_text() {
    let source = "# first\nname: a\ntasks: [{name: t, shell: x}]\n---\nname: b\nnamespace: other\ntasks: [{name: t, shell: x}]\n";
    let documents = read(source, "data").expect("two configs");
    let told: Vec<_> = documents
        .iter()
        .map(|document| (document.config.namespace.as_str(), document.config.name.as_str(), document.source.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("data", "a", "# first\nname: a\ntasks: [{name: t, shell: x}]\n"),
            ("other", "b", "---\nname: b\nnamespace: other\ntasks: [{name: t, shell: x}]\n"),
        ]
    );
    let twice = "name: a\ntasks: [{name: t, shell: x}]\n---\nname: a\ntasks: [{name: t, shell: x}]\n";
    assert_eq!(problems(twice), ["4:7 \"a\" is defined twice in this file, first on line 1"]);
}

#[test]
fn templates_are_checked_before_anything_runs() {
    let source = job("
  - name: first
    command: [echo, \"{{ params.dya }}\", \"{{ nope }}\", \"{{ broken\"]
  - name: second
    needs: [first]
    shell: x
    env:
      A: \"{{ tasks['first'].output.db }}\"
      B: \"say {{ tasks.third.output.x }}\"
      C: \"{{ tasks['frist'].state }}\"
      D: \"{{ tasks['second'].state }}\"
      E: \"{{ shard.index }}\"
      F: \"{{ params.day | uper }}\"
      G: |
        first line
        then {{ tasks.my-task.output.db }}
  - name: third
    needs: [second]
    shell: \"{{ shell is never a template\"
    env: {A: \"{{ tasks['first'].output.db }}\"}
");
    assert_eq!(
        problems(&source),
        [
            "5:25 the job has no param \"dya\" | did you mean \"day\"?",
            "5:45 \"nope\" is unknown here | there is params, tasks, job, logical_time",
            "5:59 the template does not parse: unexpected end of input, expected end of variable block",
            "11:18 task \"third\" does not come before \"second\", so it has nothing to show to it | add \"third\" to the needs of \"second\"",
            "12:14 task \"frist\" does not exist | did you mean \"first\"?",
            "13:14 task \"second\" cannot look at itself | name a task that comes before it",
            "14:14 task \"second\" has no shards here | set shards on the task",
            "15:27 there is no filter \"uper\" | did you mean \"upper\"?",
            "18:17 a name with a hyphen cannot follow a dot | write tasks['my-task'].output.db",
        ]
    );
}

#[test]
fn the_default_of_a_param_knows_the_logical_time_alone() {
    let source = "name: a\nparams: {x: \"{{ params.y }}\", y: \"{{ logical_time }}\"}\ntasks: [{name: t, shell: x}]\n";
    assert_eq!(problems(source), ["2:17 the default of a param cannot name \"params\" | there is logical_time"]);
}

#[test]
fn a_default_that_makes_no_sense_for_a_task_is_told_once() {
    let source = "\
name: a
task_defaults: {env: {X: \"{{ tasks['first'].output.x }}\"}}
tasks:
  - {name: first, shell: x, env: {X: own}}
  - {name: second, shell: x, needs: [first]}
  - {name: third, shell: x}
  - {name: fourth, shell: x}
";
    assert_eq!(
        problems(source),
        [
            "2:30 task \"first\" does not come before \"third\", so it has nothing to show to it | add \"first\" to the needs of \"third\""
        ]
    );
}

#[test]
fn conditions_are_checked_before_anything_runs() {
    let source = job("
  - {name: a, shell: x}
  - {name: b, shell: x, needs: [a], when: \"tasks['a'].state == 'FINISH' or params.mod = 'x'\"}
  - {name: c, shell: x, needs: [a], when: \"tasks['a'].state == 'FINISH' or params.mod == 'x'\"}
  - {name: d, shell: x, when: \"tasks['a'].output.x == 'y'\"}
");
    assert_eq!(
        problems(&source),
        [
            "5:87 \"=\" means nothing here | write \"==\"",
            "6:64 no task ends in the state \"FINISH\" | did you mean \"FINISHED\"?",
            "6:76 the job has no param \"mod\" | did you mean \"mode\"?",
            "7:32 task \"a\" does not come before \"d\", so it has nothing to show to it | add \"a\" to the needs of \"d\"",
        ]
    );
}

#[test]
fn what_no_process_can_be_given_is_refused_with_the_limit() {
    let large = "x".repeat(140 << 10);
    let source = job(&format!("  - name: a\n    shell: x\n    env:\n      BIG: {large}\n      BATON_X: y\n"));
    assert_eq!(
        problems(&source),
        [
            format!("7:12 \"BIG\" has {} bytes with its name; the kernel takes at most 131071", (140 << 10) + 4),
            "8:7 variables that begin with BATON_ are set by Baton".to_owned(),
        ]
    );
    let value = "x".repeat(120 << 10);
    let env: Vec<String> = (0..25).map(|place| format!("      V{place}: {value}\n")).collect();
    let source = job(&format!("  - name: a\n    shell: x\n    env:\n{}", env.concat()));
    let told = problems(&source);
    assert!(told[0].contains("and its env have 3072117 bytes; at most 1048576"), "{told:?}");
    let param = format!("name: a\nparams: {{p: {}}}\ntasks: [{{name: t, shell: x}}]\n", "x".repeat((64 << 10) + 1));
    assert_eq!(problems(&param), ["2:13 the default of \"p\" has 65537 bytes; at most 65536"]);
}

#[test]
fn names_have_one_alphabet() {
    let long = "n".repeat(101);
    for (name, good) in [
        ("a", true),
        ("0", true),
        ("a-b_c.d", true),
        ("-a", false),
        ("A", false),
        ("a b", false),
        ("名", false),
        (&long, false),
    ] {
        let source = format!("name: {name}\ntasks: [{{name: {name}, shell: x}}]\n");
        assert_eq!(read(&source, "default").is_ok(), good, "{name}");
    }
    let source = "name: a\nparams: {day-of: x, Day: x, day: x, \"1\": x}\ntasks: [{name: t, shell: x}]\n";
    assert_eq!(
        problems(source),
        [
            "2:10 a param's name is 1 to 100 of a-z, A-Z, 0-9 and \"_\", and starts with no digit | write \"day_of\"",
            "2:29 params \"Day\" and \"day\" would be one variable, BATON_PARAM_DAY",
            "2:37 a param's name is 1 to 100 of a-z, A-Z, 0-9 and \"_\", and starts with no digit",
        ]
    );
}

#[test]
fn a_message_gets_the_same_answers_with_paths() {
    let config = JobConfig {
        namespace: "default".to_owned(),
        name: "etl".to_owned(),
        tasks: vec![TaskConfig {
            name: "a".to_owned(),
            target: Target::Command(vec!["echo".to_owned(), "{{ params.x }}".to_owned()]),
            priority: Some(1_000),
            ..TaskConfig::default()
        }],
        ..JobConfig::default()
    };
    let told: Vec<String> = validate(&config).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "tasks[0].priority: a priority is from -100 to 100",
            "tasks[0].command.argv[1]: the job has no param \"x\" (declare it: params: {x: \"\"})",
        ]
    );
}

#[test]
fn anchors_help_and_merge_keys_do_not() {
    let config = one(&job("  - {name: a, shell: x, env: &e {A: b}}\n  - {name: b, shell: x, env: *e}\n"));
    assert_eq!(config.tasks[0].env, config.tasks[1].env);
    let source = job("  - {name: a, shell: x, env: &e {A: b}}\n  - {name: b, shell: x, <<: *e}\n");
    assert_eq!(problems(&source), ["5:25 merge keys are not supported | put what all tasks share into task_defaults"]);
}

#[test]
fn a_hundred_thousand_tasks_are_checked_in_a_moment() {
    let mut config = JobConfig { namespace: "d".to_owned(), name: "big".to_owned(), ..JobConfig::default() };
    config.tasks = (0..100_000)
        .map(|node: u32| TaskConfig {
            name: format!("t{node}"),
            target: Target::Command(vec!["x".to_owned(), format!("{{{{ tasks.t{}.output.x }}}}", node / 2)]),
            needs: if node == 0 { vec![] } else { vec![format!("t{}", node - 1)] },
            ..TaskConfig::default()
        })
        .collect();
    let told = validate(&config);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].path.to_string(), "tasks[0].command.argv[1]");
}

#[test]
fn what_is_wrong_with_schedules_is_told_where_it_stands() {
    let source = "\
name: a
queue_limit: 2
schedules:
  - cron: 0 25 * * *
  - {text: every weakday at 09:00}
  - {every: 15m, cron: \"* * * * *\"}
  - {every: 500ms, jitter: 2d}
  - {at: tomorrow}
  - {cron: \"0 9 30 2 *\", time_zone: Asia/Shangai}
  - {cron: \"0 0 30 2 *\"}
  - {time_zone: UTC}
  - {cron: \"@daily\", name: \"8\", calendars: [Holidays]}
  - {cron: \"@daily\", name: \"8\"}
  - {cron: \"@daily\", after: completion}
tasks: [{name: t, shell: x}]
";
    let told = problems(source);
    let expected = [
        ("2:14", "queue_limit means something with `overlap: queue` alone"),
        ("4:11", "25"),
        ("5:12", "weakday"),
        ("6:18", "only one of cron, text, every, at can be set"),
        ("7:13", "from 1 second to 10 years"),
        ("7:28", "24 hours at most"),
        ("7:28", "shorter than the interval"),
        ("9:12", "it never fires"),
        ("8:10", "\"tomorrow\" is no instant"),
        ("9:37", "did you mean Asia/Shanghai?"),
        ("10:12", "it never fires"),
        ("11:5", "one of cron, text, every, at must be set"),
        ("12:45", "write \"holidays\""),
        ("14:22", "`after` says what `every` is counted from"),
        ("13:22", "two schedules are known as \"8\""),
    ];
    for (place, words) in expected {
        let found = told.iter().any(|line| line.starts_with(&format!("{place} ")) && line.contains(words));
        assert!(found, "{place} {words}: {told:#?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

#[test]
fn what_is_said_of_failures_is_within_bounds_and_can_come_about() {
    let source = "\
name: j
warn_after: 2h
timeout: 1h
tasks:
  - name: a
    shell: x
    retry: {max_attempts: 101, delay: 5m, factor: 0.5, max_delay: 1m, jitter_ratio: 2, no_retry_exit_codes: [0, x, 64]}
  - name: b
    shell: x
    retry: {max_attempts: 2}
    on_failure: transfer
  - name: c
    shell: x
    shards: {one_per_runner: true}
    on_failure: retry_then_transfer
  - name: d
    shell: x
    timeout: 10s
    warn_after: 10s
    when_cut_off: go_on
";
    let problems: Vec<String> = problems(source);
    let starts = [
        "2 the timeout of 1h comes first: the warning would never be seen",
        "7 max_attempts: \"101\" is not a whole number from 1 to 100",
        "7 factor: \"0.5\" is not a number from 1 to 100",
        "7 max_delay is shorter than delay",
        "7 jitter_ratio: \"2\" is not a number from 0 to 1",
        "7 \"0\" is not a whole number from 1 to 255",
        "7 \"x\" is not a whole number from 1 to 255",
        "10 `retry` is not looked at with `on_failure: transfer`",
        "15 a shard of one_per_runner belongs to its runner",
        "19 the timeout of 10s comes first",
        "20 when_cut_off: \"go_on\" is unknown",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        let (place, message) = problem.split_once(' ').expect("a place and a message");
        let (line, _) = place.split_once(':').expect("a line and a column");
        assert!(format!("{line} {message}").starts_with(start), "{problem:?} does not start with {start:?}");
    }
}

#[test]
fn defaults_of_retry_do_not_forbid_a_task_to_transfer() {
    let source = "name: j\ntask_defaults: {retry: {max_attempts: 3}, when_cut_off: continue}\n\
                  tasks: [{name: a, shell: x, on_failure: transfer}]\n";
    assert_eq!(problems(source), Vec::<String>::new());
}

#[test]
fn defaults_that_pass_a_task_by_are_not_held_against_it() {
    let source = "\
name: j
task_defaults:
  on_failure: transfer
  warn_after: 1h
  env: {X: '{{ tasks.first.output.x }}'}
  runner: {routing: consistent_hash, routing_key: '{{ tasks.first.output.x }}'}
tasks:
  - {name: load, timeout: 1m, retry: {max_attempts: 2}, job: {name: other}}
  - {name: first, env: {X: own}, runner: {routing: any}, shell: x}
";
    assert_eq!(problems(source), Vec::<String>::new());
}

#[test]
fn a_request_is_read_as_it_stands() {
    let config = one(&job("
  - name: ask
    timeout: 1m
    http:
      method: PUT
      urls: [\"http://a/{{ params.day | urlencode }}\", https://b/]
      headers: {Authorization: \"Bearer {{ params.mode }}\", X-Number: 12}
      body: '{\"day\": \"{{ params.day }}\"}'
      connect_timeout: 2s
      read_timeout: 3s
      request_timeout: 1m
      success_when: [200-299, 404]
      redirects: none
      max_response_bytes: 4096
"));
    let Target::Http(http) = &config.tasks[0].target else { panic!("a request") };
    assert_eq!(http.urls[1], "https://b/");
    assert_eq!(http.headers["X-Number"], "12");
    assert_eq!(http.success_when, ["200-299", "404"]);
    assert_eq!(http.redirects, Some(crate::domain::definition::Redirects::None));
    assert_eq!((http.max_response_bytes, http.read_timeout), (Some(4096), Some(std::time::Duration::from_secs(3))));
    assert_eq!(validate(&config), []);
}

#[test]
fn everything_that_is_wrong_with_a_request_is_told_at_once() {
    let source = job("
  - name: ask
    http:
      method: post
      urls: [a.example, \"http://me:pw@b/\", \"http://c/{{ params.dya }}\"]
      header: {}
      headers: {Host: x, Baton-Job-Id: y, X-A: \"1\", x-a: \"2\", Y: \"a\\nb\"}
      read_timeout: 0s
      success_when: [200-299, 2xx]
      redirects: same
      max_response_bytes: 1GiB
    env: {A: b}
    working_dir: w
  - name: get
    http: {method: GET, urls: [], body: x}
");
    assert_eq!(
        problems(&source),
        [
            "6:15 method: \"post\" is unknown | did you mean \"POST\"?",
            "7:14 \"a.example\" is no url that begins with http:// or https://",
            "7:25 a url holds no user and password; send them in headers.Authorization",
            "7:57 the job has no param \"dya\" | did you mean \"day\"?",
            "8:7 unknown key \"header\" | did you mean \"headers\"?",
            "9:17 the header \"Host\" is written by the runner",
            "9:26 headers that begin with Baton- are set by Baton",
            "9:53 the header \"x-a\" stands here twice",
            "9:66 the value of a header holds no line breaks and no other control characters",
            "10:21 a timeout of nothing would end everything at once | leave it out to wait for ever",
            "11:31 \"2xx\" is neither a status from 200 to 599 nor a range such as 200-299",
            "12:18 redirects: \"same\" is unknown | it is one of none, same_host, any",
            "13:27 max_response_bytes: \"1GiB\" is not a whole number from 1 to 67108864",
            "14:11 an http task has no environment | send values in http.headers or http.body",
            "15:18 an http task runs in no directory",
            "17:25 task \"get\" asks nowhere | set urls: [\"https://host/path\"]",
            "17:41 a GET request has no body | leave method out, or set it to POST, PUT or PATCH",
        ]
    );
}
