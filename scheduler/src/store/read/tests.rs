//! Stories about questions, on both databases.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{ActiveModelTrait, Insert, IntoActiveModel as _, QueryTrait as _, Set};
use uuid::Uuid;

use super::{ConfigKey, Found, JobFilter, TaskFilter};
use crate::{
    domain::{
        definition::{JobConfig, Target, TaskConfig},
        job::JobState,
        task::TaskState,
        time::Timestamp,
    },
    store::{
        self, Store, Tx,
        entity::{job, runner, task},
        testing,
    },
};

const NOW: Timestamp = Timestamp(1_764_500_000_000_000);

fn labels(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("team".to_owned(), value.to_owned())])
}

fn definition(name: &str, team: &str) -> JobConfig {
    let target = Target::Command(vec!["true".to_owned()]);
    let task = |name: &str| TaskConfig { name: name.to_owned(), target: target.clone(), ..TaskConfig::default() };
    let (first, second) = (task("first"), TaskConfig { needs: vec!["first".to_owned()], ..task("second") });
    JobConfig {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        labels: labels(team),
        tasks: vec![first, second],
        ..JobConfig::default()
    }
}

async fn insert(tx: &Tx, row: impl ActiveModelTrait) {
    tx.execute(Insert::one(row).build(tx.backend())).await.unwrap();
}

/// Stores the first version of a config and says its id.
async fn config(tx: &Tx, name: &str, team: &str) -> Uuid {
    let key = ("default".to_owned(), name.to_owned());
    store::config::ensure(tx, &BTreeSet::from([key.clone()]), NOW).await.unwrap();
    let id = store::config::lock(tx, std::slice::from_ref(&key)).await.unwrap()[&key].id;
    store::config::insert_version(tx, id, 1, &definition(name, team), "", &[(0, 1)], NOW).await.unwrap();
    id
}

/// Stores a job of that config with a plain task and a group of three shards.
async fn job_of(tx: &Tx, config: Uuid, name: &str, state: JobState, created_at: i64) -> Uuid {
    let row = job::Model {
        id: Uuid::now_v7(),
        job_config_id: config,
        version: 1,
        namespace: "default".to_owned(),
        name: name.to_owned(),
        labels: serde_json::to_string(&labels("data")).unwrap(),
        state: state.word().to_owned(),
        reason: String::new(),
        trigger_kind: "MANUAL".to_owned(),
        schedule: None,
        fire_time: None,
        cause: None,
        parent_job_id: None,
        parent_task_id: None,
        parent_attempt: None,
        depth: 0,
        logical_at: None,
        logical_zone: None,
        rerun_no: 0,
        backfill_id: None,
        params: "{}".to_owned(),
        created_at,
        started_at: None,
        ended_at: None,
        deadline_at: None,
        warn_at: None,
        warned_at: None,
        waiting: false,
        held: false,
        runner: None,
        stopping: false,
        timed_out: false,
        expanded: 2,
        tasks_total: 2,
        tasks_ended: 0,
        tasks_failed: 0,
        seq: 4,
        removing: false,
        logs_removed: false,
    };
    let id = row.id;
    insert(tx, row.into_active_model().reset_all()).await;
    let group = Uuid::now_v7();
    let rows = [(0, "TASK", -1, "QUEUED", 2), (1, "GROUP", -1, "RUNNING", 3)]
        .into_iter()
        .chain([(0, "QUEUED"), (1, "CREATED"), (2, "CREATED")].map(|(shard, state)| (1, "SHARD", shard, state, 4)));
    for (node, kind, shard, state, seq) in rows {
        let task = task::ActiveModel {
            id: Set(if kind == "GROUP" { group } else { Uuid::now_v7() }),
            job_id: Set(id),
            task_config_id: Set(Uuid::nil()),
            node: Set(node),
            kind: Set(kind.to_owned()),
            group_id: Set((kind == "SHARD").then_some(group)),
            shard_index: Set(shard),
            shard_count: Set((node == 1).then_some(3)),
            state: Set(state.to_owned()),
            created_at: Set(created_at),
            seq: Set(seq),
            ..Default::default()
        };
        insert(tx, task).await;
    }
    id
}

async fn jobs(store: &Store, filter: &JobFilter) -> Vec<Uuid> {
    let (mut found, mut below) = (Vec::new(), None);
    loop {
        let page = store.jobs(filter, below, 1).await.unwrap();
        found.extend(page.rows.iter().map(|job| job.id));
        below = found.last().copied();
        if !page.more {
            return found;
        }
    }
}

