//! Whether an `http` task can be asked for at all.

use std::time::Duration;

use super::super::{
    Http, TaskConfig,
    http::{self, HEADERS_MAX, METHODS, RESPONSES, STATUSES_MAX, URLS_MAX},
    problem::{Part, Path, Problem, did_you_mean},
};
use crate::domain::template;

/// Checks the target of a task; `timeout` is the one that holds for it.
pub(super) fn check(
    task: &TaskConfig,
    target: &Http,
    timeout: Option<Duration>,
    path: &Path,
    problems: &mut Vec<Problem>,
) {
    let http = path.key("http");
    method(target, &http, problems);
    let urls = http.key("urls");
    if target.urls.is_empty() {
        let problem = Problem::new(urls, format!("task {:?} asks nowhere", task.name)).about(Part::Missing);
        problems.push(problem.suggest("set urls: [\"https://host/path\"]".to_owned()));
    } else if target.urls.len() > URLS_MAX {
        problems.push(Problem::new(urls, format!("{} urls; at most {URLS_MAX}", target.urls.len())));
    }
    if target.headers.len() > HEADERS_MAX {
        problems.push(Problem::new(
            http.key("headers"),
            format!("{} headers; at most {HEADERS_MAX}", target.headers.len()),
        ));
    }
    let mut names: Vec<String> = Vec::new();
    for name in target.headers.keys() {
        let here = http.key("headers").key(name.clone());
        if let Err(message) = http::check_header_name(name) {
            problems.push(Problem::new(here.clone(), message).about(Part::Key));
        }
        let lower = name.to_ascii_lowercase();
        if names.contains(&lower) {
            problems.push(Problem::new(here, format!("the header {name:?} stands here twice")).about(Part::Key));
        }
        names.push(lower);
    }
    for (place, text) in target.texts() {
        // What a template comes to is known when it is filled in, and checked then.
        let checked = if template::is_template(text) { Ok(()) } else { http::check_text(place, text) };
        if let Err(message) = checked {
            let here = match place {
                http::Place::Url(at) => http.key("urls").index(at),
                http::Place::Header(name) => http.key("headers").key(name.to_owned()),
                http::Place::Body => http.key("body"),
            };
            problems.push(Problem::new(here, message));
        }
    }
    for (name, timeout) in [
        ("connect_timeout", target.connect_timeout),
        ("read_timeout", target.read_timeout),
        ("request_timeout", target.request_timeout),
    ] {
        super::timeout(timeout, &http.key(name), problems);
    }
    success(target, &http.key("success_when").key("status"), problems);
    if target.max_response_bytes.is_some_and(|bytes| !RESPONSES.contains(&bytes)) {
        let message = format!("of a response {} to {} bytes can be read", RESPONSES.start(), RESPONSES.end());
        problems.push(Problem::new(http.key("max_response_bytes"), message));
    }
    if target.wait_for_callback && timeout.is_none() {
        let message = format!(
            "task {:?} waits for a callback and has no timeout: if none came, it would wait for ever",
            task.name
        );
        problems
            .push(Problem::new(http.key("wait_for_callback"), message).suggest("set timeout on the task".to_owned()));
    }
    // Both mean something to processes alone, and would be passed over in silence.
    if let Some(name) = task.env.keys().next() {
        let problem =
            Problem::new(path.key("env").key(name.clone()), "an http task has no environment").about(Part::Key);
        problems.push(problem.suggest("send values in http.headers or http.body".to_owned()));
    }
    if !task.working_dir.is_empty() {
        problems.push(Problem::new(path.key("working_dir"), "an http task runs in no directory"));
    }
}

fn method(target: &Http, path: &Path, problems: &mut Vec<Problem>) {
    let method = target.method.as_str();
    if method.is_empty() {
        return;
    }
    if !METHODS.contains(&method) {
        let hint = did_you_mean(&method.to_ascii_uppercase(), METHODS)
            .or_else(|| {
                METHODS
                    .contains(&method.to_ascii_uppercase().as_str())
                    .then(|| format!("write {}", method.to_ascii_uppercase()))
            })
            .unwrap_or_else(|| format!("it is one of {}", METHODS.join(", ")));
        problems.push(Problem::new(path.key("method"), format!("{method:?} is no method")).suggest(hint));
    } else if matches!(method, "GET" | "HEAD") && !target.body.is_empty() {
        let problem = Problem::new(path.key("body"), format!("a {method} request has no body"));
        problems.push(problem.suggest("leave method out, or set it to POST, PUT or PATCH".to_owned()));
    }
}

fn success(target: &Http, path: &Path, problems: &mut Vec<Problem>) {
    if target.success_when.len() > STATUSES_MAX {
        let message = format!("{} statuses and ranges; at most {STATUSES_MAX}", target.success_when.len());
        problems.push(Problem::new(path.clone(), message));
    }
    for (place, text) in target.success_when.iter().enumerate() {
        if let Err(message) = http::statuses(text) {
            problems.push(Problem::new(path.index(place), message));
        }
    }
}
