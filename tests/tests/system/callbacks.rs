//! What happens is told to others: to receivers that this file plays, through crashes of the scheduler.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use baton_tests::{
    Grpcurl, PATIENCE, RunnerSpec, World, eventually, programs, stories,
    v1::{JobState, TaskState},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// One request that a receiver got.
#[derive(Debug, Clone)]
struct Message {
    head: String,
    body: String,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        let found = self.head.lines().filter_map(|line| line.split_once(':'));
        found.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next().unwrap_or("")
    }
}

/// A web server that keeps what it is sent. To each request it gives the next of its answers, the last one for ever;
/// status 0 is no answer at all.
#[derive(Debug)]
struct Receiver {
    url: String,
    messages: Arc<Mutex<Vec<Message>>>,
}

impl Receiver {
    async fn that_answers(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/hook", listener.local_addr().expect("it has an address"));
        let messages: Arc<Mutex<Vec<Message>>> = Arc::default();
        let (statuses, kept) = (statuses.to_vec(), messages.clone());
        tokio::spawn(async move {
            // Those that get no answer are held open.
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(message) = read(&mut stream).await else { continue };
                let count = {
                    let mut messages = kept.lock().expect("nobody panicked");
                    messages.push(message);
                    messages.len()
                };
                match statuses[(count - 1).min(statuses.len() - 1)] {
                    0 => open.push(stream),
                    status => {
                        let text = format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                        let _gone = stream.write_all(text.as_bytes()).await;
                    }
                }
            }
        });
        Self { url, messages }
    }

    fn seen(&self) -> Vec<Message> {
        self.messages.lock().expect("nobody panicked").clone()
    }

    async fn messages(&self, count: usize) -> Vec<Message> {
        eventually("the receiver is told", PATIENCE, async || Some(self.seen()).filter(|seen| seen.len() >= count))
            .await
    }

    fn hook(&self, events: &[&str]) -> Value {
        json!({"events": events, "http": {"url": self.url}})
    }
}

async fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 8192];
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let message = Message { head: head.to_owned(), body: body.to_owned() };
        if message.body.len() >= message.header("content-length").parse().unwrap_or(0) {
            return Some(message);
        }
    }
}

/// A world whose schedulers call this machine, and try again quickly.
fn near(world: World) -> World {
    world
        .runner(RunnerSpec::named("one"))
        .scheduler_arg("--callback-allow=127.0.0.0/8")
        .scheduler_arg("--callback-backoff=100ms")
}

fn job(name: &str, task: &Value, callbacks: &Value) -> String {
    json!({"name": name, "callbacks": callbacks, "tasks": [task]}).to_string()
}

