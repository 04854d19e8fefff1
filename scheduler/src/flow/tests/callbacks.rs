//! What is told to others, with receivers played by the test.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::*;
use crate::{
    domain::{
        callback::{self, Event, address::Network, delivery::Backoff},
        definition::{
            Callback,
            callback::{Action, StartJob, Webhook},
        },
        origin::Trigger,
    },
    flow::{
        courier,
        request::{Again, Rerun},
    },
    store::read::{CallbackFilter, JobFilter},
};

/// What a receiver was sent.
#[derive(Debug, Clone)]
pub(super) struct Message {
    head: String,
    body: Value,
}

impl Message {
    fn header(&self, name: &str) -> String {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{}:", name.to_lowercase())));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    }
}

/// A web server: it answers as it is told, the last answer for ever.
pub(super) struct Receiver {
    url: String,
    messages: Arc<Mutex<Vec<Message>>>,
    arrived: Arc<Notify>,
}

/// How a receiver answers.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Status(u16),
    /// When the test says so.
    Later(Arc<Notify>),
    Never,
}

impl Receiver {
    pub(super) async fn that_answers(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (messages, arrived) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (answers, kept, noticed) = (answers.to_vec(), messages.clone(), arrived.clone());
        tokio::spawn(async move {
            let mut count = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(message) = read(&mut stream).await else { continue };
                let answer = answers[count.min(answers.len() - 1)].clone();
                count += 1;
                kept.lock().unwrap().push(message);
                noticed.notify_one();
                tokio::spawn(async move {
                    let status = match answer {
                        Answer::Status(status) => status,
                        Answer::Later(when) => {
                            when.notified().await;
                            200
                        }
                        Answer::Never => std::future::pending().await,
                    };
                    let text = format!("HTTP/1.1 {status} -\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        Self { url, messages, arrived }
    }

    /// Waits until so many messages came.
    pub(super) async fn messages(&self, count: usize) -> Vec<Message> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                let messages = self.messages.lock().unwrap().clone();
                if messages.len() >= count {
                    return messages;
                }
                self.arrived.notified().await;
            }
        })
        .await
        .expect("the receiver is told")
    }

    pub(super) fn hook(&self, events: &[Event], blocking: bool) -> Callback {
        let webhook = Webhook { url: self.url.clone(), ..Webhook::default() };
        Callback { events: events.to_vec(), action: Action::Http(webhook), blocking }
    }
}

/// Reads one request.
async fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(Message { head: head.to_owned(), body: serde_json::from_str(body).ok()? });
        }
    }
}

pub(super) fn quick() -> courier::Settings {
    courier::Settings {
        allow: vec![Network::parse("127.0.0.0/8").unwrap()],
        backoff: Backoff { base: Duration::from_millis(20), tries: 3 },
        ..courier::Settings::default()
    }
}

impl Scene {
    /// Waits until the callbacks are as they shall be.
    pub(super) async fn callbacks(
        &self,
        ready: impl Fn(&[store::read::Callback]) -> bool,
    ) -> Vec<store::read::Callback> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                let page = self.world.store.callbacks(&CallbackFilter::default(), None, 100).await.unwrap();
                if ready(&page.rows) {
                    return page.rows;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the callbacks come to this")
    }
}

