//! Callbacks: each tells something that can happen, to a receiver that makes sense, and shows no secret.

use std::collections::BTreeMap;

use super::{
    super::{
        JobConfig, Target,
        callback::{Action, Callback, Email, Secret, StartJob, Webhook},
        limits::{CALLBACKS_MAX, HEADER_MAX, HEADERS_MAX, RECIPIENTS_MAX, SUBJECT_MAX, URL_MAX},
        problem::{Part, Path, Problem, did_you_mean},
    },
    names, sizes,
};
use crate::domain::{
    callback::Event,
    reference::{Fault, Name},
    template,
};

/// Headers that a webhook is given by Baton or by HTTP itself.
const RESERVED_HEADERS: [&str; 8] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "idempotency-key",
    "user-agent",
    "te",
];
/// Headers whose values are secrets.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

/// What the callbacks belong to.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Job,
    Task,
}

/// Tells everything that is wrong with the callbacks of a definition.
pub(super) fn check(config: &JobConfig, problems: &mut Vec<Problem>) {
    let root = Path::default();
    let unwatched = config.warn_after.is_none().then_some("set warn_after of the job config");
    list(config, &config.callbacks, Of::Job, unwatched, &root.key("callbacks"), problems);
    for (place, task) in config.tasks.iter().enumerate().filter(|(_, task)| !task.callbacks.is_empty()) {
        let path = root.key("tasks").index(place).key("callbacks");
        let unwatched = match task.target {
            Target::Job(_) => Some("let the definition of the job tell it, and set warn_after there"),
            _ if task.warn_after.or(config.task_defaults.warn_after).is_none() => Some("set warn_after of the task"),
            _ => None,
        };
        list(config, &task.callbacks, Of::Task, unwatched, &path, problems);
    }
}

fn list(
    config: &JobConfig,
    callbacks: &[Callback],
    of: Of,
    unwatched: Option<&str>,
    path: &Path,
    problems: &mut Vec<Problem>,
) {
    if callbacks.len() > CALLBACKS_MAX {
        problems.push(Problem::new(path.clone(), format!("{} callbacks; at most {CALLBACKS_MAX}", callbacks.len())));
        return;
    }
    for (place, callback) in callbacks.iter().enumerate() {
        let path = path.index(place);
        events(callback, of, unwatched, &path, problems);
        match &callback.action {
            Action::Http(webhook) => self::webhook(webhook, &path.key("http"), problems),
            Action::Email(email) => self::email(config, email, &path.key("email"), problems),
            Action::Job(job) => start_job(config, job, &path.key("job"), problems),
        }
    }
}

/// What it tells of can come about. Where nobody looks how long it takes, `unwatched` says what to do.
fn events(callback: &Callback, of: Of, unwatched: Option<&str>, path: &Path, problems: &mut Vec<Problem>) {
    let here = path.key("events");
    if callback.events.is_empty() {
        let problem = Problem::new(here, "the callback tells of no event").about(Part::Missing);
        problems.push(problem.suggest("name what it tells of: events: [failed]".to_owned()));
        return;
    }
    for (place, event) in callback.events.iter().enumerate() {
        if of == Of::Task && !event.of_tasks() {
            let problem = Problem::new(here.index(place), format!("{:?} never happens to a task", event.name()));
            problems.push(problem.suggest("put it into the callbacks of the job config".to_owned()));
        }
        if let Some(hint) = unwatched.filter(|_| *event == Event::Slow) {
            let problem = Problem::new(here.index(place), "without warn_after nothing is ever \"slow\"");
            problems.push(problem.suggest(hint.to_owned()));
        }
        if callback.events[..place].contains(event) {
            problems.push(Problem::new(here.index(place), format!("{:?} stands here twice", event.name())));
        }
    }
    if !callback.blocking {
        return;
    }
    let here = path.key("blocking");
    if of == Of::Job {
        let problem = Problem::new(here, "a job ends with its tasks, so that a callback of its own cannot hold it");
        problems.push(problem.suggest("put it into the callbacks of the job's last task".to_owned()));
    } else if let Some(event) = callback.events.iter().find(|event| !event.can_block()) {
        let message =
            format!("a callback of {:?} has nothing to hold: blocking ones tell of finished and failed", event.name());
        problems.push(Problem::new(here, message).suggest("make two callbacks of it".to_owned()));
    }
}

