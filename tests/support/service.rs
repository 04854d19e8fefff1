//! A service that HTTP tasks ask: it echoes what it was asked, answers with the status that is asked for, and calls back.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use crate::wait::PATIENCE;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Asked {
    /// The value of a header; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A service on a free port of this machine.
#[derive(Debug, Clone)]
pub struct Service {
    port: u16,
    asked: Arc<(Mutex<Vec<Asked>>, Notify)>,
}

impl Service {
    /// Starts it; it goes on until the test ends. What it does depends on the path:
    ///
    /// - `/status/404`: that status;
    /// - `/hang`: no answer;
    /// - `/work`: 202, then the callback, with what it was asked as output;
    /// - anything else: 200, and what it was asked as JSON.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let service = Self { port, asked: Arc::default() };
        let serving = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = serving.clone();
                tokio::spawn(async move { service.serve(stream).await });
            }
        });
        service
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The address of something there.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Everything it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.0.lock().expect("nobody panics with it").clone()
    }

    /// Waits until it was asked so often, and tells the last request.
    pub async fn asked_times(&self, times: usize) -> Asked {
        let asking = async {
            loop {
                let told = self.asked.1.notified();
                let asked = self.asked();
                if asked.len() >= times {
                    return asked[times - 1].clone();
                }
                told.await;
            }
        };
        timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("waited in vain for {times} requests"))
    }

    async fn serve(self, mut stream: TcpStream) -> Option<()> {
        let asked = request(&mut stream).await?;
        self.asked.0.lock().expect("nobody panics with it").push(asked.clone());
        let echo = json!({ "method": asked.method, "path": asked.path, "body": asked.body });
        let status = match asked.path.split('/').collect::<Vec<_>>().as_slice() {
            ["", "hang"] => {
                self.asked.1.notify_waiters();
                // Until the other side has gone.
                let mut piece = [0; 64];
                while let Ok(1..) = stream.read(&mut piece).await {}
                return None;
            }
            ["", "status", status] => (*status).to_owned(),
            ["", "work"] => "202".to_owned(),
            _ => "200".to_owned(),
        };
        let body = echo.to_string();
        let answer = format!("HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()?;
        if asked.path == "/work" {
            post(asked.header("baton-callback-url"), &json!({ "output": echo }).to_string()).await;
        }
        self.asked.1.notify_waiters();
        Some(())
    }
}

async fn request(stream: &mut TcpStream) -> Option<Asked> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let asked = Asked { method: words.next()?.into(), path: words.next()?.into(), headers, body: body.to_owned() };
        if body.len() >= asked.header("content-length").parse().unwrap_or(0) {
            return Some(asked);
        }
    }
}

/// What somebody who is no client of ours sends, as `curl -d` would: the status, and the body of the answer.
///
/// # Panics
/// When nobody answers.
pub async fn post(url: &str, body: &str) -> (u16, String) {
    let head = format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
    say("POST", url, &head, body.as_bytes()).await
}

/// Any HTTP/1.1 request: the status, and the body of the answer.
///
/// # Panics
/// When nobody answers.
pub async fn say(method: &str, url: &str, head: &str, body: &[u8]) -> (u16, String) {
    let rest = url.strip_prefix("http://").expect("a url of this machine");
    let (host, path) = rest.split_once('/').expect("a url with a path");
    let mut stream = TcpStream::connect(host).await.expect("somebody listens");
    let head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{head}\r\n");
    stream.write_all(head.as_bytes()).await.expect("it takes the head");
    // It may refuse a body before it has read it.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "waited in vain for an answer to {method} {url}");
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {url}: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}
