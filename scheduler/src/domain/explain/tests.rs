//! Explanations as tables: what is known, which check holds, what the sentence says and what would help.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::*;
use crate::domain::{
    definition::Concurrency,
    job::Places,
    placement::{Limit, Traits},
    runner::Signs,
    scheduler::SchedulerState,
    selector::Selector,
};

const NOW: Timestamp = Timestamp(1_000_000_000);

fn before(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 - seconds * 1_000_000)
}

fn config() -> TaskConfig {
    TaskConfig { name: "publish".into(), ..TaskConfig::default() }
}

fn facts(config: &TaskConfig, state: TaskState) -> Facts<'_> {
    Facts {
        now: NOW,
        timing: Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10)),
        job: JobOf { id: "7be0d21c", name: "orders", state: JobState::Running, stopping: false },
        task: Subject {
            kind: Kind::Task,
            shard_index: None,
            state,
            reason: "",
            skip_cause: None,
            attempt: 0,
            max_attempts: 1,
            earlier: &[],
            not_before: None,
            runner: None,
            since: Some(before(192)),
            started_at: None,
        },
        config,
        node: 4,
        parents: Vec::new(),
        owed: Vec::new(),
        condition: None,
        child: None,
        shards: None,
        queue: None,
        runners: Vec::new(),
    }
}

fn queued(config: &TaskConfig, labels: &[(&str, &str)]) -> Facts<'static> {
    let config = Box::leak(Box::new(config.clone()));
    let selector = Selector::new(pairs(labels));
    let class = Class { selector, ..Class::of("command") };
    let queue = Queue { class, ahead: 0, more_ahead: false, holders: KeyFacts::default() };
    Facts { queue: Some(queue), ..facts(config, TaskState::Queued) }
}

fn pairs(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn runner(id: &str, labels: &[(&str, &str)]) -> RunnerFacts {
    RunnerFacts {
        traits: Traits {
            id: id.into(),
            labels: pairs(labels),
            capabilities: vec!["command".into()],
            version: "0.9.0".into(),
        },
        slots: 2,
        slots_busy: 0,
        signs: Signs { has_session: true, draining: false, last_seen_at: before(1), hold_until: None },
        drained: false,
        drain_reason: String::new(),
        scheduler: Some(SchedulerFacts { id: Uuid::nil(), state: SchedulerState::Working }),
    }
}

fn parent(name: &str, state: TaskState) -> Parent<'_> {
    let skip_cause = (state == TaskState::Skipped).then_some(SkipCause::Condition);
    Parent { name, state, skip_cause, on_failure: OnFailure::Fail }
}

/// The check that holds, the sentence, and the first help.
fn answer(facts: &Facts<'_>) -> (&'static str, String, String) {
    let explanation = explain(facts);
    let holding: Vec<&str> =
        explanation.checks.iter().filter(|check| check.standing == Standing::Holds).map(|check| check.name).collect();
    assert!(holding.len() <= 1, "{holding:?} hold at once");
    let reached = explanation.checks.iter().skip_while(|check| check.standing != Standing::Holds).skip(1);
    for check in reached {
        assert_eq!(check.standing, Standing::NotReached, "{} stands behind what holds", check.name);
    }
    let fix = explanation.fixes.first().cloned().unwrap_or_default();
    (holding.first().copied().unwrap_or_default(), explanation.summary, fix)
}

fn assert_answer(facts: &Facts<'_>, check: &str, summary: &str, fix: &str) {
    let (holds, said, first) = answer(facts);
    assert_eq!((holds, said.as_str(), first.as_str()), (check, summary, fix));
}

#[test]
fn a_waiting_gate_names_whom_it_waits_for() {
    let config = config();
    let parents = vec![parent("a", TaskState::Finished), parent("join", TaskState::Running)];
    let facts = Facts { parents, ..facts(&config, TaskState::Created) };
    let summary = "publish is CREATED for 3m12s: it waits for join";
    assert_answer(&facts, "parents", summary, "baton explain 7be0d21c/join");
}

