//! Stories about output, on both databases.

use bytes::Bytes;
use uuid::Uuid;

use super::{Chunk, Logs, Output, Piece, Selection, Stream};
use crate::store::testing::{self, World};

/// One output of one task, and the store it goes into.
struct Story {
    world: World,
    output: Output,
    job_id: Uuid,
}

impl Story {
    async fn on_each_database() -> Vec<Self> {
        let stories = testing::worlds().await.into_iter().map(|world| Self {
            world,
            output: Output { task_id: Uuid::now_v7(), lease: 1, stream: Stream::Stdout },
            job_id: Uuid::now_v7(),
        });
        stories.collect()
    }

    fn logs(&self) -> &Logs {
        self.world.store.logs()
    }

    fn piece(&self, offset: u64, data: &str) -> Piece {
        let data = Bytes::from(data.to_owned());
        Piece { output: self.output, job_id: self.job_id, attempt: 1, offset, data }
    }

    async fn append(&self, offset: u64, data: &str) -> u64 {
        self.stored(self.piece(offset, data)).await
    }

    async fn stored(&self, piece: Piece) -> u64 {
        self.logs().append(piece).await.unwrap().stored().await.unwrap()
    }

    fn selection(&self) -> Selection {
        Selection { job_id: self.job_id, task_id: None, attempt: None, stream: None }
    }

    async fn all(&self) -> Vec<Chunk> {
        self.logs().page(&self.selection(), 0, usize::MAX).await.unwrap().rows
    }

    async fn tail(&self, until: i64, lines: u32) -> String {
        text(&self.logs().tail(&self.selection(), until, lines, 1 << 20).await.unwrap())
    }

    async fn text(&self) -> String {
        text(&self.all().await)
    }
}

fn text(chunks: &[Chunk]) -> String {
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.data).into_owned()).collect()
}

#[tokio::test]
async fn what_is_sent_again_is_stored_once() {
    for story in Story::on_each_database().await {
        assert_eq!(story.append(0, "one\n").await, 4);
        assert_eq!(story.append(0, "one\n").await, 4);
        assert_eq!(story.append(4, "two\n").await, 8);
        assert_eq!(story.append(2, "e\ntwo\nthree\n").await, 14);
        assert_eq!(story.append(0, "").await, 14);
        assert_eq!(story.text().await, "one\ntwo\nthree\n");
    }
}

#[tokio::test]
async fn what_was_left_out_is_noted_where_it_is_missing() {
    for story in Story::on_each_database().await {
        story.append(0, "head").await;
        assert_eq!(story.append(1000, "tail").await, 1004);
        let chunks = story.all().await;
        assert_eq!((chunks[1].offset, chunks[1].skipped), (1000, 996));
        assert_eq!(text(&chunks), "headtail");
    }
}

#[tokio::test]
async fn what_comes_after_output_was_removed_says_what_is_missing() {
    for story in Story::on_each_database().await {
        story.logs().expect(story.output.task_id, 1, story.job_id);
        story.append(0, "head").await;
        assert_eq!(story.logs().remove(&[], 10).await.unwrap(), 0);
        assert_eq!(story.logs().remove(&[Uuid::now_v7(), story.job_id], 10).await.unwrap(), 1);
        assert_eq!(story.logs().job_of(story.output.task_id), None, "whether there still is such a job is asked for");
        assert_eq!(story.append(4, "tail").await, 8);
        let chunks = story.all().await;
        assert_eq!((chunks.len(), chunks[0].offset, chunks[0].skipped), (1, 4, 4));
    }
}

#[tokio::test]
async fn outputs_and_leases_do_not_mix() {
    for story in Story::on_each_database().await {
        story.append(0, "out").await;
        let other = Output { stream: Stream::Stderr, ..story.output };
        let error = Piece { output: other, ..story.piece(0, "err") };
        assert_eq!(story.stored(error).await, 3);
        let later = Output { lease: 2, ..story.output };
        let again = Piece { output: later, attempt: 2, ..story.piece(0, "again") };
        assert_eq!(story.stored(again).await, 5);
        let second = Selection { attempt: Some(2), ..story.selection() };
        assert_eq!(text(&story.logs().page(&second, 0, 1 << 20).await.unwrap().rows), "again");
        let errors = Selection { stream: Some(Stream::Stderr), ..story.selection() };
        assert_eq!(text(&story.logs().page(&errors, 0, 1 << 20).await.unwrap().rows), "err");
        assert_eq!(story.logs().ends(story.output.task_id, 1).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn pages_join_without_a_seam() {
    for story in Story::on_each_database().await {
        let mut offset = 0;
        for number in 0..50 {
            offset = story.append(offset, &format!("line {number}\n")).await;
        }
        let (mut read, mut after) = (String::new(), 0);
        loop {
            let page = story.logs().page(&story.selection(), after, 60).await.unwrap();
            assert!(page.rows.len() <= 10);
            read.push_str(&text(&page.rows));
            after = page.rows.last().unwrap().id;
            if !page.more {
                break;
            }
        }
        assert_eq!(read, story.text().await);
        assert_eq!(read.lines().count(), 50);
    }
}

#[tokio::test]
async fn a_tail_is_the_last_lines_and_no_more() {
    for story in Story::on_each_database().await {
        story.append(0, "one\ntwo\nth").await;
        story.append(10, "ree\nfour\n").await;
        let until = story.logs().newest(story.job_id).await.unwrap();
        assert_eq!(story.tail(until, 1).await, "four\n");
        assert_eq!(story.tail(until, 2).await, "three\nfour\n");
        assert_eq!(story.tail(until, 3).await, "two\nthree\nfour\n");
        assert_eq!(story.tail(until, 9).await, "one\ntwo\nthree\nfour\n");
    }
}

#[tokio::test]
async fn a_follower_is_woken_by_output_of_its_job() {
    for story in Story::on_each_database().await {
        let mut arrivals = story.logs().arrivals(story.job_id);
        story.append(0, "news").await;
        arrivals.next().await;
        assert_eq!(story.text().await, "news");
    }
}

#[tokio::test]
async fn many_writers_share_commits_and_lose_nothing() {
    for story in Story::on_each_database().await {
        let mut writers = tokio::task::JoinSet::new();
        for task in 0..20_u64 {
            let (logs, piece) = (story.logs().clone(), story.piece(0, &format!("{task:02}")));
            let output = Output { task_id: Uuid::now_v7(), ..story.output };
            writers.spawn(async move {
                for offset in [0, 2, 4] {
                    let pending = logs.append(Piece { output, offset, ..piece.clone() }).await.unwrap();
                    pending.stored().await.unwrap();
                }
            });
        }
        writers.join_all().await;
        assert_eq!(story.all().await.len(), 60);
    }
}
