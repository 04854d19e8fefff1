//! The outbox on both databases.

use std::time::Duration;

use super::*;
use crate::{
    domain::{callback::Event, definition::callback::StartJob},
    store::{retention::forget_callbacks, testing},
};

const LEASE: Duration = Duration::from_mins(1);

fn row(at: i64) -> CallbackRow {
    CallbackRow {
        id: Uuid::now_v7(),
        event_id: Uuid::now_v7(),
        event: Event::Missed,
        job_config_id: Uuid::now_v7(),
        namespace: "default".to_owned(),
        name: "etl".to_owned(),
        job_id: None,
        task_id: None,
        task_name: String::new(),
        position: 0,
        action: Action::Job(StartJob { name: "next".to_owned(), ..StartJob::default() }),
        payload: "{}".to_owned(),
        blocking: false,
        depth: 0,
        given_up: None,
        created_at: Timestamp(at),
    }
}

fn tried(callback: &Claimed, state: State, next: i64) -> Tried {
    Tried {
        id: callback.id,
        tries: callback.tries,
        state,
        next_try_at: Timestamp(next),
        response_code: Some(500),
        error: "no".to_owned(),
        made_job_id: None,
    }
}

#[tokio::test]
async fn a_callback_is_claimed_by_one_scheduler_at_a_time() {
    for world in testing::worlds().await {
        let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
        let tx = world.store.begin().await.unwrap();
        let rows = [row(10), row(20), row(30)];
        insert(&tx, &rows).await.unwrap();
        let now = Timestamp(20);
        let first = claim(&tx, one, now, now + LEASE, 1).await.unwrap();
        assert_eq!((first.len(), first[0].id, first[0].tries), (1, rows[0].id, 1));
        let second = claim(&tx, two, now, now + LEASE, 10).await.unwrap();
        // The third is not due yet, and the first is in other hands.
        assert_eq!(second.iter().map(|callback| callback.id).collect::<Vec<_>>(), [rows[1].id]);
        assert_eq!(next_due(&tx).await.unwrap(), Some(Timestamp(30)));
        let claims = [(first[0].id, 1), (second[0].id, 1)];
        assert_eq!(lock_owned(&tx, one, &claims).await.unwrap(), [first[0].id]);
    }
}