#[test]
fn a_closed_gate_names_what_closed_it() {
    let config = config();
    let parents = vec![parent("a", TaskState::Finished), parent("join", TaskState::Failed)];
    let facts = Facts { parents, ..facts(&config, TaskState::Skipped) };
    let summary = "publish is SKIPPED: all_success cannot hold: \"join\" failed";
    assert_answer(&facts, "parents", summary, "baton explain 7be0d21c/join");
}

#[test]
fn an_ignored_failure_closes_nothing_here_either() {
    let config = config();
    let ignored = Parent { on_failure: OnFailure::Ignore, ..parent("join", TaskState::Failed) };
    let facts = Facts { parents: vec![ignored], ..facts(&config, TaskState::Created) };
    assert_eq!(facts.gate(), Gate::Open);
}

#[test]
fn a_stopped_job_explains_what_it_skipped_but_not_what_cleans_up() {
    let plain = config();
    let mut skipped = facts(&plain, TaskState::Skipped);
    skipped.job.stopping = true;
    assert_answer(&skipped, "job", "publish is SKIPPED: its job stopped", "baton explain 7be0d21c");

    let tidy = TaskConfig { trigger_rule: Some(TriggerRule::AllDone), ..config() };
    let mut waiting = facts(&tidy, TaskState::Created);
    waiting.job.stopping = true;
    waiting.parents = vec![parent("join", TaskState::Running)];
    assert_eq!(answer(&waiting).0, "parents");
}

#[test]
fn disabled_and_false_conditions_say_where_they_are_written() {
    let disabled = TaskConfig { enabled: Some(false), ..config() };
    let fix = "remove tasks[4].enabled and apply; jobs that exist stay on their version";
    assert_answer(&facts(&disabled, TaskState::Skipped), "enabled", "publish is SKIPPED: it is disabled", fix);

    let when = TaskConfig { when: "params.day == 'monday'".into(), ..config() };
    let condition = Condition { outcome: Ok(false), values: vec!["params.day = \"sunday\"".into()] };
    let facts = Facts { condition: Some(condition), ..facts(&when, TaskState::Skipped) };
    let summary = "publish is SKIPPED: its condition params.day == 'monday' is false";
    assert_answer(&facts, "when", summary, "change tasks[4].when, or what it reads");
    let check = explain(&facts).checks.into_iter().find(|check| check.name == "when").unwrap();
    assert_eq!(check.detail, "params.day == 'monday' is false, with params.day = \"sunday\"");
}

#[test]
fn a_condition_that_cannot_be_decided_is_why_its_task_failed() {
    let when = TaskConfig { when: "int(params.n) > 0".into(), ..config() };
    let condition = Condition { outcome: Err("when: int(\"x\") is no number".into()), values: Vec::new() };
    let facts = Facts { condition: Some(condition), ..facts(&when, TaskState::Failed) };
    let (check, summary, _) = answer(&facts);
    assert_eq!(check, "when");
    assert!(summary.contains("cannot be decided"), "{summary}");
}

#[test]
fn a_shard_beyond_max_parallel_says_so() {
    let config = config();
    let shards = ShardsOf { count: 10, live: 2, waiting: 6, before: 1, max_parallel: 2, ..ShardsOf::default() };
    let mut facts = Facts { shards: Some(shards), ..facts(&config, TaskState::Created) };
    facts.task.kind = Kind::Shard;
    facts.task.shard_index = Some(5);
    let summary = "publish#5 is CREATED for 3m12s: only 2 shards may run at once";
    assert_answer(&facts, "max_parallel", summary, "nothing: it starts when 2 more shards ended");
}

