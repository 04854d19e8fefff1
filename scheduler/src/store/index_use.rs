//! The questions of placement are answered from their indexes, so that what has ended and what waits costs nothing.

use sea_orm::{ConnectionTrait as _, Statement};

use super::{
    row::Row as _,
    task::{HOLDS_SLOT, RANK},
    testing,
};

/// How SQLite answers a question.
async fn plan(question: &str) -> Vec<String> {
    let world = testing::sqlite().await;
    let explain = Statement::from_string(world.store.backend(), format!("EXPLAIN QUERY PLAN {question}"));
    let rows = world.store.reader().query_all_raw(explain).await.unwrap();
    rows.iter().map(|row| row.column("detail").unwrap()).collect()
}

#[tokio::test]
async fn the_pick_reads_the_queue_in_its_order_and_sorts_nothing() {
    let question = format!("SELECT id FROM task WHERE state = 'QUEUED' AND class = 'a' ORDER BY {RANK}, id LIMIT 1");
    let plan = plan(&question).await;
    assert!(plan.iter().any(|step| step.contains("USING INDEX task_rank")), "{plan:?}");
    assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
}

#[tokio::test]
async fn the_holders_of_a_key_are_counted_without_reading_what_has_ended() {
    for (condition, index) in [(HOLDS_SLOT, "task_holds_key"), ("NOT gone", "task_may_hold_key")] {
        let question = format!(
            "SELECT count(*) FROM task WHERE concurrency_key IS NOT NULL AND {condition} AND concurrency_key = 'a'"
        );
        let plan = plan(&question).await;
        assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
    }
}

#[tokio::test]
async fn jobs_that_wait_for_a_place_are_found_by_themselves() {
    let plan = plan("SELECT job_config_id FROM job WHERE state = 'CREATED' AND held").await;
    assert!(plan.iter().any(|step| step.contains("job_held")), "{plan:?}");
}
