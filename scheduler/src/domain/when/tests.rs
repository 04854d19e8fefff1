//! Conditions: what they mean, what is refused, and their bounds.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::reference::TaskView;

fn scope() -> Scope {
    let output = json!({"rows": "12", "n": 12, "share": 0.5, "ok": true, "files": ["a", "b"], "deep": {"x": 1}});
    let tasks = [
        ("join".to_owned(), TaskView { state: "FINISHED".to_owned(), output }),
        ("extract-users".to_owned(), TaskView { state: "SKIPPED".to_owned(), output: Value::Null }),
    ];
    let params = [("mode".to_owned(), "full".to_owned())];
    Scope { params: params.into(), tasks: tasks.into(), ..Scope::default() }
}

fn holds(text: &str) -> Result<bool, String> {
    When::parse(text).map_err(|fault| format!("{} at {:?}", fault.message, fault.at))?.holds(&scope())
}

#[test]
fn conditions_mean_what_they_say() {
    for (text, truth) in [
        ("", true),
        ("true", true),
        ("not true", false),
        ("params.mode == 'full'", true),
        ("params['mode'] != \"full\"", false),
        ("int(tasks['join'].output.rows) > 0", true),
        ("int(tasks.join.output['rows']) > 12", false),
        ("tasks['join'].output.n == 12.0", true),
        ("tasks['join'].output.n >= -12", true),
        ("float('1e3') == 1000", true),
        ("tasks['join'].output.ok", true),
        ("tasks['join'].output.deep.x == 1", true),
        ("'a' in tasks['join'].output.files", true),
        ("'c' not in tasks['join'].output.files", true),
        ("'rows' in tasks['join'].output", true),
        ("params.mode in ['full', 'part']", true),
        ("'ul' in params.mode", true),
        ("tasks['extract-users'].state == 'SKIPPED'", true),
        ("tasks['extract-users'].output == null", true),
        // The right side is not looked at when the left one decides.
        ("tasks['extract-users'].state == 'FINISHED' and tasks['extract-users'].output.rows == '1'", false),
        ("true or tasks['extract-users'].output.rows == '1'", true),
        ("not false and false", false),
        ("false and false or true", true),
        ("false and (false or true)", false),
        ("'it\\'s' == \"it's\"", true),
        ("9007199254740993 == 9007199254740992", false),
    ] {
        assert_eq!(holds(text), Ok(truth), "{text}");
    }
}

#[test]
fn what_cannot_be_decided_says_why() {
    for (text, reason) in [
        ("tasks['join'].output.rows > 0", "a text \"12\" is compared with a number 0: use int() or float()"),
        ("params.mode", "params.mode is a text, where true or false is needed: compare it with something"),
        ("tasks['join'].output.nope == 1", "tasks['join'].output has no key \"nope\""),
        ("tasks['extract-users'].output.rows == '1'", "tasks['extract-users'].output is empty; the task is SKIPPED"),
        ("int('12a') == 1", "int(\"12a\") is not a whole number"),
        ("int(0.5) == 1", "int(0.5) is not a whole number"),
        ("float('nan') == 1", "float(\"nan\") is not a number"),
        ("1 in 'a'", "a number cannot be in a text"),
        ("true < false", "a truth is neither less nor greater than another"),
        ("not 1", "a part of the condition is a number, where true or false is needed: compare it with something"),
    ] {
        assert_eq!(holds(text), Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (text, message, at, suggestion) in [
        ("params.mode = 'x'", "\"=\" means nothing here", 12..13, Some("write \"==\"")),
        ("true && false", "\"&&\" means nothing here", 5..7, Some("write \"and\"")),
        ("mode == 'x'", "\"mode\" is unknown in a condition", 0..4, Some("a text stands in quotes: 'mode'")),
        ("param.mode == 'x'", "\"param\" is unknown in a condition", 0..5, Some("did you mean \"params\"?")),
        ("1 == 'x", "this text has no end", 5..7, Some("close it with '")),
        (
            "tasks.my-task.output.rows == '1'",
            "a name with a hyphen cannot follow a dot",
            0..25,
            Some("write tasks['my-task'].output.rows"),
        ),
        ("tasks['a'].result == 1", "a task has a .state and an .output", 0..17, Some("tasks['a'].output.KEY")),
        ("1 < 2 < 3", "comparisons cannot be chained", 6..7, Some("join two with \"and\"")),
        ("1 ==", "a value is missing here", 4..4, None),
        ("(1 == 1", "\")\" is missing here", 7..7, None),
        ("true true", "the condition should end here", 5..9, Some("join two with \"and\" or \"or\"")),
        ("99999999999999999999 == 1", "this number is too large", 0..20, None),
    ] {
        let fault = When::parse(text).expect_err(text);
        assert_eq!(
            (fault.message.as_str(), fault.at, fault.suggestion.as_deref()),
            (message, at, suggestion),
            "{text}"
        );
    }
}

#[test]
fn every_name_is_told() {
    let when = When::parse("params.a == 'x' and tasks['b'].state == 'DONE' or 'k' in tasks.c.output").expect("sense");
    let names: Vec<Name> = when.references().into_iter().map(|reference| reference.name).collect();
    assert_eq!(names, [Name::Param("a".to_owned()), Name::State("b".to_owned()), Name::Output("c".to_owned())]);
    assert_eq!(when.compared_states(), [("DONE".to_owned(), 40..46)]);
}

#[test]
fn a_condition_has_bounds() {
    assert!(When::parse(&" ".repeat(5_000)).is_err());
    assert!(When::parse(&"(".repeat(4_000)).expect_err("deep").message.contains("32 deep"));
    assert!(When::parse(&"not ".repeat(1_000)).expect_err("deep").message.contains("32 deep"));
    let many = vec!["1==1"; 300].join(" and ");
    assert!(When::parse(&many).expect_err("many").message.contains("256 parts"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,60}") {
        let _ = When::parse(&text).map(|when| when.holds(&scope()));
    }

    #[test]
    fn no_words_make_the_reader_panic(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "params.mode", "tasks", "['join']", ".output", ".n", ".state", "(", ")", "[", "]", ",", "-", "1", "2.5",
                "'x'", "==", "<", "in", "not", "and", "or", "int", "float", "true", "null", "é",
            ]),
            0..20,
        ),
    ) {
        let _ = When::parse(&words.join(" ")).map(|when| when.holds(&scope()));
    }
}