#[test]
fn a_retry_that_waits_says_how_long() {
    let mut facts = queued(&config(), &[]);
    facts.task.attempt = 2;
    facts.task.max_attempts = 3;
    facts.task.reason = "attempt 1: exit code 3";
    facts.task.since = Some(NOW + Duration::from_secs(75));
    facts.task.not_before = facts.task.since;
    let (check, summary, fix) = answer(&facts);
    assert_eq!((check, fix.as_str()), ("retry delay", "nothing: attempt 2 of 3 may start in 1m15s"));
    assert!(summary.ends_with("waits for its retry delay, 1m15s more (attempt 1: exit code 3)"), "{summary}");
}

/// One row a reason to wait for a runner: who is there, which check holds, how the sentence ends, the first help.
#[test]
fn what_keeps_a_queued_task_from_a_runner_is_found_in_order() {
    let etl = [("pool", "etl")];
    let drained = |mut runner: RunnerFacts| {
        runner.drained = true;
        runner.signs.draining = true;
        runner.drain_reason = "new disk".into();
        runner
    };
    let with = |mut runner: RunnerFacts, change: fn(&mut RunnerFacts)| {
        change(&mut runner);
        runner
    };
    let offline = |runner: &mut RunnerFacts| runner.signs.has_session = false;
    let silent = |runner: &mut RunnerFacts| runner.signs.last_seen_at = before(40);
    let unable = |runner: &mut RunnerFacts| runner.traits.capabilities.clear();
    let full = |runner: &mut RunnerFacts| runner.slots_busy = 2;
    let at_rest = |runner: &mut RunnerFacts| {
        runner.scheduler = Some(SchedulerFacts { id: Uuid::nil(), state: SchedulerState::Drained });
    };
    let table: [(Vec<RunnerFacts>, &str, &str, &str); 9] = [
        (vec![], "capability", "there is no runner", "baton-runner --scheduler ADDRESS starts one"),
        (
            vec![with(runner("a", &etl), unable)],
            "capability",
            "no runner can run \"command\" targets",
            "start a runner that can, or a newer one",
        ),
        (
            vec![runner("a", &[("pool", "web")]), runner("b", &[])],
            "labels",
            "no runner has pool=etl",
            "start a runner with  baton-runner --label pool=etl",
        ),
        (
            vec![drained(runner("a", &etl)), runner("b", &[])],
            "runners",
            "no runner that may take it takes new work: a is drained for: new disk",
            "baton resume a",
        ),
        (
            vec![with(runner("a", &etl), silent)],
            "runners",
            "no runner that may take it takes new work: a is silent for 40s",
            "look at the machine of runner a",
        ),
        (
            vec![with(runner("a", &etl), offline)],
            "runners",
            "no runner that may take it takes new work: a is offline",
            "start runner a again",
        ),
        (
            vec![with(runner("a", &etl), at_rest)],
            "schedulers",
            "the scheduler of every runner that may take it is drained",
            "baton resume --scheduler 00000000-0000-0000-0000-000000000000",
        ),
        (
            vec![with(runner("a", &etl), full), with(runner("b", &etl), offline), runner("c", &[])],
            "slots",
            "every slot of the runners that may take it is busy (a)",
            "nothing: it starts when a slot becomes idle",
        ),
        (
            vec![with(runner("a", &etl), full), runner("b", &etl)],
            "dispatch",
            "a slot is idle and it is about to be given out",
            "nothing: look again in a moment",
        ),
    ];
    for (runners, check, because, fix) in table {
        let facts = Facts { runners, ..queued(&config(), &etl) };
        assert_answer(&facts, check, &format!("publish is QUEUED for 3m12s: {because}"), fix);
    }
}

#[test]
fn a_pinned_shard_waits_for_its_one_runner() {
    let mut facts = queued(&config(), &[]);
    facts.runners = vec![runner("a", &[])];
    facts.queue.as_mut().unwrap().class.pin = Some("b".into());
    let (check, summary, fix) = answer(&facts);
    assert_eq!((check, fix.as_str()), ("pin", "start runner b again: baton-runner --id b"));
    assert!(summary.ends_with("only runner b may take it, and it is not there"), "{summary}");
}