fn webhook(webhook: &Webhook, path: &Path, problems: &mut Vec<Problem>) {
    let here = path.key("url");
    if webhook.url.is_empty() {
        let problem = Problem::new(here, "the webhook has no url").about(Part::Missing);
        problems.push(problem.suggest("url: https://hooks.example.com/baton".to_owned()));
    } else if let Err(message) = url(&webhook.url) {
        problems.push(Problem::new(here, message));
    }
    let together = webhook.headers.len() + webhook.secret_headers.len();
    if together > HEADERS_MAX {
        problems.push(Problem::new(path.key("headers"), format!("{together} headers; at most {HEADERS_MAX}")));
    }
    headers(&webhook.headers, &path.key("headers"), problems);
    for (name, value) in &webhook.headers {
        if SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let problem =
                Problem::new(path.key("headers").key(name.clone()), format!("the value of {name} is a secret"));
            problems
                .push(problem.about(Part::Key).suggest(format!("secret_headers: {{{name}: env:BATON_SECRET_NAME}}")));
        } else if value.len() > HEADER_MAX || value.chars().any(|c| c.is_control() || !c.is_ascii()) {
            let message = format!("a header's value has at most {HEADER_MAX} bytes of printable ASCII");
            problems.push(Problem::new(path.key("headers").key(name.clone()), message));
        }
    }
    headers(&webhook.secret_headers, &path.key("secret_headers"), problems);
    for (name, reference) in &webhook.secret_headers {
        if let Err(message) = Secret::parse(reference) {
            problems.push(Problem::new(path.key("secret_headers").key(name.clone()), message));
        }
        if webhook.headers.keys().any(|other| other.eq_ignore_ascii_case(name)) {
            let message = format!("{name} is set among the headers, too");
            problems.push(Problem::new(path.key("secret_headers").key(name.clone()), message).about(Part::Key));
        }
    }
    if !webhook.secret.is_empty()
        && let Err(message) = Secret::parse(&webhook.secret)
    {
        problems.push(Problem::new(path.key("secret"), message));
    }
}

/// What a url must be to be dialed, and to show no password.
fn url(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or("a url begins with https:// or http://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if url.len() > URL_MAX {
        return Err(format!("the url has {} bytes; at most {URL_MAX}", url.len()));
    }
    if host.contains('@') {
        return Err("a url shows no user and password: put them into secret_headers".to_owned());
    }
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(name, _)| name);
    if name.is_empty() {
        return Err("the url names no host".to_owned());
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) || template::is_template(url) {
        return Err("a url has no blanks, and is no template".to_owned());
    }
    Ok(())
}

fn headers(headers: &BTreeMap<String, String>, path: &Path, problems: &mut Vec<Problem>) {
    for name in headers.keys() {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let lower = name.to_ascii_lowercase();
        let message = if name.is_empty() || name.len() > HEADER_MAX || !name.bytes().all(token) {
            format!("{name:?} is no name of a header")
        } else if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("baton-") {
            format!("{name} is set by Baton")
        } else {
            continue;
        };
        problems.push(Problem::new(path.key(name.clone()), message).about(Part::Key));
    }
}