stories! {
    /// The event was committed and is on its way when the scheduler dies: whoever comes next tells it, under the same id.
    async fn what_was_on_its_way_when_the_scheduler_died_arrives_under_the_same_id(world: World) {
        let mut cluster = near(world).start().await;
        let receiver = Receiver::that_answers(&[0, 200]).await;
        let task = json!({"name": "work", "shell": "true", "callbacks": [{
            "events": ["finished"], "blocking": true, "http": {"url": receiver.url},
        }]});
        let id = cluster.run(&job("told", &task, &json!([]))).await;
        let first = receiver.messages(1).await.remove(0);
        cluster.task_is(&id, "work", TaskState::Callback).await;
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        let told = receiver.messages(2).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; work=FINISHED");
        assert_eq!(told[1].header("Idempotency-Key"), first.header("Idempotency-Key"));
        assert_eq!(told[1].body, first.body);
        assert_eq!((first.header("Baton-Try"), told[1].header("Baton-Try")), ("1", "2"));
        assert_eq!(receiver.seen().len(), 2, "it arrived, and is not told again");
    }

    async fn several_schedulers_tell_each_event_once_when_nothing_breaks(world: World) {
        let count = if world.backend() == baton_tests::Backend::Postgres { 3 } else { 1 };
        let cluster = near(world).schedulers(count).start().await;
        let receiver = Receiver::that_answers(&[204]).await;
        let task = json!({"name": "work", "shell": "true"});
        cluster.ask().apply(&job("told", &task, &json!([receiver.hook(&["finished"])]))).await.expect("it is applied");
        let mut jobs = Vec::new();
        for index in 0..12 {
            jobs.push(cluster.ask_of(index % count).run("told", &[]).await.expect("it is accepted"));
        }
        for id in &jobs {
            cluster.done(id).await.finished();
        }
        let told = receiver.messages(jobs.len()).await;
        eventually("every delivery is written down", PATIENCE, async || {
            let listed = cluster.baton(&["get", "callbacks", "--state", "delivered", "-o", "json"]).await.exits(0).json();
            listed["callbacks"].as_array().filter(|rows| rows.len() == jobs.len()).map(drop)
        })
        .await;
        let ids: BTreeSet<&str> = told.iter().map(|message| message.header("Idempotency-Key")).collect();
        assert_eq!(ids.len(), jobs.len());
        assert_eq!(receiver.seen().len(), jobs.len(), "nobody was told twice");
    }

    /// Fires that make no job are told once for all that follow each other, and again when there is another reason.
    async fn fires_that_make_no_job_are_told_once(world: World) {
        let cluster = near(world).start().await;
        let receiver = Receiver::that_answers(&[200]).await;
        let gate = cluster.gate("go");
        let config = json!({
            "name": "often",
            "schedules": [{"name": "tick", "every": "1s"}],
            "callbacks": [receiver.hook(&["missed"])],
            "tasks": [{"name": "work", "shell": gate.wait()}],
        });
        cluster.ask().apply(&config.to_string()).await.expect("it is applied");
        let missed = async || {
            let fires = cluster.baton(&["get", "fires", "often", "-o", "json"]).await.exits(0).json();
            let counts = fires["fires"].as_array().cloned().unwrap_or_default();
            counts.iter().filter_map(|fire| fire["count"].as_str()?.parse::<u64>().ok()).sum::<u64>()
        };
        eventually("three fires make no job", PATIENCE, async || (missed().await >= 3).then_some(())).await;
        cluster.baton(&["disable", "often"]).await.exits(0);
        let told = receiver.messages(1).await;
        let mut reasons = Vec::new();
        for message in &told {
            let body: Value = serde_json::from_str(&message.body).expect("it is JSON");
            assert_eq!((&body["event"], &body["job_config"]["name"]), (&json!("missed"), &json!("often")));
            assert_eq!(body["fires"]["schedule"], "tick");
            reasons.push(body["fires"]["reason"].as_str().expect("there is a reason").to_owned());
        }
        // A machine that stands still for a second may add another reason, and no more.
        assert!(reasons.iter().any(|reason| reason == "skipped: a job of this config is live"), "{reasons:?}");
        assert!(reasons.windows(2).all(|two| two[0] != two[1]), "one reason is told once: {reasons:?}");
        eventually("every delivery is written down", PATIENCE, async || {
            let listed = cluster.baton(&["get", "callbacks", "--state", "delivered", "-o", "json"]).await.exits(0).json();
            listed["callbacks"].as_array().filter(|rows| rows.len() >= told.len()).map(drop)
        })
        .await;
        gate.open();
    }

    async fn a_receiver_that_is_down_is_told_when_it_is_back_or_by_hand(world: World) {
        let cluster = near(world).scheduler_arg("--callback-tries=2").start().await;
        let port = programs::free_address();
        let task = json!({"name": "work", "shell": "exit 3", "callbacks": [{
            "events": ["failed"], "blocking": true, "http": {"url": format!("http://{port}/hook")},
        }]});
        let id = cluster.run(&job("told", &task, &json!([]))).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        let reason = &view.task("work").reason;
        assert!(reason.contains("exit code 3; callback 0 was given up: it could not be reached"), "{reason}");

        let listed = cluster.baton(&["get", "callbacks", &id, "--state", "failed", "-o", "json"]).await.exits(0).json();
        let given_up = &listed["callbacks"][0];
        assert_eq!((&given_up["tries"], &given_up["task"]), (&json!(2), &json!("work")));
        let callback = given_up["id"].as_str().expect("it has an id").to_owned();
        let table = cluster.baton(&["get", "callbacks", &id]).await.exits(0).stdout.clone();
        assert!(table.contains("given up") && table.contains("could not be reached"), "{table}");

        let listener = TcpListener::bind(port).await.expect("the port is free");
        cluster.baton(&["callback", "resend", &callback]).await.exits(0);
        let (mut stream, _) = listener.accept().await.expect("it is dialed");
        let message = read(&mut stream).await.expect("it is told");
        stream.write_all(b"HTTP/1.1 200 -\r\ncontent-length: 0\r\n\r\n").await.expect("it can be answered");
        assert_eq!(message.header("Idempotency-Key"), callback);
        eventually("the delivery is written down", PATIENCE, async || {
            let one = cluster.baton(&["get", "callbacks", "--id", &callback, "-o", "json"]).await.exits(0).json();
            (one["callback"]["state"] == "CALLBACK_STATE_DELIVERED").then_some(())
        })
        .await;
        cluster.baton(&["callback", "resend", "ffff"]).await.exits(3).complains(&["callback", "baton get callbacks"]);
        assert_eq!(cluster.done(&id).await.job.state(), JobState::Failed, "what has ended stays as it is");
    }
}