#[test]
fn the_labels_that_lack_are_told_runner_by_runner() {
    let facts = Facts { runners: vec![runner("a", &[("pool", "web")])], ..queued(&config(), &[("pool", "etl")]) };
    let check = explain(&facts).checks.into_iter().find(|check| check.name == "labels").unwrap();
    assert_eq!(check.detail, "needs pool=etl; none of 1 runner has it (a: it lacks pool=etl (it has pool=web))");
}

#[test]
fn a_failure_leads_to_its_log_and_a_template_that_fails_does_not() {
    let config = config();
    let mut failed = facts(&config, TaskState::Failed);
    failed.task.reason = "exit code 3";
    failed.task.attempt = 3;
    failed.task.max_attempts = 3;
    let summary = "publish is FAILED: exit code 3 (attempt 3 of 3)";
    assert_answer(&failed, "work", summary, "baton logs 7be0d21c/publish");
    failed.task.attempt = 0;
    failed.task.reason = "command[1]: params.day is unknown";
    assert!(answer(&failed).2.starts_with("change tasks[4]"));
}

#[test]
fn a_task_that_is_being_ended_waits_for_its_runner_or_for_its_loss() {
    let config = config();
    let mut facts = facts(&config, TaskState::Terminating);
    facts.task.since = None;
    facts.task.runner = Some("a");
    facts.task.attempt = 1;
    facts.task.reason = "terminated on request";
    facts.runners = vec![runner("a", &[])];
    let (check, summary, _) = answer(&facts);
    assert_eq!((check, summary.as_str()), ("work", "publish is TERMINATING: runner a is ending its processes"));
    facts.runners[0].signs.last_seen_at = before(40);
    let (_, summary, fix) = answer(&facts);
    assert_eq!(summary, "publish is TERMINATING: runner a is silent for 40s (terminated on request)");
    assert_eq!(fix, "nothing: it counts as ended once its runner is lost, in 20s");
}

#[test]
fn what_runs_or_is_done_is_held_by_nothing() {
    let config = TaskConfig { timeout: Some(Duration::from_mins(10)), ..config() };
    let mut running = facts(&config, TaskState::Running);
    running.task.attempt = 1;
    running.task.runner = Some("a");
    running.task.started_at = running.task.since;
    let summary = "publish is RUNNING for 3m12s on a, times out in 6m48s";
    assert_answer(&running, "", summary, "baton logs 7be0d21c/publish -f");
    let mut finished = running;
    finished.task.state = TaskState::Finished;
    finished.task.since = Some(NOW);
    assert_answer(&finished, "", "publish is FINISHED: it took 3m12s", "baton logs 7be0d21c/publish");
}

#[test]
fn a_job_leads_to_the_tasks_that_everything_waits_for() {
    let facts = JobFacts {
        now: NOW,
        id: "7be0d21c",
        name: "orders",
        state: JobState::Running,
        reason: "",
        waits: None,
        stopping: false,
        since: Some(before(60)),
        deadline: None,
        tasks_total: 4,
        states: BTreeMap::from([(TaskState::Created, 2), (TaskState::Running, 1), (TaskState::Finished, 1)]),
        tasks_failed: 0,
        ahead: vec!["join"],
        failed: vec![],
    };
    let explanation = explain_job(&facts);
    assert_eq!(explanation.summary, "orders is RUNNING for 1m00s: 1 of 4 tasks ended, 1 with runners, 0 queued");
    assert_eq!(explanation.fixes, ["baton explain 7be0d21c/join"]);
}