#[tokio::test]
async fn a_claim_expires_and_counts_no_more_once_another_has_it() {
    for world in testing::worlds().await {
        let (dead, heir) = (Uuid::now_v7(), Uuid::now_v7());
        let tx = world.store.begin().await.unwrap();
        insert(&tx, &[row(0)]).await.unwrap();
        let early = claim(&tx, dead, Timestamp(0), Timestamp(0) + LEASE, 1).await.unwrap().remove(0);
        let expired = Timestamp(0) + LEASE;
        assert!(claim(&tx, heir, Timestamp(expired.0 - 1), expired, 1).await.unwrap().is_empty());
        let late = claim(&tx, heir, expired, expired + LEASE, 1).await.unwrap().remove(0);
        assert_eq!((late.id, late.tries, &late.payload), (early.id, 2, &early.payload));
        // The first one was only slow: what it has to say is no news.
        assert!(lock_owned(&tx, dead, &[(early.id, early.tries)]).await.unwrap().is_empty());
        assert_eq!(lock_owned(&tx, heir, &[(late.id, late.tries)]).await.unwrap(), [late.id]);
        record(&tx, expired, &[tried(&late, State::Delivered, 0)]).await.unwrap();
        assert!(lock_owned(&tx, heir, &[(late.id, late.tries)]).await.unwrap().is_empty());
        assert_eq!(next_due(&tx).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_try_that_failed_waits_for_the_next_and_a_resend_begins_anew() {
    for world in testing::worlds().await {
        let owner = Uuid::now_v7();
        let tx = world.store.begin().await.unwrap();
        insert(&tx, &[row(0)]).await.unwrap();
        let callback = claim(&tx, owner, Timestamp(0), Timestamp(9), 1).await.unwrap().remove(0);
        assert!(!resend(&tx, callback.id, Timestamp(1)).await.unwrap(), "it is being tried");
        record(&tx, Timestamp(1), &[tried(&callback, State::Pending, 100)]).await.unwrap();
        assert_eq!(next_due(&tx).await.unwrap(), Some(Timestamp(100)));
        let callback = claim(&tx, owner, Timestamp(100), Timestamp(109), 1).await.unwrap().remove(0);
        assert_eq!(callback.tries, 2);
        record(&tx, Timestamp(101), &[tried(&callback, State::GivenUp, 0)]).await.unwrap();
        assert_eq!(next_due(&tx).await.unwrap(), None);
        assert!(resend(&tx, callback.id, Timestamp(200)).await.unwrap());
        let callback = claim(&tx, owner, Timestamp(200), Timestamp(209), 1).await.unwrap().remove(0);
        assert_eq!(callback.tries, 1);
    }
}

#[tokio::test]
async fn what_a_scheduler_leaves_behind_is_due_at_once() {
    for world in testing::worlds().await {
        let (stopped, other) = (Uuid::now_v7(), Uuid::now_v7());
        let tx = world.store.begin().await.unwrap();
        insert(&tx, &[row(0), row(1)]).await.unwrap();
        claim(&tx, stopped, Timestamp(0), Timestamp(1_000), 1).await.unwrap();
        claim(&tx, other, Timestamp(1), Timestamp(1_000), 1).await.unwrap();
        assert_eq!(release(&tx, stopped, Timestamp(2)).await.unwrap(), 1);
        assert_eq!(next_due(&tx).await.unwrap(), Some(Timestamp(2)));
        assert_eq!(release_of_gone(&tx, other, None, Timestamp(3)).await.unwrap(), 0, "they are its own");
        let address = Some("127.0.0.1:7420");
        crate::store::scheduler::register(&tx, other, "127.0.0.1:7420", "0").await.unwrap();
        assert_eq!(release_of_gone(&tx, stopped, Some("127.0.0.1:9"), Timestamp(3)).await.unwrap(), 0);
        assert_eq!(release_of_gone(&tx, stopped, address, Timestamp(3)).await.unwrap(), 1);
        assert_eq!(claim(&tx, other, Timestamp(3), Timestamp(1_000), 9).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn what_belongs_to_no_job_is_forgotten_by_age() {
    for world in testing::worlds().await {
        let tx = world.store.begin().await.unwrap();
        let told = CallbackRow { given_up: Some("no".to_owned()), ..row(0) };
        insert(&tx, &[told, row(0)]).await.unwrap();
        let day = Duration::from_hours(24);
        assert_eq!(forget_callbacks(&tx, Timestamp(0), 10).await.unwrap(), 0);
        assert_eq!(forget_callbacks(&tx, Timestamp(0) + day, 10).await.unwrap(), 1, "what is still tried stays");
    }
}

#[tokio::test]
async fn what_another_version_wrote_holds_nothing_up() {
    for world in testing::worlds().await {
        let tx = world.store.begin().await.unwrap();
        let rows = [row(0), row(1)];
        insert(&tx, &rows).await.unwrap();
        let text = "UPDATE callback SET action = :action WHERE id = :id";
        let params = [("action", r#"{"pager":{}}"#.into()), ("id", rows[0].id.into())];
        tx.execute(sql::statement(tx.backend(), text, &params)).await.unwrap();
        let claimed = claim(&tx, Uuid::now_v7(), Timestamp(5), Timestamp(9), 10).await.unwrap();
        assert_eq!(claimed.iter().map(|callback| callback.id).collect::<Vec<_>>(), [rows[1].id]);
        assert_eq!(next_due(&tx).await.unwrap(), Some(Timestamp(9)));
    }
}