#[tokio::test]
async fn a_signature_is_what_the_documented_recipe_expects() {
    let cluster = near(World::plain())
        .scheduler_env(0, vec![("BATON_SECRET_HOOK".to_owned(), "wake up".to_owned())])
        .start()
        .await;
    let receiver = Receiver::that_answers(&[200]).await;
    let mut hook = receiver.hook(&["started"]);
    hook["http"]["secret"] = json!("env:BATON_SECRET_HOOK");
    let id = cluster.run(&job("signed", &json!({"name": "work", "shell": "true"}), &json!([hook]))).await;
    let message = receiver.messages(1).await.remove(0);
    cluster.done(&id).await.finished();

    let page = fs::read_to_string(programs::repository().join("docs/callbacks.md")).expect("the page is there");
    let recipe = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it has a recipe");
    let program = format!(
        "{recipe}\nimport sys\nheader, body = sys.argv[1], sys.argv[2].encode()\n\
         assert is_ours(b'wake up', header, body)\n\
         assert not is_ours(b'another key', header, body)\n\
         assert not is_ours(b'wake up', header, body + b' ')\n\
         assert not is_ours(b'wake up', header, body, patience=-1)\nprint('ours')\n"
    );
    let python = Command::new("python3")
        .args(["-c", &program, message.header("Baton-Signature"), &message.body])
        .stderr(Stdio::inherit())
        .output();
    match python {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ours"),
        Err(_) => eprintln!("no python3 on this machine: the recipe was not tried"),
    }
    let told = cluster.baton(&["get", "callbacks", &id, "-o", "yaml"]).await.exits(0).stdout.clone();
    assert!(told.contains("env:BATON_SECRET_HOOK") && !told.contains("wake up"), "{told}");
}

#[tokio::test]
async fn what_holds_a_task_is_explained() {
    let cluster = near(World::plain()).start().await;
    let receiver = Receiver::that_answers(&[0]).await;
    let task = json!({"name": "work", "shell": "true", "callbacks": [{
        "events": ["finished"], "blocking": true, "http": {"url": receiver.url},
    }]});
    let id = cluster.run(&job("told", &task, &json!([]))).await;
    receiver.messages(1).await;
    cluster.task_is(&id, "work", TaskState::Callback).await;
    let explained = cluster.baton(&["explain", &format!("{id}/work")]).await.exits(0).stdout.clone();
    assert!(explained.contains("waits for callback") && explained.contains(&receiver.url), "{explained}");
    assert!(explained.contains("baton terminate"), "{explained}");
    cluster.baton(&["terminate", &format!("{id}/work"), "--reason", "enough"]).await.exits(0);
    let view = cluster.done(&id).await;
    assert_eq!(view.summary(), "FINISHED; work=FINISHED");
    assert!(view.task("work").reason.contains("its callbacks were given up: terminated: enough"));
}

#[tokio::test]
async fn callbacks_are_listed_with_grpcurl() {
    let cluster = near(World::plain()).start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let receiver = Receiver::that_answers(&[410]).await;
    let id =
        cluster.run(&job("told", &json!({"name": "a", "shell": "true"}), &json!([receiver.hook(&["finished"])]))).await;
    cluster.done(&id).await.finished();
    let request = json!({"jobId": id, "state": "CALLBACK_STATE_GIVEN_UP"});
    let listed = eventually("it is given up", PATIENCE, async || {
        let listed =
            grpcurl.call("baton.v1.CallbackService/ListCallbacks", &request).await.expect("it answers").remove(0);
        listed["callbacks"].get(0).cloned()
    })
    .await;
    assert_eq!((&listed["responseCode"], &listed["event"]), (&json!(410), &json!("CALLBACK_EVENT_FINISHED")));
    assert_eq!(receiver.seen().len(), 1, "who says that it is gone is not asked again");
    let one = grpcurl.call("baton.v1.CallbackService/GetCallback", &json!({"callbackId": listed["id"]})).await;
    let payload = one.expect("it answers")[0]["callback"]["payload"].as_str().expect("it tells").to_owned();
    assert_eq!(payload, receiver.seen()[0].body);
}