#[tokio::test]
async fn configs_are_listed_by_name_and_found_by_whole_labels() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        for (name, team) in [("b", "data"), ("a", "data"), ("c", "dat")] {
            config(&tx, name, team).await;
        }
        tx.commit().await.unwrap();
        let page = store.configs(None, &labels("data"), None, 1).await.unwrap();
        assert_eq!((page.rows[0].name.as_str(), page.rows[0].task_count, page.more), ("a", 2, true));
        let after = ConfigKey { namespace: "default".to_owned(), name: "a".to_owned() };
        let page = store.configs(Some("default"), &labels("data"), Some(&after), 5).await.unwrap();
        assert_eq!((page.rows[0].name.as_str(), page.rows.len(), page.more), ("b", 1, false));
        let found = store.config("default", "b", None).await.unwrap().unwrap();
        assert_eq!(found.definition.config, definition("b", "data"));
        assert_eq!(store.config("default", "b", Some(2)).await.unwrap(), None);
        assert_eq!(store.config_names("default").await.unwrap(), ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn jobs_are_listed_newest_first_by_what_is_asked() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        let config = config(&tx, "etl", "data").await;
        let now = chrono::Utc::now().timestamp_micros();
        let old = job_of(&tx, config, "etl", JobState::Finished, now - 3_600_000_000).await;
        let failed = job_of(&tx, config, "etl", JobState::Failed, now).await;
        let live = job_of(&tx, config, "etl", JobState::Running, now).await;
        tx.commit().await.unwrap();
        assert_eq!(jobs(store, &JobFilter::default()).await, [live, failed, old]);
        let states = vec![JobState::Finished, JobState::Failed];
        assert_eq!(jobs(store, &JobFilter { states, ..JobFilter::default() }).await, [failed, old]);
        let since = Some(Timestamp(now - 60_000_000));
        assert_eq!(jobs(store, &JobFilter { since, ..JobFilter::default() }).await, [live, failed]);
        assert_eq!(jobs(store, &JobFilter { before: since, ..JobFilter::default() }).await, [old]);
        assert_eq!(
            jobs(store, &JobFilter { labels: labels("other"), ..JobFilter::default() }).await,
            <[Uuid; 0]>::default()
        );
        let name = Some("etl".to_owned());
        let namespace = Some("default".to_owned());
        assert_eq!(jobs(store, &JobFilter { namespace, name, ..JobFilter::default() }).await.len(), 3);
        assert_eq!(store.live_jobs_before(config, 2).await.unwrap(), 1);
        let versions = store.config_versions("default", "etl", None, 5).await.unwrap().unwrap();
        assert_eq!(versions.rows[0].job_count, 3);
    }
}

#[tokio::test]
async fn a_part_of_an_id_finds_the_one_job_it_fits_or_names_those_it_fits() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        let config = config(&tx, "etl", "data").await;
        let first = job_of(&tx, config, "etl", JobState::Running, NOW.0).await;
        let second = job_of(&tx, config, "etl", JobState::Running, NOW.0).await;
        tx.commit().await.unwrap();
        let digits = first.simple().to_string();
        for part in [first.to_string(), digits[24..].to_owned(), digits[20..].to_uppercase(), digits[..31].to_owned()] {
            assert_eq!(store.find_job(&part).await.unwrap(), Found::One(first), "{part}");
        }
        assert_eq!(store.find_job(&digits[..4]).await.unwrap(), Found::Several(vec![second, first]));
        assert_eq!(store.find_job("00000000").await.unwrap(), Found::None);
        assert_eq!(store.find_job("abc").await.unwrap(), Found::Malformed);
    }
}

