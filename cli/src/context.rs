//! What every command is given: how to print, whom to ask, in which namespace.

use std::time::Duration;

use baton::v1::ScheduleLanguage;
use tokio::sync::OnceCell;

use crate::{
    args::{Global, Words},
    client::Client,
    errors::Error,
    output::Output,
};

/// The surroundings of a command.
#[derive(Debug)]
pub struct Context {
    /// How to print.
    pub output: Output,
    /// The namespace that was asked for; empty means the scheduler's default, or all in a listing.
    pub namespace: String,
    /// The scheduler to ask.
    pub address: String,
    /// The language in which schedules are put into words.
    pub language: ScheduleLanguage,
    timeout: Duration,
    client: OnceCell<Client>,
}

impl Context {
    /// Reads the global flags.
    pub fn new(global: &Global) -> Self {
        Self {
            output: Output::new(global.output, global.no_color, global.time, global.quiet),
            namespace: global.namespace.clone().unwrap_or_default(),
            address: global.address.clone(),
            language: language(global.lang, std::env::var("LC_ALL").or_else(|_| std::env::var("LANG")).as_deref().ok()),
            timeout: global.timeout,
            client: OnceCell::new(),
        }
    }

    /// The connection, made when it is first needed.
    pub async fn client(&self) -> Result<&Client, Error> {
        self.client.get_or_try_init(|| Client::connect(&self.address, self.timeout)).await
    }
}

/// The language that was asked for, else that of the surroundings.
fn language(asked: Option<Words>, surroundings: Option<&str>) -> ScheduleLanguage {
    match asked {
        Some(Words::En) => ScheduleLanguage::English,
        Some(Words::Zh) => ScheduleLanguage::Chinese,
        None if surroundings.is_some_and(|lang| lang.starts_with("zh")) => ScheduleLanguage::Chinese,
        None => ScheduleLanguage::English,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_goes_before_the_language_of_the_surroundings() {
        assert_eq!(language(None, Some("zh_CN.UTF-8")), ScheduleLanguage::Chinese);
        assert_eq!(language(Some(Words::En), Some("zh_CN.UTF-8")), ScheduleLanguage::English);
        assert_eq!(language(None, Some("C.UTF-8")), ScheduleLanguage::English);
        assert_eq!(language(Some(Words::Zh), None), ScheduleLanguage::Chinese);
    }
}