/// What a mail server was told.
#[derive(Debug, Default, Clone)]
pub(crate) struct Letter {
    pub(crate) login: String,
    pub(crate) receivers: Vec<String>,
    pub(crate) text: String,
}

/// A mail server that takes one letter, after a first one that it asks to come again.
pub(crate) async fn mail_server(listener: TcpListener) -> Letter {
    let mut asked_again = false;
    loop {
        let (stream, _) = listener.accept().await.expect("it is dialed");
        let mut lines = BufReader::new(stream);
        let mut letter = Letter::default();
        say(&mut lines, "220 test ESMTP").await;
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).await.unwrap_or(0) == 0 {
                break;
            }
            let line = line.trim_end();
            let word = line.split([' ', ':']).next().unwrap_or_default().to_uppercase();
            match word.as_str() {
                "EHLO" => say(&mut lines, "250-test\r\n250 AUTH PLAIN").await,
                "AUTH" => {
                    line.rsplit(' ').next().unwrap_or_default().clone_into(&mut letter.login);
                    say(&mut lines, "235 welcome").await;
                }
                "RCPT" if !asked_again => {
                    asked_again = true;
                    say(&mut lines, "451 come again").await;
                }
                "RCPT" => {
                    letter.receivers.push(line.to_owned());
                    say(&mut lines, "250 ok").await;
                }
                "DATA" => {
                    say(&mut lines, "354 go on").await;
                    loop {
                        let mut line = String::new();
                        lines.read_line(&mut line).await.expect("the letter goes on");
                        if line == ".\r\n" {
                            break;
                        }
                        letter.text.push_str(&line);
                    }
                    say(&mut lines, "250 taken").await;
                    return letter;
                }
                _ => say(&mut lines, "250 ok").await,
            }
        }
    }
}

async fn say(lines: &mut BufReader<TcpStream>, text: &str) {
    let _gone = lines.get_mut().write_all(format!("{text}\r\n").as_bytes()).await;
}

#[tokio::test]
async fn a_failure_is_mailed_to_people() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let server = tokio::spawn(mail_server(listener));
    let cluster = near(World::plain())
        .scheduler_arg("--smtp-host=127.0.0.1")
        .scheduler_arg(&format!("--smtp-port={port}"))
        .scheduler_arg("--smtp-tls=none")
        .scheduler_arg("--smtp-from=Baton <baton@example.com>")
        .scheduler_arg("--smtp-user=baton")
        .scheduler_arg("--smtp-password=env:MAIL_PASSWORD")
        .scheduler_env(0, vec![("MAIL_PASSWORD".to_owned(), "hunter2".to_owned())])
        .start()
        .await;
    let mail = json!({"events": ["failed"], "email": {
        "to": ["ops@example.com", "etl@example.com"], "subject": "{{ job.name }}: {{ event.reason }}",
    }});
    let id = cluster.run(&job("nightly", &json!({"name": "load", "shell": "exit 4"}), &json!([mail]))).await;
    let letter = tokio::time::timeout(PATIENCE, server).await.expect("a letter comes").expect("it is a letter");
    assert_eq!(letter.receivers.len(), 2, "{letter:?}");
    // A NUL, the user, a NUL, the password.
    assert_eq!(letter.login, "AGJhdG9uAGh1bnRlcjI=");
    for part in ["From: Baton <baton@example.com>", "Subject: nightly: 1 task failed", "Message-ID: <", "FAILED", &id] {
        assert!(letter.text.contains(part), "{part}: {}", letter.text);
    }
    eventually("the delivery is written down", PATIENCE, async || {
        let listed = cluster.baton(&["get", "callbacks", &id, "-o", "json"]).await.exits(0).json();
        let one = &listed["callbacks"][0];
        (one["state"] == "CALLBACK_STATE_DELIVERED")
            .then(|| assert_eq!((&one["tries"], &one["responseCode"]), (&json!(2), &json!(250))))
    })
    .await;
}