fn config(tasks: Vec<TaskConfig>) -> JobConfig {
    JobConfig { namespace: "default".into(), name: "job".into(), tasks, ..JobConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_raised_for_the_last_failed_attempt_alone() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let receiver = Receiver::that_answers(&[Answer::Status(204)]).await;
        let retry = Some(Retry::times(3, Duration::ZERO));
        let events = [Event::Finished, Event::Failed];
        let work = TaskConfig { retry, callbacks: vec![receiver.hook(&events, false)], ..task("work", &[]) };
        let of_job = vec![receiver.hook(&[Event::Failed, Event::Finished, Event::Terminated], false)];
        scene.apply_config(JobConfig { callbacks: of_job, ..config(vec![work]) }).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        for attempt in 1..=3 {
            let (slot, task, _) = runner.next_run().await;
            assert_eq!(task.attempt, attempt);
            runner.end(slot, task, 7).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        let mut told: Vec<Message> = receiver.messages(2).await;
        told.sort_by_key(|message| message.body["subject"].as_str().unwrap().to_owned());
        assert_eq!(told[0].body["subject"], "job");
        assert_eq!(told[1].body["subject"], "task");
        for message in &told {
            assert_eq!(message.body["event"], "failed");
            assert_eq!(message.body["job"]["id"], job.to_string());
            assert_eq!(message.header("Baton-Event"), "failed");
        }
        assert_eq!((&told[1].body["task"]["attempt"], &told[1].body["task"]["exit_code"]), (&3.into(), &7.into()));
        let rows = scene.callbacks(|rows| rows.iter().all(|row| row.state == callback::State::Delivered)).await;
        assert_eq!(rows.len(), 2, "nobody was told of the attempts before");
        assert!(rows.iter().all(|row| row.tries == 1 && row.response_code == Some(204)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_long_is_told_once_of_a_group_and_once_of_its_job() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let receiver = Receiver::that_answers(&[Answer::Status(204)]).await;
        let (warn_after, callbacks) = (Some(Duration::from_millis(1)), vec![receiver.hook(&[Event::Slow], false)]);
        let shards = Some(Shards { split: Split::Count(2), max_parallel: 2, min_success_percent: 100 });
        let work = TaskConfig { warn_after, shards, callbacks: callbacks.clone(), ..task("work", &[]) };
        scene.apply_config(JobConfig { warn_after, callbacks, ..config(vec![work]) }).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let mut given = Vec::new();
        for _ in 0..2 {
            let (slot, task, _) = runner.next_run().await;
            runner.say(vec![report(slot, SlotStatus::Running, Some(task))]).await;
            given.push((slot, task));
        }
        let mut told = receiver.messages(2).await;
        for (slot, task) in given {
            runner.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        told.sort_by_key(|message| message.body["subject"].as_str().unwrap().to_owned());
        assert_eq!((&told[0].body["subject"], &told[0].body["event"]), (&"job".into(), &"slow".into()));
        assert_eq!((&told[1].body["subject"], &told[1].body["task"]["name"]), (&"task".into(), &"work".into()));
        let rows = scene.callbacks(|rows| rows.iter().all(|row| row.state == callback::State::Delivered)).await;
        assert_eq!(rows.len(), 2, "one alarm for both shards");

        // Of a shard that is run again it is told again.
        let again = Again::Task { name: "work".into(), shard: Some(1), following: false };
        let order = Rerun { caller: Caller::default(), job_id: job, again, force: false, reason: String::new() };
        scene.engine.rerun(order).await.unwrap();
        let (slot, task, spec) = runner.next_run().await;
        assert_eq!(spec.shard.unwrap().0, 1);
        runner.say(vec![report(slot, SlotStatus::Running, Some(task))]).await;
        let told = receiver.messages(4).await;
        runner.end(slot, task, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let mut subjects: Vec<_> = told[2..].iter().map(|message| message.body["subject"].as_str().unwrap()).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, ["job", "task"]);
        let rows = scene.callbacks(|rows| rows.iter().all(|row| row.state == callback::State::Delivered)).await;
        assert_eq!(rows.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_twice_is_told_a_third_time_under_the_same_id() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let receiver = Receiver::that_answers(&[Answer::Status(500), Answer::Status(503), Answer::Status(200)]).await;
        let work = TaskConfig { callbacks: vec![receiver.hook(&[Event::Finished], false)], ..task("work", &[]) };
        scene.apply_config(config(vec![work])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        // It holds nothing up.
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let told = receiver.messages(3).await;
        let rows = scene.callbacks(|rows| rows[0].state == callback::State::Delivered).await;
        assert_eq!((rows.len(), rows[0].tries, rows[0].response_code), (1, 3, Some(200)));
        for (message, tries) in told.iter().zip(1..) {
            assert_eq!(message.header("Idempotency-Key"), rows[0].id.to_string());
            assert_eq!(message.header("Baton-Try"), tries.to_string());
            assert_eq!(message.body, told[0].body);
        }
        assert_eq!(told.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_held_with_its_children_until_others_have_heard_of_it() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let heard = Arc::new(Notify::new());
        let receiver = Receiver::that_answers(&[Answer::Later(heard.clone())]).await;
        let first = TaskConfig { callbacks: vec![receiver.hook(&[Event::Finished], true)], ..task("first", &[]) };
        scene.apply_config(config(vec![first, task("then", &["first"])])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        scene.until(job, 1, TaskState::Callback).await;
        let told = receiver.messages(1).await;
        assert_eq!(told[0].body["task"]["state"], "FINISHED", "it is told how the work ended");
        scene.until(job, 1, TaskState::Created).await;
        heard.notify_one();
        let (slot, task, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "then");
        runner.end(slot, task, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, &tasks["first"]), (JobState::Finished, &(TaskState::Finished, String::new())));
        assert_eq!(receiver.messages(1).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_given_up_and_the_task_ends_as_its_work_did() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let receiver = Receiver::that_answers(&[Answer::Status(500)]).await;
        let first = TaskConfig { callbacks: vec![receiver.hook(&[Event::Failed], true)], ..task("first", &[]) };
        scene.apply_config(config(vec![first])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 3).await;
        let (state, tasks) = scene.end_of(job).await;
        let expected = "exit code 3; callback 0 was given up: it answered 500: no";
        assert_eq!((state, &tasks["first"]), (JobState::Failed, &(TaskState::Failed, expected.to_owned())));
        let rows = scene.callbacks(|rows| rows[0].state == callback::State::GivenUp).await;
        assert_eq!((rows[0].tries, rows[0].response_code, rows[0].next_try_at), (3, Some(500), None));
        // By hand it is tried from the start, and holds nobody any more.
        scene.engine.resend(rows[0].id).await.unwrap();
        receiver.messages(6).await;
        scene.callbacks(|rows| rows[0].state == callback::State::GivenUp).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminate_gives_up_what_holds_a_task() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let receiver = Receiver::that_answers(&[Answer::Never]).await;
        let first = TaskConfig { callbacks: vec![receiver.hook(&[Event::Finished], true)], ..task("first", &[]) };
        scene.apply_config(config(vec![first, task("then", &["first"])])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        receiver.messages(1).await;
        scene.until(job, 1, TaskState::Callback).await;
        assert_eq!(scene.terminate(job).await, 2);
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Terminated);
        let reason = "its callbacks were given up: terminated on request";
        assert_eq!(tasks["first"], (TaskState::Finished, reason.to_owned()));
        assert_eq!(tasks["then"].0, TaskState::Terminated);
        let rows = scene.callbacks(|rows| rows[0].state == callback::State::GivenUp).await;
        assert_eq!(rows[0].last_error, "given up: terminated on request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_starts_one_job_and_no_second_one() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let params = BTreeMap::from([("of".to_owned(), "{{ job.id }} {{ event.task }} {{ event.state }}".to_owned())]);
        let action = Action::Job(StartJob { name: "next".into(), params });
        let starts = Callback { events: vec![Event::Finished], action, blocking: true };
        let next = JobConfig {
            name: "next".into(),
            params: BTreeMap::from([("of".to_owned(), String::new())]),
            ..config(vec![task("only", &[])])
        };
        scene.apply_config(next).await;
        scene.apply_config(config(vec![TaskConfig { callbacks: vec![starts], ..task("work", &[]) }])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        let (_, _, spec) = runner.next_run().await;
        assert_eq!((spec.job_name.as_str(), spec.params["of"].clone()), ("next", format!("{job} work FINISHED")));
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let rows = scene.callbacks(|rows| rows[0].state == callback::State::Delivered).await;
        assert_eq!(rows[0].made_job_id, Some(spec.job_id));
        let refused = scene.engine.resend(rows[0].id).await.unwrap_err();
        assert!(refused.to_string().contains("starts no second one"), "{refused}");
        let jobs = scene
            .world
            .store
            .jobs(&JobFilter { name: Some("next".into()), ..JobFilter::default() }, None, 10)
            .await
            .unwrap();
        assert_eq!(jobs.rows.len(), 1);
        assert_eq!((jobs.rows[0].trigger, jobs.rows[0].id), (Trigger::Callback, spec.job_id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_start_one_another_come_to_an_end() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let starts = |name: String| {
            let action = Action::Job(StartJob { name, params: BTreeMap::new() });
            Callback { events: vec![Event::Finished], action, blocking: false }
        };
        // Nothing in them ever runs, so that they follow one another as fast as they can.
        let skipped = TaskConfig { enabled: Some(false), ..task("work", &[]) };
        let link = |at: u32| {
            let callbacks = if at < 33 { vec![starts(format!("c{}", at + 1))] } else { Vec::new() };
            (JobConfig { name: format!("c{at}"), callbacks, ..config(vec![skipped.clone()]) }, String::new())
        };
        let order = Apply { caller: Caller::default(), configs: (0..=33).map(link).collect() };
        scene.engine.apply(order).await.unwrap();
        scene.run_job("c0").await;
        let rows = scene.callbacks(|rows| rows.iter().any(|row| row.state == callback::State::GivenUp)).await;
        let given_up = rows.iter().find(|row| row.state == callback::State::GivenUp).unwrap();
        assert!(given_up.last_error.contains("32 jobs led to one another"), "{}", given_up.last_error);
        assert_eq!(rows.len(), 33);
        // A ring of them is refused when it is closed.
        let again = JobConfig { name: "c33".into(), callbacks: vec![starts("c0".into())], ..config(vec![skipped]) };
        let order = Apply { caller: Caller::default(), configs: vec![(again, String::new())] };
        let refused = scene.engine.apply(order).await.unwrap_err();
        assert!(refused.to_string().contains("without end"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_schedulers_own_network_is_not_dialed() {
    for scene in Scene::on_each_database_with(&courier::Settings::default()).await {
        let receiver = Receiver::that_answers(&[Answer::Status(200)]).await;
        let by_address = receiver.hook(&[Event::Finished], true);
        let mut by_name = by_address.clone();
        if let Action::Http(webhook) = &mut by_name.action {
            webhook.url = webhook.url.replace("127.0.0.1", "localhost");
        }
        let work = TaskConfig { callbacks: vec![by_address, by_name], ..task("work", &[]) };
        scene.apply_config(config(vec![work])).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let rows = scene.callbacks(|rows| rows.iter().all(|row| row.state == callback::State::GivenUp)).await;
        assert!(rows.iter().all(|row| row.tries == 1 && row.last_error.contains("a loopback address")), "{rows:?}");
        assert!(receiver.messages.lock().unwrap().is_empty());
    }
}
