//! HTTP requests against a real service that fails in every way there is.

mod support;

use std::{collections::HashMap, fmt::Write as _, sync::Arc, time::Duration};

use baton::v1::{self, EndReason, LogStream, SlotStatus, run_spec::Target};
use support::{Fake, Inside, Session, drawn, new_task, shell, span, within};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// What a service does on a connection, step by step; then it closes it.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<u8>),
    /// Says nothing more until the other side has gone.
    Stall,
    /// Breaks the connection off without a goodbye.
    Reset,
    /// Says this for ever.
    Endless(&'static [u8]),
    /// Says this for ever, a little at a time.
    Drip(&'static [u8]),
}

fn write(text: impl AsRef<[u8]>) -> Step {
    Step::Write(text.as_ref().to_vec())
}

fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    vec![write(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len())), write(body)]
}

fn ok(body: &str) -> Vec<Step> {
    answer("200 OK", "", body)
}

/// A service that does what a test says.
struct Service {
    port: u16,
    /// Each request as it came.
    asked: mpsc::UnboundedReceiver<String>,
    /// Each connection that the other side closed while it was told to wait.
    left: mpsc::UnboundedReceiver<()>,
}

impl Service {
    async fn start(reply: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ((tell, asked), (gone, left)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let reply = Arc::new(reply);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, reply.clone(), tell.clone(), gone.clone()));
            }
        });
        Self { port, asked, left }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    async fn asked(&mut self) -> String {
        within("a request", self.asked.recv()).await.unwrap()
    }

    fn was_not_asked(&mut self) -> bool {
        self.asked.try_recv().is_err()
    }
}

