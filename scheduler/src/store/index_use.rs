//! The questions of placement are answered from their indexes, so that what has ended and what waits costs nothing.

use sea_orm::{ConnectionTrait as _, Statement};

use super::{
    row::Row as _,
    testing::{self, World},
};

/// How SQLite answers a question, in the very text in which it is asked.
pub(super) async fn plan(world: &World, mut question: Statement) -> Vec<String> {
    question.sql.insert_str(0, "EXPLAIN QUERY PLAN ");
    let rows = world.store.reader().query_all_raw(question).await.unwrap();
    rows.iter().map(|row| row.column("detail").unwrap()).collect()
}

#[tokio::test]
async fn jobs_that_wait_for_a_place_are_found_by_themselves() {
    let world = testing::sqlite().await;
    let question =
        Statement::from_string(world.store.backend(), "SELECT job_config_id FROM job WHERE state = 'CREATED' AND held");
    let plan = plan(&world, question).await;
    assert!(plan.iter().any(|step| step.contains("job_held")), "{plan:?}");
}