#[test]
fn a_task_that_was_transferred_says_whose_turn_it_is() {
    let asks = |there: &[&str]| {
        let mut facts = queued(&config(), &[]);
        facts.runners = there.iter().map(|id| runner(id, &[])).collect();
        let class = Class { stay: Some("b".to_owned()), ..Class::of("command").without("a") };
        facts.queue.as_mut().expect("it is queued").class = class;
        explain(&facts).checks.into_iter().find(|check| check.name == "turn").expect("it is asked")
    };
    let there = asks(&["a", "b"]);
    assert_eq!(
        (there.standing, there.detail.as_str()),
        (Standing::Passed, "its retries stay on b: 1 of 1 runner suit")
    );
    let away = asks(&["a", "c"]);
    assert_eq!(away.standing, Standing::Holds);
    assert_eq!(away.detail, "its retries stay on b: none of 1 runner suits (c: its retries stay on b)");
}

/// One row a demand: what the class asks for beside labels, which check holds, how the sentence ends, the first help.
#[test]
fn what_a_task_asks_of_a_runner_beside_labels_is_told_too() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let class = Class::of("command");
    let expression = crate::domain::placement::Expression {
        key: "zone".into(),
        operator: crate::domain::placement::Operator::In,
        values: set(&["c", "d"]),
    };
    for (class, check, because, fix) in [
        (
            Class { runners: set(&["x", "y"]), ..class.clone() },
            "named runners",
            "no runner suits: one of x, y",
            "start one of those runners",
        ),
        (
            Class { excluded: set(&["a", "b"]), ..class.clone() },
            "excluded runners",
            "no runner suits: not a, b",
            "start another runner",
        ),
        (
            class.clone().without("a").without("b"),
            "failed runners",
            "no runner suits: not a, b, where it failed",
            "start another runner",
        ),
        (
            Class { min_version: "1.0".parse().ok(), ..class.clone() },
            "version",
            "no runner suits: at least version 1.0.0",
            "start a newer runner",
        ),
        (
            Class { expressions: std::collections::BTreeSet::from([expression]), ..class.clone() },
            "expressions",
            "no runner suits: zone in (c, d)",
            "start a runner with such labels",
        ),
    ] {
        let mut facts = queued(&config(), &[]);
        facts.runners = vec![runner("a", &[("zone", "a")]), runner("b", &[])];
        facts.queue.as_mut().unwrap().class = class;
        assert_answer(&facts, check, &format!("publish is QUEUED for 3m12s: {because}"), fix);
        let found = explain(&facts).checks.into_iter().find(|found| found.name == check).unwrap();
        assert!(found.detail.contains("none of 2 runners suits (a: "), "{}", found.detail);
        // Whoever has it passes.
        let queue = facts.queue.as_mut().unwrap();
        queue.class.runners.insert("a".into());
        (queue.class.min_version, queue.class.excluded) = (None, set(&["b"]));
        (queue.class.spent, queue.class.expressions) = (set(&["b"]), std::collections::BTreeSet::default());
        assert_eq!(answer(&facts).0, "dispatch");
    }
}

#[test]
fn a_key_names_who_holds_it_and_whose_limit_counts() {
    let config = TaskConfig { concurrency: Some(Concurrency { key: "db".into(), limit: 3 }), ..config() };
    let mut facts = queued(&config, &[]);
    facts.runners = vec![runner("a", &[])];
    let queue = facts.queue.as_mut().unwrap();
    queue.class.limit = Some(Limit::new("default", "db", 3));
    assert_eq!(answer(&facts).0, "dispatch");
    let holders = Holders { count: 1, lowest: Some(1) };
    facts.queue.as_mut().unwrap().holders = KeyFacts { holders, held_by: vec!["11111111/load".into()], first: None };
    let summary = "publish is QUEUED for 3m12s: the key default/db is held by as many as may: 11111111/load";
    assert_answer(&facts, "concurrency", summary, "nothing: it starts when one of them ends");
    let check = explain(&facts).checks.into_iter().find(|check| check.name == "concurrency").unwrap();
    assert_eq!(check.detail, "default/db: 1 of at most 1 hold it (11111111/load)");

    // There would be room for this one, but not for the one before it.
    let holders = Holders { count: 1, lowest: Some(3) };
    let first = Some(("22222222/vacuum".to_owned(), 1));
    facts.queue.as_mut().unwrap().holders = KeyFacts { holders, held_by: vec!["11111111/load".into()], first };
    let (check, summary, fix) = answer(&facts);
    assert_eq!((check, fix.as_str()), ("concurrency", "baton explain 22222222/vacuum"));
    assert!(summary.contains("22222222/vacuum waits before it for the key default/db"), "{summary}");
}

