//! Templates: what they give, what they refuse, and their bounds.

use chrono::DateTime;
use proptest::prelude::*;
use serde_json::json;

use super::{names::*, render::environment, *};
use crate::domain::reference::{CallbackView, Name, Scope, ShardView, TaskView};

fn scope() -> Scope {
    let output = json!({"db": "orders.db", "rows": 12, "files": ["a b", "it's"], "ok": true, "none": null});
    Scope {
        params: [("day".to_owned(), "2026-12-01".to_owned())].into(),
        tasks: [("extract-orders".to_owned(), TaskView { state: "FINISHED".to_owned(), output })].into(),
        shard: Some(ShardView { index: 3, count: 16, item: Some("x/y".to_owned()) }),
        callback: Some(CallbackView { token: "t0".to_owned(), url: "http://b/t0".to_owned() }),
        job_id: "0191".to_owned(),
        job_name: "etl".to_owned(),
        logical_time: DateTime::parse_from_rfc3339("2026-12-01T02:30:00+08:00").expect("a time"),
        event: serde_json::Value::Null,
    }
}

fn render(text: &str) -> Result<String, String> {
    Renderer::new(&scope()).render("env.X", text)
}

#[test]
fn values_stand_where_they_are_named() {
    for (text, value) in [
        ("{{ params.day }}", "2026-12-01"),
        ("{{ tasks['extract-orders'].output.db }}", "orders.db"),
        ("{{ tasks['extract-orders'].output.rows }} rows", "12 rows"),
        ("{{ tasks['extract-orders'].output.files }}", r#"["a b","it's"]"#),
        ("{{ tasks['extract-orders'].output.ok }}", "true"),
        ("{{ tasks['extract-orders'].state }}", "FINISHED"),
        ("{{ shard.index }}/{{ shard.count }} {{ shard.item }}", "3/16 x/y"),
        ("{{ job.name }}-{{ job.id }}", "etl-0191"),
        ("{{ logical_time }}", "2026-12-01T02:30:00+08:00"),
        ("{{ logical_time | date('%Y-%m-%d %H') }}", "2026-12-01 02"),
        ("{% for f in tasks['extract-orders'].output.files %}[{{ f }}]{% endfor %}", "[a b][it's]"),
        ("{{ params.day | replace('-', '') }}\n", "20261201\n"),
        ("{% if shard.index > 2 %}late{% endif %}", "late"),
        ("{{ callback.url }} {{ callback.token }}", "http://b/t0 t0"),
        ("{{ 'a b/ü&c=~1.-_' | urlencode }}", "a%20b%2F%C3%BC%26c%3D~1.-_"),
        ("{{ tasks['extract-orders'].output.files | urlencode }}", "%5B%22a%20b%22%2C%22it%27s%22%5D"),
        ("no marks { } $x {", "no marks { } $x {"),
    ] {
        assert_eq!(check(text).map(|_| ()), Ok(()), "{text}");
        assert_eq!(render(text), Ok(value.to_owned()), "{text}");
    }
}

#[test]
fn a_value_arrives_byte_for_byte_and_is_never_a_template_itself() {
    for value in ["it's \"2026-05-06\"; id", "{{ params.x }} {% if %}", "a\nb\r\n\t", "数据 \u{202e}<&>", " ", ""] {
        let mut scope = scope();
        scope.params.insert("x".to_owned(), value.to_owned());
        assert_eq!(Renderer::new(&scope).render("env.X", "{{ params.x }}"), Ok(value.to_owned()));
    }
    let mut scope = scope();
    let large = "\u{e9}".repeat(32 << 10);
    scope.params.insert("x".to_owned(), large.clone());
    assert_eq!(Renderer::new(&scope).render("env.X", "{{ params.x }}"), Ok(large));
}

#[test]
fn what_is_not_there_is_a_reason_not_an_empty_text() {
    for (text, reason) in [
        ("{{ tasks['extract-orders'].output.nope }}", "env.X: `tasks['extract-orders'].output.nope` has no value"),
        ("{{ params.nope }}", "env.X: `params.nope` has no value"),
    ] {
        assert_eq!(render(text), Err(reason.to_owned()), "{text}");
    }
    let reason = render("{{ logical_time | date('%Q') }}").expect_err("no such form");
    assert!(reason.contains("is no form of a date"), "{reason}");
    let reason = render("{{ params.day | date('%Y') }}").expect_err("no time");
    assert!(reason.contains("is no time such as"), "{reason}");
}

#[test]
fn a_template_comes_to_an_end() {
    assert!(render("{% for a in range(99999) %}{{ a }}{{ a }}{{ a }}{% endfor %}").is_err());
    let mut scope = scope();
    scope.params.insert("big".to_owned(), "x".repeat(64 << 10));
    let long = Renderer::new(&scope).render("env.X", "{% for a in range(999) %}{{ params.big }}{% endfor %}");
    assert_eq!(long, Err(format!("env.X: comes to more than {RENDERED_MAX} bytes")));
}

#[test]
fn a_text_that_no_process_can_be_given_is_refused() {
    let mut scope = scope();
    let output = json!({"x": "a\u{0}b"});
    scope.tasks.insert("a".to_owned(), TaskView { state: "FINISHED".to_owned(), output });
    let refused = Renderer::new(&scope).render("env.X", "{{ tasks.a.output.x }}").expect_err("a NUL");
    assert!(refused.contains("U+0000"), "{refused}");
}

#[test]
fn every_name_is_told_with_its_place() {
    let text = "{{ params.day }} {% for f in tasks['a-b'].output.files %}{{ f }}{{ loop.index }}{% endfor %}{{ nope }}";
    let references = check(text).expect("sense");
    let told: Vec<(Name, &str)> = references.into_iter().map(|found| (found.name, &text[found.at])).collect();
    assert_eq!(
        told,
        [
            (Name::Param("day".to_owned()), "params.day"),
            (Name::Output("a-b".to_owned()), "tasks['a-b'].output.files"),
            (Name::Unknown("nope".to_owned()), "nope"),
        ]
    );
    assert_eq!(tasks_named(text).into_iter().collect::<Vec<_>>(), ["a-b"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (text, at, message, suggestion) in [
        (
            "x {{ tasks.my-task.output.db }}",
            "tasks.my-task.output.db",
            "a name with a hyphen cannot follow a dot",
            Some("write tasks['my-task'].output.db"),
        ),
        (
            "{{ tasks[params.x].output }}",
            "tasks[params.x].output",
            "a task is named in quotes, so that it is known before it runs",
            Some("write tasks['NAME']"),
        ),
        (
            "{{ tasks.a.result }}",
            "tasks.a.result",
            "a task has a .state and an .output",
            Some("write tasks['a'].output.KEY"),
        ),
        ("{{ shard.indx }}", "shard.indx", "shard has no \"indx\"", Some("did you mean shard.index?")),
        ("{{ params.x | uper }}", "uper", "there is no filter \"uper\"", Some("did you mean \"upper\"?")),
        ("{{ now() }}", "now()", "there is no function \"now\"", None),
    ] {
        let faults = check(text).expect_err(text);
        let fault = &faults[0];
        let told = (&text[fault.at.clone()], fault.message.as_str(), fault.suggestion.as_deref());
        assert_eq!(told, (at, message, suggestion), "{text}");
    }
    for text in ["{{ }}", "{{ a", "{% if %}", "{% nope %}", "{% include 'x' %}", "{{ 'x }}"] {
        let faults = check(text).expect_err(text);
        assert!(faults[0].message.starts_with("the template does not parse"), "{text}: {faults:?}");
    }
}

#[test]
fn every_listed_filter_and_test_exists() {
    for filter in FILTERS {
        assert!(check(&format!("{{{{ 1 | {filter} }}}}")).is_ok(), "{filter}");
        let error = environment().render_str(&format!("{{{{ 'a' | {filter} }}}}"), ()).err();
        assert_ne!(error.map(|error| error.kind()), Some(minijinja::ErrorKind::UnknownFilter), "{filter}");
    }
    for test in TESTS.iter().filter(|test| test.chars().all(char::is_alphabetic) && **test != "in") {
        let error = environment().render_str(&format!("{{{{ 1 is {test} }}}}"), ()).err();
        assert_ne!(error.map(|error| error.kind()), Some(minijinja::ErrorKind::UnknownTest), "{test}");
    }
}

#[test]
fn a_template_is_bounded_before_it_is_read() {
    let long = [
        format!("{{{{ 1{} }}}}", " + 1".repeat(3_900)),
        format!("{{{{ {}1{} }}}}", "(".repeat(7_000), ")".repeat(7_000)),
        format!("{{{{ {} 1 }}}}", "not ".repeat(3_900)),
        format!("{}{}", "{% if 1 %}".repeat(700), "{% endif %}".repeat(700)),
    ];
    for text in long {
        assert!(check(&text).expect_err("too long")[0].message.contains("500 words"));
        assert!(render(&text).is_err());
    }
    let just_so = [
        format!("{{{{ 1{} }}}}", " + 1".repeat(245)),
        format!("{{{{ params.day{} }}}}", " ~ params.day".repeat(120)),
        format!("{{{{ {}1{} }}}}", "(".repeat(245), ")".repeat(245)),
        format!("{{{{ {} 1 }}}}", "not ".repeat(490)),
        format!("{{{{ params.day{} }}}}", " | upper".repeat(240)),
        format!("{{{{ params{} }}}}", ".day".repeat(240)),
        format!("{}{}", "{% if 1 %}".repeat(70), "{% endif %}".repeat(70)),
        format!("{{{{ {}1{} }}}}", "[".repeat(245), "]".repeat(245)),
    ];
    for text in just_so {
        let _ = check(&text);
        let _ = render(&text);
    }
}

#[test]
fn no_filter_takes_much_memory() {
    for text in [
        "{{ range(99999999) | list }}",
        "{{ '%099999999d' | format(1) }}",
        "{{ 'a\\nb' | indent(99999999) }}",
        "{{ [1, 2] | tojson(indent=99999999) }}",
        "{{ 2 ** 99999 }}",
        "{{ [1, 2] | batch(99999999, 0) }}",
        "{{ [1, 2] | slice(99999999) }}",
        "{{ range(99999) | map('string') | join('-----------------------') }}",
    ] {
        assert_eq!(check(text), Ok(Vec::new()));
        assert!(render(text).is_err(), "{text}");
    }
}

#[test]
fn what_the_engine_does_not_count_is_refused() {
    for (text, at) in [
        ("{{ 'x' * 99999999 }}", "'x' * 99999999"),
        ("{{ [1] * 99999999 ~ '' }}", "[1] * 99999999"),
        ("{{ params.x * shard.index }}", "params.x * shard.index"),
        ("{{ [1] + [1] }}", "[1] + [1]"),
        ("{% set a = [1, 1] %}", "set a = [1, 1]"),
        ("{% with a = [1, 1] %}{% endwith %}", "with a = [1, 1] %}{% endwith"),
        ("{% for a in [1] %}{% for b in [a, a] %}{% endfor %}{% endfor %}", "for b in [a, a] %}{% endfor"),
    ] {
        let faults = check(text).expect_err(text);
        assert_eq!(&text[faults[0].at.clone()], at, "{faults:?}");
    }
    for (text, value) in [
        ("{{ shard.index * 100 + 1 }}", "301"),
        ("{{ (params.day | length) * 2 }}", "20"),
        ("{{ tasks['extract-orders'].output.rows + 1 }}", "13"),
        ("{{ 'a' ~ 1 ~ params.day }}", "a12026-12-01"),
    ] {
        assert_eq!(check(text).map(|_| ()), Ok(()), "{text}");
        assert_eq!(render(text), Ok(value.to_owned()), "{text}");
    }
}

#[test]
fn items_are_a_json_list_or_lines() {
    assert_eq!(items(r#"["a", 1, {"x": 2}]"#), Ok(vec!["a".to_owned(), "1".to_owned(), r#"{"x":2}"#.to_owned()]));
    assert_eq!(items("a\n b \n\n"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(items("[]"), Ok(vec![]));
    assert_eq!(items(""), Ok(vec![]));
    assert!(items("[1, ").is_err());
}

proptest! {
    #[test]
    fn no_text_makes_a_template_panic(text in "(\\{\\{|\\}\\}|\\{%|%\\}|[a-z.'|( )\\[\\]0-9+é-]){0,40}") {
        let _ = check(&text);
        let _ = render(&text);
    }
}
