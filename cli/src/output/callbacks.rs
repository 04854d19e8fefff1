//! Callbacks in words: what is told to whom, and how it looks.

use baton::v1::{Callback, CallbackState, callback::Action};

use super::{
    glyphs::{Look, look},
    text::Tone,
};

/// How a delivery looks.
pub fn state(state: CallbackState) -> Look {
    match state {
        CallbackState::Unspecified => look("?", "unknown", Tone::Warn),
        CallbackState::Pending => look("◌", "pending", Tone::Warn),
        CallbackState::Delivered => look("✔", "delivered", Tone::Good),
        CallbackState::GivenUp => look("✖", "given up", Tone::Bad),
    }
}

/// How it is told and to whom.
pub fn receiver(callback: &Callback) -> String {
    match &callback.action {
        Some(Action::Http(http)) => format!("http {}", http.url),
        Some(Action::Email(email)) => format!("email {}", email.to.join(",")),
        Some(Action::Job(job)) => format!("job {}", job.name),
        None => String::new(),
    }
}

/// A callback of a definition in a line.
pub fn words(callback: &Callback) -> String {
    let events: Vec<String> = callback
        .events()
        .map(|event| event.as_str_name().trim_start_matches("CALLBACK_EVENT_").to_lowercase())
        .collect();
    let blocking = if callback.blocking { ", blocking" } else { "" };
    format!("{} → {}{blocking}", events.join(", "), receiver(callback))
}

#[cfg(test)]
mod tests {
    use baton::v1::{CallbackEvent, EmailCallback};

    use super::*;

    #[test]
    fn a_callback_is_said_in_a_line() {
        let callback = Callback {
            events: vec![CallbackEvent::Failed.into(), CallbackEvent::Slow.into()],
            action: Some(Action::Email(EmailCallback {
                to: vec!["a@b".into(), "c@d".into()],
                ..EmailCallback::default()
            })),
            blocking: true,
        };
        assert_eq!(words(&callback), "failed, slow → email a@b,c@d, blocking");
    }
}
