//! Callbacks as messages and back.

use baton::v1;

use super::{Fields, sorted, timestamp, unsorted};
use crate::{
    domain::{
        callback::{Event, State},
        definition::{
            Callback,
            callback::{Action, Email, StartJob, Webhook},
        },
    },
    store::read,
};

pub(crate) fn callback(callback: &Callback) -> v1::Callback {
    let action = match &callback.action {
        Action::Http(webhook) => v1::callback::Action::Http(v1::HttpCallback {
            url: webhook.url.clone(),
            headers: unsorted(&webhook.headers),
            secret_headers: unsorted(&webhook.secret_headers),
            secret: webhook.secret.clone(),
        }),
        Action::Email(email) => {
            v1::callback::Action::Email(v1::EmailCallback { to: email.to.clone(), subject: email.subject.clone() })
        }
        Action::Job(job) => {
            v1::callback::Action::Job(v1::JobCallback { name: job.name.clone(), params: unsorted(&job.params) })
        }
    };
    v1::Callback {
        events: callback.events.iter().map(|known| event(*known).into()).collect(),
        action: Some(action),
        blocking: callback.blocking,
    }
}

pub(crate) fn event(event: Event) -> v1::CallbackEvent {
    match event {
        Event::Started => v1::CallbackEvent::Started,
        Event::Slow => v1::CallbackEvent::Slow,
        Event::Finished => v1::CallbackEvent::Finished,
        Event::Failed => v1::CallbackEvent::Failed,
        Event::Terminated => v1::CallbackEvent::Terminated,
        Event::Skipped => v1::CallbackEvent::Skipped,
        Event::Missed => v1::CallbackEvent::Missed,
    }
}

/// A delivery; what it tells is there only when one is read.
pub(crate) fn delivery(row: read::Callback) -> v1::CallbackDelivery {
    let state = match row.state {
        State::Pending => v1::CallbackState::Pending,
        State::Delivered => v1::CallbackState::Delivered,
        State::GivenUp => v1::CallbackState::GivenUp,
    };
    let definition = Callback { events: vec![row.event], action: row.action, blocking: row.blocking };
    v1::CallbackDelivery {
        id: row.id.to_string(),
        event_id: row.event_id.to_string(),
        event: event(row.event).into(),
        namespace: row.namespace,
        job_config: row.config,
        job_id: row.job_id.map(|id| id.to_string()).unwrap_or_default(),
        task: row.task,
        position: row.position,
        callback: Some(callback(&definition)),
        state: state.into(),
        tries: row.tries,
        next_try_time: row.next_try_at.map(timestamp),
        response_code: row.response_code,
        last_error: row.last_error,
        started_job_id: row.made_job_id.map(|id| id.to_string()).unwrap_or_default(),
        create_time: Some(timestamp(row.created_at)),
        end_time: row.ended_at.map(timestamp),
        payload: row.payload,
    }
}

impl Fields {
    pub(super) fn callbacks(&mut self, field: &str, callbacks: Vec<v1::Callback>) -> Vec<Callback> {
        let callbacks = callbacks.into_iter().enumerate();
        callbacks.map(|(place, callback)| self.callback(&format!("{field}[{place}]"), callback)).collect()
    }

    fn callback(&mut self, field: &str, callback: v1::Callback) -> Callback {
        let mut events = Vec::with_capacity(callback.events.len());
        for (place, number) in callback.events.into_iter().enumerate() {
            match Event::ALL.into_iter().find(|known| i32::from(event(*known)) == number) {
                Some(event) => events.push(event),
                None => self.refuse(format!("{field}.events[{place}]"), "is no event"),
            }
        }
        let action = match callback.action {
            Some(v1::callback::Action::Http(http)) => Action::Http(Webhook {
                url: http.url,
                headers: sorted(http.headers),
                secret_headers: sorted(http.secret_headers),
                secret: http.secret,
            }),
            Some(v1::callback::Action::Email(email)) => Action::Email(Email { to: email.to, subject: email.subject }),
            Some(v1::callback::Action::Job(job)) => {
                Action::Job(StartJob { name: job.name, params: sorted(job.params) })
            }
            None => {
                self.refuse(field, "says nothing to do: one of http, email, job must be set");
                Action::default()
            }
        };
        Callback { events, action, blocking: callback.blocking }
    }
}
