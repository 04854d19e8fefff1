//! What is shown beforehand is what happens.

use std::{fmt::Write, time::Duration};

use super::{at, cron, schedule, walk};
use crate::domain::schedule::{
    After, Language, Next, RuleSpec, Spec,
    misfire::{Pace, Waiting},
};

#[test]
fn a_preview_shows_local_time_and_what_the_clock_does() {
    let daily = cron("30 2 * * *", "America/New_York");
    let preview = daily.preview(at("2025-03-08T00:00:00Z"), 3, Language::English).unwrap();
    assert_eq!(preview.description, "every day at 02:30");
    assert_eq!(preview.cron.as_deref(), Some("30 2 * * *"));
    let shown: Vec<_> = preview.fires.iter().map(|fire| (fire.utc.as_str(), fire.local.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("2025-03-08T07:30:00Z", "2025-03-08T02:30:00-05:00"),
            ("2025-03-09T07:00:00Z", "2025-03-09T03:00:00-04:00"),
            ("2025-03-10T06:30:00Z", "2025-03-10T02:30:00-04:00")
        ]
    );
    assert_eq!(preview.fires[0].note, "");
    assert_eq!(preview.fires[1].note, "02:30 does not exist (clocks go forward), moved to 03:00");
    let chinese = daily.preview(at("2025-03-09T00:00:00Z"), 1, Language::Chinese).unwrap();
    assert_eq!(chinese.fires[0].note, "02:30不存在（时钟拨快），移到03:00");
}

#[test]
fn the_long_night_is_noted() {
    let fixed = cron("30 1 * * *", "America/New_York");
    let note = |schedule: &crate::domain::schedule::Schedule, from: &str| {
        schedule.preview(at(from), 1, Language::English).unwrap().fires[0].note.clone()
    };
    assert!(note(&fixed, "2025-11-02T04:00:00Z").contains("fires the first time only"));
    let elapsed = cron("*/30 * * * *", "America/New_York");
    assert_eq!(note(&elapsed, "2025-11-02T05:29:00Z"), "");
    assert!(note(&elapsed, "2025-11-02T05:59:00Z").contains("for the second time"));
    assert!(note(&elapsed, "2025-03-09T06:59:00Z").contains("does not exist"));
}

#[test]
fn a_year_of_preview_is_a_year_of_firing() {
    for spec in [
        Spec::cron("30 2 * * *", "America/Santiago"),
        Spec::cron("0 */6 * * *", "Europe/Berlin"),
        Spec::text("last weekday of the month at 02:30", "Australia/Lord_Howe"),
    ] {
        let schedule = schedule(&spec);
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        // Firing as the scheduler does: decide what is due, wait for what comes next.
        let mut fired = Vec::new();
        let Next::At(mut waiting) = schedule.next(from).unwrap() else { panic!("it fires") };
        while waiting.time <= to {
            let decision = schedule
                .decide(Waiting { time: waiting.time, due_at: waiting.time }, waiting.time, Pace::Together)
                .unwrap();
            fired.extend(decision.run.iter().map(|due| due.time));
            let Next::At(next) = decision.next else { panic!("it goes on") };
            waiting = next;
        }
        assert_eq!(fired, walk(&schedule, from, to));
        let shown = schedule.preview(from, fired.len().min(1_000) as u32, Language::English).unwrap();
        assert_eq!(shown.fires.iter().map(|fire| fire.time).collect::<Vec<_>>(), fired[..fired.len().min(1_000)]);
    }
}

#[test]
fn a_preview_that_ends_says_why() {
    let preview = cron("0 0 0 1 1 ? 2026-2027", "").preview(at("2026-06-01T00:00:00Z"), 5, Language::English).unwrap();
    assert_eq!((preview.fires.len(), preview.end), (1, Some(Next::Over)));
}

#[test]
fn intervals_say_what_they_count_from() {
    let rate = schedule(&Spec::every(Duration::from_mins(90)));
    assert_eq!(rate.describe(Language::English), "every 1h 30m, counted from 2020-01-01T00:00:00+00:00");
    let delay: Spec = RuleSpec::Every { period: Duration::from_mins(10), after: After::Completion }.into();
    let delay = schedule(&delay);
    assert_eq!(delay.describe(Language::Chinese), "上一次运行结束后10m");
    assert_eq!(delay.preview(at("2026-06-01T00:00:00Z"), 5, Language::English).unwrap().fires.len(), 1);
}

const BEGIN: &str = "<!-- drawn by a test -->\n\n```text\n";
const END: &str = "\n```\n\n<!-- end -->";

/// Ten schedules around clock changes, as they are shown in the docs. Set `BATON_WRITE_DOCS` to write them anew.
#[test]
fn ten_previews_around_clock_changes_read_as_written_down() {
    let mut text = String::new();
    for (written, zone, from, count, language) in [
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 3, Language::English),
        ("0,30 2,3 * * *", "America/New_York", "2026-03-07T22:00:00Z", 4, Language::English),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 3, Language::English),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 5, Language::English),
        ("0 */15 * * * *", "Europe/London", "2026-03-29T00:40:00Z", 3, Language::English),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z", 3, Language::Chinese),
        ("0 0 * * *", "America/Santiago", "2026-09-05T00:00:00Z", 3, Language::Chinese),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3, Language::English),
        ("last day of the month at 03:30", "Europe/Kyiv", "2024-02-29T02:00:00Z", 3, Language::English),
        ("每个周末 01:30", "Europe/London", "2026-10-24T00:00:00Z", 3, Language::Chinese),
    ] {
        let is_text = !written.contains('*');
        let spec = if is_text { Spec::text(written, zone) } else { Spec::cron(written, zone) };
        let preview = schedule(&spec).preview(at(from), count, language).unwrap();
        let _ = write!(text, "{written}  ({zone})\n  means  {}\n", preview.description);
        if let Some(cron) = preview.cron.filter(|_| is_text) {
            let _ = writeln!(text, "  cron   {cron}");
        }
        for fire in preview.fires {
            text += format!("  {}  {}  {}", fire.utc, fire.local, fire.note).trim_end();
            text.push('\n');
        }
        text.push('\n');
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schedules.md");
    let docs = std::fs::read_to_string(file).unwrap();
    let (head, rest) = docs.split_once(BEGIN).expect("the docs have a place for the previews");
    let (_, tail) = rest.split_once(END).expect("that place ends");
    let drawn = format!("{head}{BEGIN}{}{END}{tail}", text.trim_end());
    if std::env::var_os("BATON_WRITE_DOCS").is_some() {
        std::fs::write(file, &drawn).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    assert!(written == drawn, "docs/schedules.md is out of date: run the test with BATON_WRITE_DOCS=1");
}