#[tokio::test]
async fn tasks_come_in_the_order_of_the_definition_and_groups_carry_their_counts() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        let config = config(&tx, "etl", "data").await;
        let older = job_of(&tx, config, "etl", JobState::Running, NOW.0).await;
        let newer = job_of(&tx, config, "etl", JobState::Running, NOW.0).await;
        tx.commit().await.unwrap();
        let job = store.job(older).await.unwrap().unwrap();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.tasks_of(&job, &TaskFilter::default(), after, 2).await.unwrap();
            after = page.rows.last().map(super::Task::cursor);
            seen.extend(page.rows.into_iter().map(|task| (task.name, task.shard_index)));
            if !page.more {
                break;
            }
        }
        let expected =
            [("first", None), ("second", None), ("second", Some(0)), ("second", Some(1)), ("second", Some(2))];
        assert_eq!(seen, expected.map(|(name, shard)| (name.to_owned(), shard)));
        let group = store.task(&job, 1, None).await.unwrap().unwrap();
        assert_eq!(group.shard_states, BTreeMap::from([(TaskState::Created, 2), (TaskState::Queued, 1)]));
        assert_eq!(group.needs, ["first"]);
        let folded = TaskFilter { fold_shards: true, namespace: Some("default".to_owned()), ..TaskFilter::default() };
        let page = store.tasks(&folded, None, 10).await.unwrap();
        let places: Vec<_> = page.rows.iter().map(|task| (task.job_id, task.node)).collect();
        assert_eq!(places, [(newer, 0), (newer, 1), (older, 0), (older, 1)]);
        let queued = TaskFilter { states: vec![TaskState::Queued], ..TaskFilter::default() };
        assert_eq!(store.tasks(&queued, Some(page.rows[1].cursor()), 10).await.unwrap().rows.len(), 3);
        let changed = store.changed_tasks(&job, (2, None), true, 10).await.unwrap();
        assert_eq!(changed.rows.iter().map(|task| task.seq).collect::<Vec<_>>(), [3]);
        assert_eq!(store.job_of_task(group.id).await.unwrap(), Some(older));
    }
}

#[tokio::test]
async fn a_runner_is_shown_with_its_busy_slots() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        for id in ["r1", "r2"] {
            let row = runner::Model {
                id: id.to_owned(),
                install_id: "i".to_owned(),
                boot_id: "b".to_owned(),
                conn: 1,
                session_id: Some(Uuid::now_v7()),
                scheduler_id: None,
                labels: serde_json::to_string(&labels(id)).unwrap(),
                version: "1".to_owned(),
                capabilities: "[\"command\"]".to_owned(),
                slots: 4,
                drained: false,
                draining: false,
                drain_reason: String::new(),
                last_seen_at: NOW.0,
                hold_until: None,
                created_at: NOW.0,
            };
            insert(&tx, row.into_active_model().reset_all()).await;
        }
        tx.commit().await.unwrap();
        let page = store.runners(&labels("r2"), None, 10).await.unwrap();
        assert_eq!((page.rows.len(), page.rows[0].id.as_str(), page.rows[0].slots_busy), (1, "r2", 0));
        let page = store.runners(&BTreeMap::new(), Some("r1"), 10).await.unwrap();
        assert_eq!(page.rows.iter().map(|runner| runner.id.as_str()).collect::<Vec<_>>(), ["r2"]);
        assert_eq!(store.runner("r3").await.unwrap(), None);
        assert_eq!(store.runner_ids().await.unwrap(), ["r1", "r2"]);
    }
}

#[tokio::test]
async fn a_second_scheduler_is_kept_away_from_a_sqlite_file() {
    let world = testing::sqlite().await;
    let refusal = Store::open(&world.settings).await.unwrap_err().to_string();
    assert!(refusal.contains(&format!("pid {}", std::process::id())), "{refusal}");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_its_unknown_tables_are_not() {
    for world in testing::worlds().await {
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        let sql = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_later', 0)";
        tx.execute(store::sql::statement(store.backend(), sql, &[])).await.unwrap();
        tx.commit().await.unwrap();
        store.close().await.unwrap();
        let settings = world.settings.clone();
        drop(world.store);
        let again = Store::open(&settings).await.unwrap();
        let tx = again.begin().await.unwrap();
        let sql = "UPDATE meta SET value = '99.0.0' WHERE key = 'min_binary'";
        tx.execute(store::sql::statement(again.backend(), sql, &[])).await.unwrap();
        tx.commit().await.unwrap();
        again.close().await.unwrap();
        drop(again);
        let refusal = Store::open(&settings).await.unwrap_err().to_string();
        assert!(refusal.contains("needs at least version 99.0.0"), "{refusal}");
    }
}

#[tokio::test]
async fn what_cannot_be_opened_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "this is no database, and long enough to be read as the head of one".repeat(20)).unwrap();
    for (url, said) in [
        (path.display().to_string(), "not a SQLite database"),
        (directory.path().display().to_string(), "it is a directory"),
        ("mysql://root:secret@host/db".to_owned(), "root:…@host/db\" names a database that Baton cannot use"),
        ("sqlite::memory:".to_owned(), "would forget everything"),
        ("postgres://baton:secret@127.0.0.1:1/baton".to_owned(), "is the server running"),
    ] {
        let refusal = Store::open(&store::Settings { url }).await.unwrap_err().to_string();
        assert!(refusal.contains(said) && !refusal.contains("secret"), "{refusal}");
    }
}