#[test]
fn a_queue_timeout_tells_how_long_there_is_left() {
    let config = TaskConfig { queue_timeout: Some(Duration::from_mins(5)), ..config() };
    let check = explain(&queued(&config, &[])).checks.into_iter().find(|check| check.name == "queue").unwrap();
    assert_eq!(check.detail, "first of those that ask for the same; fails in 1m48s unless a runner takes it");
}

#[test]
fn a_job_that_waits_for_a_place_names_who_has_them() {
    let waiting = |waits| JobFacts {
        now: NOW,
        id: "7be0d21c",
        name: "orders",
        state: JobState::Created,
        reason: "",
        waits: Some(waits),
        stopping: false,
        since: Some(before(60)),
        deadline: None,
        tasks_total: 4,
        states: BTreeMap::new(),
        tasks_failed: 0,
        ahead: vec![],
        failed: vec![],
    };
    let live = |id: &str| Before { id: id.to_owned(), outlived: false };
    let places = Places { max: Some(2), active: 2, held: 4 };
    let explanation =
        explain_job(&waiting(Waits::Place { places, before: 3, live: vec![live("11111111"), live("22222222")] }));
    let because = "at most 2 jobs of its config may run at once (11111111, 22222222)";
    assert_eq!(explanation.summary, format!("orders is CREATED for 1m00s: {because}"));
    assert_eq!(explanation.checks[0].detail, "2 of at most 2 run, 3 before it: 11111111, 22222222");
    assert_eq!(explanation.fixes[1], "baton explain 11111111");
    let explanation = explain_job(&waiting(Waits::Turn { live: vec![live("11111111")] }));
    assert_eq!(
        explanation.summary,
        "orders is CREATED for 1m00s: it waits until the jobs before it are over: 11111111"
    );
    assert_eq!(explanation.checks[1].standing, Standing::NotReached);

    let lost = Before { outlived: true, ..live("33333333") };
    let explanation = explain_job(&waiting(Waits::Turn { live: vec![lost] }));
    let because = "it waits until the jobs before it are over: 33333333 (over, but a lost attempt of it may go on)";
    assert_eq!(explanation.checks[0].detail, because);
    assert!(explanation.fixes[2].ends_with("baton mark 33333333/TASK gone"), "{:?}", explanation.fixes);
}

#[test]
fn what_became_of_each_attempt_is_told_the_last_ones_first_of_all() {
    let config = config();
    let attempt =
        |number| Earlier { number, runner: Some(format!("r{number}")), reason: format!("exit code {number}") };
    let earlier: Vec<Earlier> = (1..=5).map(attempt).collect();
    let mut facts = facts(&config, TaskState::Failed);
    facts.task.earlier = &earlier;
    facts.task.attempt = 6;
    facts.task.max_attempts = 0;
    facts.task.reason = "exit code 6; no runner is left to transfer to";
    let check = explain(&facts).checks.into_iter().find(|check| check.name == "attempts").unwrap();
    assert_eq!(check.detail, "2 more; 3 on r3: exit code 3; 4 on r4: exit code 4; 5 on r5: exit code 5");
    assert!(explain(&facts).summary.ends_with("no runner is left to transfer to (attempt 6)"));
}