fn email(config: &JobConfig, email: &Email, path: &Path, problems: &mut Vec<Problem>) {
    let here = path.key("to");
    if email.to.is_empty() {
        let problem = Problem::new(here.clone(), "the mail goes to nobody").about(Part::Missing);
        problems.push(problem.suggest("to: [ops@example.com]".to_owned()));
    } else if email.to.len() > RECIPIENTS_MAX {
        problems.push(Problem::new(here.clone(), format!("{} receivers; at most {RECIPIENTS_MAX}", email.to.len())));
    }
    for (place, address) in email.to.iter().enumerate() {
        if !is_address(address) {
            let message = format!("{address:?} is no mail address such as ops@example.com");
            problems.push(Problem::new(here.index(place), message));
        }
    }
    if email.subject.len() > SUBJECT_MAX || email.subject.chars().any(char::is_control) {
        let message = format!("a subject is one line of at most {SUBJECT_MAX} bytes");
        problems.push(Problem::new(path.key("subject"), message));
    }
    over_event(config, &email.subject, &path.key("subject"), problems);
}

/// Whether a text can be the address of a mailbox. What is finer is for the mail server to say.
fn is_address(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else { return false };
    let plain = |c: char| c.is_ascii_graphic() && !"()<>[]:;@\\,\"".contains(c);
    !user.is_empty()
        && text.len() <= 254
        && user.chars().all(plain)
        && !host.is_empty()
        && host.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

fn start_job(config: &JobConfig, job: &StartJob, path: &Path, problems: &mut Vec<Problem>) {
    names::check("the job config", &job.name, &path.key("name"), problems);
    sizes::params(&job.params, &path.key("params"), problems);
    for (name, value) in &job.params {
        over_event(config, value, &path.key("params").key(name.clone()), problems);
    }
}

/// A template over an event: it names the event, the job and the job's params.
fn over_event(config: &JobConfig, text: &str, path: &Path, problems: &mut Vec<Problem>) {
    let told = |fault: Fault| {
        let part = if fault.at.is_empty() { Part::Value } else { Part::Bytes(fault.at) };
        Problem::new(path.clone(), fault.message).about(part).suggest(fault.suggestion)
    };
    let references = match template::check(text) {
        Ok(references) => references,
        Err(faults) => return problems.extend(faults.into_iter().map(told)),
    };
    for reference in references {
        let fault = match &reference.name {
            Name::Param(name) if !config.params.contains_key(name) => {
                let meant = did_you_mean(name, config.params.keys().map(String::as_str));
                let mut fault = Fault::new(format!("the job has no param {name:?}"), reference.at);
                fault.suggestion = meant.or_else(|| Some(format!("declare it: params: {{{name}: \"\"}}")));
                fault
            }
            Name::Event(_) | Name::Param(_) | Name::Job(_) | Name::LogicalTime => continue,
            Name::State(_) | Name::Output(_) => {
                let fault = Fault::new("a callback cannot name tasks", reference.at);
                fault.suggest("there is event.task, event.state and event.output of the task it tells of")
            }
            Name::Shard(_) | Name::Callback(_) | Name::Unknown(_) => {
                let fault = Fault::new("this name is unknown to a callback", reference.at);
                fault.suggest("there is event, job, params, logical_time")
            }
        };
        problems.push(told(fault));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::read;

    fn wrong(callbacks: &str, of_task: &str) -> Vec<String> {
        let source = format!(
            "name: a\nparams: {{day: x}}\ncallbacks: [{callbacks}]\ntasks: [{{name: t, shell: 'true', callbacks: [{of_task}]}}]\n"
        );
        match read(&source, "default") {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(|problem| format!("{} {}", problem.path, problem.message)).collect(),
        }
    }

    fn one(callbacks: &str, of_task: &str, path: &str, part: &str) {
        let told = wrong(callbacks, of_task);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(path) && told[0].contains(part), "{told:?}");
    }

    #[test]
    fn callbacks_that_make_sense_are_taken() {
        let job = "{events: [started, finished, failed, terminated, skipped, missed], http: {url: 'https://h/x', secret: 'env:BATON_SECRET_A', secret_headers: {Authorization: 'file:b'}}}, \
                   {events: [failed], email: {to: [a@b.example], subject: 'no {{ event.name }} of {{ job.name }} on {{ params.day }}'}}, \
                   {events: [finished], job: {name: next, params: {of: '{{ job.id }}', day: '{{ params.day }}'}}}";
        let task =
            "{events: [finished, failed], blocking: true, http: {url: 'http://[::1]:80/x', headers: {X-Team: data}}}";
        assert_eq!(wrong(job, task), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_happen_is_not_listened_for() {
        let http = "http: {url: 'https://h/x'}";
        one("", &format!("{{events: [missed], {http}}}"), "tasks[0].callbacks[0].events[0]", "never happens to a task");
        one(&format!("{{events: [failed, failed], {http}}}"), "", "callbacks[0].events[1]", "twice");
        let slow = format!("{{events: [slow], {http}}}");
        one(&slow, "", "callbacks[0].events[0]", "without warn_after nothing is ever \"slow\"");
        one("", &slow, "tasks[0].callbacks[0].events[0]", "without warn_after nothing is ever \"slow\"");
        let watched = format!(
            "name: a\nwarn_after: 1h\ntask_defaults: {{warn_after: 1m}}\ncallbacks: [{slow}]\n\
             tasks: [{{name: t, shell: x, callbacks: [{slow}]}}]\n"
        );
        assert!(read(&watched, "default").is_ok());
        one(&format!("{{{http}}}"), "", "callbacks[0].events", "no event");
        one(&format!("{{events: [fialed], {http}}}"), "", "callbacks[0].events[0]", "\"fialed\" is unknown");
        one(&format!("{{events: [failed], blocking: true, {http}}}"), "", "callbacks[0].blocking", "cannot hold it");
        one(
            "",
            &format!("{{events: [skipped], blocking: true, {http}}}"),
            "tasks[0].callbacks[0].blocking",
            "nothing to hold",
        );
    }

    #[test]
    fn secrets_are_not_written_into_a_definition() {
        one("{events: [failed], http: {url: 'https://u:p@h/x'}}", "", "callbacks[0].http.url", "no user and password");
        one(
            "{events: [failed], http: {url: 'https://h', headers: {authorization: x}}}",
            "",
            "callbacks[0].http.headers",
            "is a secret",
        );
        one(
            "{events: [failed], http: {url: 'https://h', secret: hunter2}}",
            "",
            "callbacks[0].http.secret",
            "no reference to a secret",
        );
        one(
            "{events: [failed], http: {url: 'https://h', secret_headers: {A: 'env:HOME'}}}",
            "",
            "callbacks[0].http.secret_headers",
            "BATON_SECRET_",
        );
    }

    #[test]
    fn receivers_must_make_sense() {
        one("{events: [failed], http: {url: 'ftp://h'}}", "", "callbacks[0].http.url", "begins with https://");
        one("{events: [failed], http: {url: 'https://:80/'}}", "", "callbacks[0].http.url", "names no host");
        one(
            "{events: [failed], http: {url: 'https://h', headers: {Host: a}}}",
            "",
            "callbacks[0].http.headers",
            "set by Baton",
        );
        one("{events: [failed], email: {to: [nobody]}}", "", "callbacks[0].email.to[0]", "no mail address");
        one("{events: [failed], email: {subject: x}}", "", "callbacks[0].email.to", "goes to nobody");
        one("{events: [failed], job: {name: 'A b'}}", "", "callbacks[0].job.name", "");
        one(
            "{events: [failed], job: {name: b, params: {x: '{{ params.dya }}'}}}",
            "",
            "callbacks[0].job.params",
            "no param \"dya\"",
        );
        one(
            "{events: [failed], job: {name: b, params: {x: \"{{ tasks['t'].state }}\"}}}",
            "",
            "callbacks[0].job.params",
            "cannot name tasks",
        );
        one("{events: [failed]}", "", "callbacks[0]", "one of http, email, job must be set");
    }
}
