//! No text makes reading a job file panic, and every problem can be drawn.

use proptest::prelude::*;

use super::{read, render};

const GOOD: &str = "\
name: etl
labels: {team: data}
params: {day: \"{{ logical_time | date('%Y') }}\"}
timeout: 1h30m
task_defaults: {retry: {max_attempts: 3, delay: 30s}, env: &e {TZ: UTC}}
tasks:
  - name: first
    command: [echo, \"{{ params.day }}\"]
    env: *e
  - name: second
    needs: [first]
    when: int(tasks['first'].output.rows) > 0
    shell: |
      echo done
    shards: {count: 3}
---
name: other
tasks: [{name: t, shell: x}]
";

fn try_out(source: &str) {
    for problem in read(source, "default").err().unwrap_or_default() {
        let drawn = render(&problem, source, "job.yaml", true);
        assert!(drawn.ends_with('\n'));
    }
}

#[test]
fn the_good_file_is_good() {
    assert_eq!(read(GOOD, "default").map(|documents| documents.len()), Ok(2));
}

proptest! {
    #[test]
    fn any_text(source in "\\PC{0,200}") {
        try_out(&source);
    }

    #[test]
    fn any_words_of_yaml(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "name", "tasks", "env", "needs", "when", ":", ": ", "-", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}",
                ",", "'", "\"", "|", ">", "&a ", "*a", "!t ", "---", "...", "#", "?", "%", "x", "{{ params.x }}", "é", "\t",
                "<<", "null", "~", "\r\n",
            ]),
            0..40,
        ),
    ) {
        try_out(&words.concat());
    }

    #[test]
    fn a_good_file_with_something_wrong(place in 0..GOOD.len(), len in 0..12_usize, instead in "[\\PC\n]{0,6}") {
        let end = (place + len).min(GOOD.len());
        try_out(&format!("{}{instead}{}", &GOOD[..place], &GOOD[end..]));
    }
}
