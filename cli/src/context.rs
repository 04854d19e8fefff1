//! What every command is given: how to print, whom to ask, in which namespace.

use std::time::Duration;

use tokio::sync::OnceCell;

use crate::{args::Global, client::Client, errors::Error, output::Output};

/// The surroundings of a command.
#[derive(Debug)]
pub struct Context {
    /// How to print.
    pub output: Output,
    /// The namespace that was asked for; empty means the scheduler's default, or all in a listing.
    pub namespace: String,
    /// The scheduler to ask.
    pub address: String,
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
            timeout: global.timeout,
            client: OnceCell::new(),
        }
    }

    /// The connection, made when it is first needed.
    pub async fn client(&self) -> Result<&Client, Error> {
        self.client.get_or_try_init(|| Client::connect(&self.address, self.timeout)).await
    }
}