async fn serve(
    mut stream: TcpStream,
    reply: Arc<impl Fn(&str) -> Vec<Step>>,
    tell: mpsc::UnboundedSender<String>,
    gone: mpsc::UnboundedSender<()>,
) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Ok(read @ 1..) = stream.read(&mut piece).await else { return };
        request.extend_from_slice(&piece[..read]);
        // The hello of TLS is no text, and enough to know that this is one.
        if request[0] == 0x16 {
            break;
        }
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
        if request.len() >= head + 4 + length.unwrap_or(0) {
            break;
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let steps = reply(&request);
    let _ = tell.send(request);
    for step in steps {
        let going = match step {
            Step::Write(bytes) => stream.write_all(&bytes).await,
            Step::Stall => {
                while let Ok(1..) = stream.read(&mut piece).await {}
                let _ = gone.send(());
                return;
            }
            Step::Reset => {
                let _ = stream.set_zero_linger();
                return;
            }
            Step::Endless(bytes) => loop {
                if let Err(error) = stream.write_all(bytes).await {
                    break Err(error);
                }
            },
            Step::Drip(bytes) => {
                let mut beat = tokio::time::interval(Duration::from_millis(10));
                loop {
                    beat.tick().await;
                    if let Err(error) = stream.write_all(bytes).await {
                        break Err(error);
                    }
                }
            }
        };
        if going.is_err() {
            let _ = gone.send(());
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// A port where nobody listens.
async fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn http(urls: &[&str]) -> v1::HttpTarget {
    v1::HttpTarget { urls: urls.iter().map(|url| (*url).to_owned()).collect(), ..v1::HttpTarget::default() }
}

fn spec(target: v1::HttpTarget) -> v1::RunSpec {
    v1::RunSpec { target: Some(Target::Http(target)), ..shell("") }
}

/// A runner that may ask this machine.
async fn world() -> (Fake, Inside, Session) {
    world_with(&["127.0.0.0/8"]).await
}

async fn world_with(allow: &[&str]) -> (Fake, Inside, Session) {
    let mut fake = Fake::start().await;
    let runner = Inside::with(&[&fake.address], 1, |config| {
        config.http_allow = allow.iter().map(|network| network.parse().unwrap()).collect();
    });
    let session = fake.welcomed().await;
    (fake, runner, session)
}

async fn notes(fake: &Fake, task: &v1::TaskRef) -> String {
    String::from_utf8(fake.logs.whole(task, LogStream::Stderr).await.bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_is_what_the_task_says_and_whose_it_is() {
    let (fake, _runner, mut session) = world().await;
    let mut service = Service::start(|_| ok("{\"id\": 7}")).await;
    let target = v1::HttpTarget {
        headers: HashMap::from([("X-Key".to_owned(), "it's ü".to_owned())]),
        body: "{\"a\": 1}".to_owned(),
        ..http(&[&format!("{}x/y?q=1", service.url())])
    };
    let (task, result) = session.run(spec(target)).await;
    assert_eq!((result.end_reason(), result.exit_code), (EndReason::Exit, Some(0)), "{}", result.message);
    assert_eq!(&*result.output, b"{\"id\":7}");
    let request = service.asked().await;
    assert!(request.starts_with("POST /x/y?q=1 HTTP/1.1\r\n"), "{request}");
    for line in [
        "x-key: it's ü".to_owned(),
        "content-type: application/json".to_owned(),
        "accept-encoding: identity".to_owned(),
        "content-length: 8".to_owned(),
        format!("user-agent: baton/{}", env!("CARGO_PKG_VERSION")),
        format!("idempotency-key: {}-1", task.task_id),
        format!("baton-task-id: {}", task.task_id),
        "baton-task-name: task".to_owned(),
        "baton-job-name: job".to_owned(),
        "baton-attempt: 1".to_owned(),
    ] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"a\": 1}"), "{request}");
    assert!(!request.contains("baton-callback"), "nobody waits");
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"{\"id\": 7}");
    let notes = notes(&fake, &task).await;
    assert!(notes.starts_with(&format!("> POST {}x/y?q=1\n< 200 OK (connected after ", service.url())), "{notes}");
    assert!(notes.contains("< content-length: 9\n* 9 bytes after "), "{notes}");
    assert!(service.was_not_asked(), "once");
}

/// Each way to fail: what happens, and what the service does or whom else to ask.
fn ways(port: u16, nobody: u16) -> Vec<(&'static str, v1::HttpTarget, Vec<Step>)> {
    let url = format!("http://127.0.0.1:{port}/");
    let quick = |target: v1::HttpTarget| v1::HttpTarget { read_timeout: span(Duration::from_secs(1)), ..target };
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";
    let at = |url: &str| http(&[url]);
    let here = at(&url);
    let some = |target: v1::HttpTarget| v1::HttpTarget { body: "x".to_owned(), ..target };
    vec![
        ("nobody listens", at(&format!("http://127.0.0.1:{nobody}/")), vec![]),
        ("the name leads nowhere", at("http://nowhere.invalid/"), vec![]),
        ("the address is not allowed", at("http://[::1]:7/"), vec![]),
        ("the metadata of a cloud", at("http://169.254.169.254/latest/"), vec![]),
        (
            "the handshake of TLS is not answered",
            v1::HttpTarget {
                connect_timeout: span(Duration::from_millis(250)),
                ..at(&format!("https://127.0.0.1:{port}/"))
            },
            vec![Step::Stall],
        ),
        ("no TLS where it is expected", at(&format!("https://127.0.0.1:{port}/")), ok("")),
        ("it accepts and never answers", quick(here.clone()), vec![Step::Stall]),
        ("it closes without an answer", here.clone(), vec![]),
        ("it breaks off without an answer", some(here.clone()), vec![Step::Reset]),
        ("what it says is not HTTP", here.clone(), vec![write("hello\r\n\r\n")]),
        ("a status that is no success", here.clone(), answer("500 Internal Server Error", "", "sorry")),
        (
            "a status that it has no right to",
            v1::HttpTarget { success_when: Some(v1::SuccessWhen { status: vec!["404".to_owned()] }), ..here.clone() },
            ok(""),
        ),
        ("the answer stalls", quick(here.clone()), vec![write(cut), Step::Stall]),
        ("the answer is broken off", here.clone(), vec![write(cut), Step::Reset]),
        ("the answer ends too soon", here.clone(), vec![write(cut)]),
        (
            "the answer drips without end",
            v1::HttpTarget { request_timeout: span(Duration::from_millis(400)), ..here.clone() },
            vec![write("HTTP/1.1 200 OK\r\n\r\n"), Step::Drip(b"x")],
        ),
        ("a redirect to another host", here.clone(), answer("302 Found", "Location: http://other.invalid/x\r\n", "")),
        ("a redirect in a circle", here.clone(), answer("302 Found", "Location: /\r\n", "")),
        ("a redirect without a place", here.clone(), answer("302 Found", "", "")),
        (
            "a redirect to a file",
            v1::HttpTarget { redirects: v1::Redirects::Any.into(), ..here.clone() },
            answer("302 Found", "Location: file:///etc/passwd\r\n", ""),
        ),
        (
            "the answer is endless",
            v1::HttpTarget { max_response_bytes: 1_000, ..here.clone() },
            vec![write("HTTP/1.1 200 OK\r\n\r\n"), Step::Endless(b"xxxxxxxxxxxxxxxx")],
        ),
        (
            "the answer is packed, though nobody asked for it",
            here.clone(),
            answer("200 OK", "Content-Encoding: gzip\r\n", b"\x1f\x8b\x08"),
        ),
        ("the answer is no text", here, answer("200 OK", "", b"\xff\xfe\x00")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_fail_has_its_words() {
    let (_fake, _runner, mut session) = world().await;
    let mut table = "| what happens | the task | it says |\n|---|---|---|\n".to_owned();
    for way in 0..ways(0, 0).len() {
        let service = Service::start(move |_| ways(0, 0).swap_remove(way).2).await;
        let nobody = nobody().await;
        let (what, target, _) = ways(service.port, nobody).swap_remove(way);
        let (_, result) = session.run(spec(target)).await;
        assert_eq!(result.end_reason(), EndReason::Exit, "{what}: {}", result.message);
        let ended = match result.exit_code {
            Some(0) => "succeeds".to_owned(),
            Some(code) => format!("fails, exit code {code}"),
            None => "fails".to_owned(),
        };
        let mut says = result.message.replace(&service.port.to_string(), "PORT").replace(&nobody.to_string(), "PORT");
        // What the system says of a name differs from one to the next.
        if let Some(at) = says.find("cannot be resolved: ") {
            says.truncate(at + "cannot be resolved".len());
        }
        writeln!(table, "| {what} | {ended} | {says} |").unwrap();
    }
    drawn::hold("docs/http.md", "failures", &table);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_url_is_asked_where_that_does_no_harm() {
    let (fake, _runner, mut session) = world().await;
    let busy = Service::start(|_| answer("503 Service Unavailable", "", "later")).await;
    let mut good = Service::start(|_| ok("{}")).await;
    let mut last = Service::start(|_| ok("{}")).await;
    let gone = format!("http://127.0.0.1:{}/", nobody().await);
    let target = v1::HttpTarget { body: "x".to_owned(), ..http(&[&gone, &busy.url(), &good.url(), &last.url()]) };
    let (task, result) = session.run(spec(target)).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.message);
    let notes = notes(&fake, &task).await;
    let asked: Vec<&str> = notes.lines().filter_map(|line| line.strip_prefix("> POST ")).collect();
    assert_eq!(asked, [gone, busy.url(), good.url()]);
    assert_eq!(notes.matches("; asking the next url\n").count(), 2, "{notes}");
    assert!(good.asked().await.contains(&format!("idempotency-key: {}-1", task.task_id)));
    assert!(last.was_not_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_done_is_not_asked_of_another() {
    let (_fake, _runner, mut session) = world().await;
    let mut second = Service::start(|_| ok("{}")).await;
    for first in [vec![], vec![Step::Reset], answer("502 Bad Gateway", "", ""), answer("400 Bad Request", "", "")] {
        let service = Service::start(move |_| first.clone()).await;
        let target = v1::HttpTarget { body: "x".to_owned(), ..http(&[&service.url(), &second.url()]) };
        let (_, result) = session.run(spec(target)).await;
        assert_ne!(result.exit_code, Some(0));
    }
    assert!(second.was_not_asked(), "a POST is not repeated elsewhere");
    let service = Service::start(|_| vec![Step::Reset]).await;
    let (_, result) = session.run(spec(http(&[&service.url(), &second.url()]))).await;
    assert_eq!(result.exit_code, Some(0), "a GET may be: {}", result.message);
    second.asked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_near_is_asked_unless_the_runner_allows_it() {
    let (_fake, _runner, mut session) = world_with(&[]).await;
    let mut service = Service::start(|_| ok("{}")).await;
    let port = service.port;
    // By address in every spelling, and by a name that leads here.
    for host in
        ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "localhost"]
    {
        let (_, result) = session.run(spec(http(&[&format!("http://{host}:{port}/")]))).await;
        assert_eq!(result.exit_code, None, "{host}");
        assert!(result.message.contains("--http-allow"), "{host}: {}", result.message);
    }
    assert!(service.was_not_asked());
    let (_fake, _runner, mut session) = world_with(&["127.0.0.1"]).await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let (_, result) = session.run(spec(http(&[&format!("http://{host}:{port}/")]))).await;
        assert_eq!(result.exit_code, Some(0), "{host}: {}", result.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_does_not_get_round_what_is_allowed() {
    let (_fake, _runner, mut session) = world_with(&["127.0.0.1"]).await;
    let mut inner = Service::start(|_| ok("{}")).await;
    let location = format!("Location: http://127.0.0.2:{}/\r\n", inner.port);
    let outer = Service::start(move |_| answer("307 Temporary Redirect", &location, "")).await;
    let target = v1::HttpTarget { redirects: v1::Redirects::Any.into(), ..http(&[&outer.url()]) };
    let (_, result) = session.run(spec(target)).await;
    assert!(result.message.contains("127.0.0.2 is a loopback address"), "{}", result.message);
    assert!(inner.was_not_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_does_not_see_the_headers_of_the_task() {
    let (_fake, _runner, mut session) = world().await;
    let mut inner = Service::start(|_| ok("{}")).await;
    let location = inner.url();
    let mut outer = Service::start(move |request: &str| {
        let location = if request.contains(" /again ") { &*location } else { "/again" };
        answer("307 Temporary Redirect", &format!("Location: {location}\r\n"), "")
    })
    .await;
    let target = v1::HttpTarget {
        headers: HashMap::from([("Authorization".to_owned(), "Bearer secret".to_owned())]),
        body: "x".to_owned(),
        redirects: v1::Redirects::Any.into(),
        ..http(&[&outer.url()])
    };
    let callback = v1::HttpCompletion { token: "the-token".to_owned(), url: "http://b/the-token".to_owned() };
    let (_, result) = session.run(v1::RunSpec { completion: Some(callback), ..spec(target) }).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.message);
    for _ in 0..2 {
        let request = outer.asked().await;
        assert!(request.contains("Bearer secret") && request.contains("the-token"), "its own host does: {request}");
    }
    let request = inner.asked().await;
    assert!(request.starts_with("POST / ") && request.ends_with("\r\n\r\nx"), "{request}");
    assert!(request.contains("content-type: text/plain"), "{request}");
    assert!(
        !request.contains("secret") && !request.contains("the-token") && !request.contains("baton-task"),
        "{request}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_logged_as_it_is_and_the_log_hides_what_opens_doors() {
    let (fake, _runner, mut session) = world().await;
    let service = Service::start(|_| answer("200 OK", "Set-Cookie: session=secret\r\n", b"\x00\xff\r\n\x1b[1m")).await;
    let callback = v1::HttpCompletion { token: "the-token".to_owned(), url: "http://b/the-token".to_owned() };
    let target = http(&[&format!("{}?done=the-token", service.url())]);
    let (task, result) = session.run(v1::RunSpec { completion: Some(callback), ..spec(target) }).await;
    assert_eq!(result.exit_code, Some(0));
    assert_eq!(result.stdout_bytes, 8);
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"\x00\xff\r\n\x1b[1m");
    let notes = notes(&fake, &task).await;
    assert!(notes.contains("set-cookie: ***") && notes.contains("?done=***"), "{notes}");
    assert!(!notes.contains("secret") && !notes.contains("the-token"), "{notes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_breaks_the_request_off_at_once() {
    let (fake, _runner, mut session) = world().await;
    let mut service = Service::start(|_| vec![Step::Stall]).await;
    let task = new_task();
    session.run_new(0, &task, spec(http(&[&service.url()])));
    service.asked().await;
    // A grace would be for processes; nobody waits for it here.
    session.reset(&task, Some(Duration::from_hours(1)));
    let result = session.result(&task).await;
    assert_eq!((result.end_reason(), result.exit_code), (EndReason::Reset, Some(499)));
    within("the end of the connection", service.left.recv()).await.unwrap();
    assert!(notes(&fake, &task).await.ends_with("* broken off\n"));
    assert!(service.was_not_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_of_the_task_ends_the_request() {
    let (_fake, _runner, mut session) = world().await;
    let mut service = Service::start(|_| vec![Step::Stall]).await;
    let timeout = span(Duration::from_millis(300));
    let (_, result) = session.run(v1::RunSpec { timeout, ..spec(http(&[&service.url()])) }).await;
    assert_eq!(result.end_reason(), EndReason::Timeout);
    assert_eq!(result.message, "the request was broken off");
    within("the end of the connection", service.left.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_stops_gives_its_requests_back() {
    let (_fake, runner, mut session) = world().await;
    let mut service = Service::start(|_| vec![Step::Stall]).await;
    let task = new_task();
    session.run_new(0, &task, spec(http(&[&service.url()])));
    service.asked().await;
    runner.stop();
    assert_eq!(session.result(&task).await.end_reason(), EndReason::RunnerStop);
    within("the end of the runner", runner.ended).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_cut_off_for_too_long_ends_its_requests() {
    let (_fake, _runner, mut session) = world().await;
    let mut service = Service::start(|_| vec![Step::Stall]).await;
    let task = new_task();
    let self_stop_after = span(Duration::from_millis(500));
    session.run_new(0, &task, v1::RunSpec { self_stop_after, ..spec(http(&[&service.url()])) });
    service.asked().await;
    session.answer(support::Answers::Unacked);
    assert_eq!(session.result(&task).await.end_reason(), EndReason::SelfStop);
    within("the end of the connection", service.left.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_its_callback_holds_its_slot_and_no_connection() {
    let (fake, _runner, mut session) = world().await;
    let mut service = Service::start(|_| answer("202 Accepted", "", "{\"queued\": 1}")).await;
    let target = v1::HttpTarget { wait_for_callback: true, ..http(&[&service.url()]) };
    let callback = v1::HttpCompletion { token: "t".repeat(64), url: format!("http://b/{}", "t".repeat(64)) };
    let task = new_task();
    session.run_new(0, &task, v1::RunSpec { completion: Some(callback.clone()), ..spec(target.clone()) });
    let request = service.asked().await;
    assert!(request.contains(&format!("\r\nbaton-callback-url: {}\r\n", callback.url)), "{request}");
    assert!(request.contains(&format!("\r\nbaton-callback-token: {}\r\n", callback.token)), "{request}");
    let waits = |log: &support::Log| log.bytes.ends_with(b"* waiting for the callback\n");
    fake.logs.wait(&task, LogStream::Stderr, waits).await;
    let beat = session.report(|report| report.task.as_ref() == Some(&task)).await;
    assert_eq!(beat.status(), SlotStatus::Running);
    session.reset(&task, None);
    let result = session.result(&task).await;
    assert_eq!((result.end_reason(), &*result.message), (EndReason::Reset, "no callback came"));
    // Of a failure nobody waits for a callback.
    let service = Service::start(|_| answer("500 Internal Server Error", "", "")).await;
    let target = v1::HttpTarget { urls: vec![service.url()], ..target };
    let (_, result) = session.run(v1::RunSpec { completion: Some(callback.clone()), ..spec(target.clone()) }).await;
    assert_eq!(result.exit_code, Some(500));
    // The timeout of the task ends the wait.
    let service = Service::start(|_| ok("")).await;
    let target = v1::HttpTarget { urls: vec![service.url()], ..target };
    let timeout = span(Duration::from_millis(300));
    let (_, result) = session.run(v1::RunSpec { completion: Some(callback), timeout, ..spec(target) }).await;
    assert_eq!((result.end_reason(), &*result.message), (EndReason::Timeout, "no callback came"));
}
