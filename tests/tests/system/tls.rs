//! TLS to the outside: an authority of one's own is trusted where `SSL_CERT_FILE` names it, and nowhere else.

use baton_tests::{PATIENCE, RunnerSpec, World, eventually, job, service::Service, tls::Authority};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::callbacks::mail_server;

#[tokio::test]
async fn a_runner_asks_whom_its_authority_vouches_for() {
    let directory = tempfile::tempdir().expect("there is room");
    let authority = Authority::in_directory(directory.path());
    let service = Service::start().await;
    let front = authority.before(service.address()).await;
    let (key, file) = authority.trusted();
    let cluster = World::plain()
        .runner(RunnerSpec::named("knows").label("knows=it").asks_this_machine().env(&key, &file))
        .runner(RunnerSpec::named("stranger").label("knows=nobody").asks_this_machine())
        .start()
        .await;
    let ask = |name: &str, knows: &str, host: &str| {
        json!({
            "name": name, "runner": {"match_labels": {"knows": knows}},
            "http": {"urls": [format!("https://{host}:{}/x", front.port())]},
        })
    };
    let tasks = json!([
        ask("address", "it", "127.0.0.1"),
        ask("name", "it", "localhost"),
        ask("stranger", "nobody", "localhost")
    ]);
    let id = cluster.run(&job("ask", &tasks)).await;
    let view = cluster.done(&id).await;
    assert_eq!(view.summary(), "FAILED; address=FINISHED, name=FINISHED, stranger=FAILED", "{}", view.reasons());
    let log = cluster.log(&id, "stranger").await;
    let told = format!("{} {}", view.task("stranger").reason, String::from_utf8_lossy(&log));
    assert!(told.contains("certificate"), "{told}");
    assert_eq!(service.asked().len(), 2);
}

#[tokio::test]
async fn a_scheduler_tells_and_mails_whom_its_authority_vouches_for() {
    let directory = tempfile::tempdir().expect("there is room");
    let authority = Authority::in_directory(directory.path());
    let service = Service::start().await;
    let hooks = authority.before(service.address()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let mail = authority.before_mail(listener.local_addr().expect("it has an address")).await;
    let server = tokio::spawn(mail_server(listener));
    let mut env = vec![authority.trusted()];
    env.push(("MAIL_PASSWORD".to_owned(), "hunter2".to_owned()));
    let cluster = World::plain()
        .runner(RunnerSpec::named("one"))
        .scheduler_arg("--callback-allow=127.0.0.0/8")
        .scheduler_arg("--callback-backoff=100ms")
        .scheduler_arg("--smtp-host=localhost")
        .scheduler_arg(&format!("--smtp-port={}", mail.port()))
        .scheduler_arg("--smtp-from=Baton <baton@example.com>")
        .scheduler_arg("--smtp-user=baton")
        .scheduler_arg("--smtp-password=env:MAIL_PASSWORD")
        .scheduler_env(0, env)
        .start()
        .await;
    let callbacks = json!([
        {"events": ["failed"], "http": {"url": format!("https://localhost:{}/hook", hooks.port())}},
        {"events": ["failed"], "email": {"to": ["ops@example.com"]}},
    ]);
    let config = json!({"name": "nightly", "callbacks": callbacks, "tasks": [{"name": "load", "shell": "exit 4"}]});
    let id = cluster.run(&config.to_string()).await;
    let body: Value = serde_json::from_str(&service.asked_times(1).await.body).expect("it is JSON");
    assert_eq!(body["job"]["id"], id);
    // The password is said behind TLS alone: the front refuses everything before.
    let letter = tokio::time::timeout(PATIENCE, server).await.expect("a letter comes").expect("it is a letter");
    assert_eq!(letter.login, "AGJhdG9uAGh1bnRlcjI=");
    eventually("both are delivered", PATIENCE, async || {
        let listed =
            cluster.baton(&["get", "callbacks", &id, "--state", "delivered", "-o", "json"]).await.exits(0).json();
        listed["callbacks"].as_array().filter(|rows| rows.len() == 2).map(drop)
    })
    .await;
}
