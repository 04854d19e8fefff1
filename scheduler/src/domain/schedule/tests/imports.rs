//! Crontabs, and what of them cannot be carried.

use std::time::Duration;

use crate::domain::schedule::crontab::{Kind, LINES_MAX, parse};

#[test]
fn a_crontab_is_carried_with_its_comments_and_variables() {
    let text = r#"
PATH=/usr/local/bin:/usr/bin
MAILTO=""
GREETING = "hello world"

# Backs up the database
# every night.
30 2 * * 1-5 /usr/local/bin/backup.sh --full
CRON_TZ=Asia/Shanghai
RANDOM_DELAY=5
@daily cd /srv && ./backup.sh >/dev/null 2>&1
*/5 * * * * date +\%Y-\%m-\%d
"#;
    let found = parse(text, Kind::User, "Europe/Berlin").unwrap();
    assert_eq!(found.lost, []);
    let [first, second, third] = &found.entries[..] else { panic!("{:?}", found.entries) };
    assert_eq!((first.line, first.name.as_str()), (8, "backup"));
    assert_eq!(first.comment, "Backs up the database\nevery night.");
    assert_eq!((first.expression.text(), first.time_zone.as_str()), ("30 2 * * 1-5", "Europe/Berlin"));
    assert_eq!(first.command, "/usr/local/bin/backup.sh --full");
    assert_eq!(first.env["GREETING"], "hello world");
    assert_eq!((second.name.as_str(), second.time_zone.as_str()), ("cd", "Asia/Shanghai"));
    assert_eq!((second.comment.as_str(), second.jitter), ("", Duration::from_mins(5)));
    assert_eq!(third.command, "date +%Y-%m-%d");
}

#[test]
fn what_cannot_be_carried_is_listed_with_its_reason() {
    let text = "MAILTO=ops@example.com\n\
        @reboot /usr/bin/start\n\
        0 9 * * 1 mail -s report%Dear all,%here it is\n\
        61 * * * * broken\n\
        0 0 30 2 * never\n\
        SHELL=/bin/bash\n\
        CRON_TZ=Mars/Base\n\
        0 0 * *\n\
        5 4 * * * fine\n";
    let found = parse(text, Kind::User, "").unwrap();
    assert_eq!(found.entries.len(), 1);
    let lost: Vec<_> = found.lost.iter().map(|lost| (lost.line, lost.why.as_str())).collect();
    for ((line, why), (expected, word)) in lost.iter().zip([
        (1, "callbacks"),
        (2, "an event"),
        (3, "here-document"),
        (4, "0 to 59"),
        (5, "never fires"),
        (6, "/bin/bash"),
        (7, "Mars/Base"),
        (8, "five fields"),
    ]) {
        assert_eq!(*line, expected);
        assert!(why.contains(word), "{why}");
    }
    assert_eq!(lost.len(), 8);
}

#[test]
fn the_crontab_of_the_system_names_users() {
    let text = "17 * * * * root run-parts /etc/cron.hourly\n0 1 * * * backup /usr/bin/dump\n";
    let found = parse(text, Kind::System, "").unwrap();
    assert_eq!(found.entries[0].command, "run-parts /etc/cron.hourly");
    assert!(found.lost[0].why.contains("runs as backup"));
}

#[test]
fn names_are_unique() {
    let text = "0 1 * * * run.sh a\n0 2 * * * run.sh b\n0 3 * * * run-2\n0 4 * * * A=1 ./run\n0 5 * * * $(x)\n";
    let found = parse(text, Kind::User, "").unwrap();
    let names: Vec<_> = found.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["run", "run-2", "run-2-2", "run-3", "x"]);
}

#[test]
fn a_crontab_has_bounds_and_no_text_is_a_panic() {
    assert!(parse(&"\n".repeat(LINES_MAX + 1), Kind::User, "").is_err());
    for text in ["", "\u{0}", "=", "A=", "=B", "-", "@", "* * * * *", "* * * * * %", "每 天 九 点 钟 跑", "@daily"]
    {
        for kind in [Kind::User, Kind::System] {
            let _ = parse(text, kind, "").unwrap();
        }
    }
}

#[test]
fn which_kind_of_crontab_it_is_is_told_from_where_it_lies_and_what_it_holds() {
    use crate::domain::schedule::crontab::guess;
    let debian = "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/bin\n\n17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n\
        25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }\n#\n";
    assert_eq!(guess("/etc/crontab", "0 1 * * * echo hello\n"), Kind::System);
    assert_eq!(guess("/etc/cron.d/php", ""), Kind::System);
    assert_eq!(guess("-", debian), Kind::System);
    assert_eq!(guess("-", "0 1 * * * /usr/bin/backup\n"), Kind::User);
    assert_eq!(guess("-", "0 1 * * * root\n@daily /bin/x y\n"), Kind::User);
    assert_eq!(guess("crontab", ""), Kind::User);
}
