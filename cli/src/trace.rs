//! What the program says of itself while it works, on standard error: nothing, unless asked with `-v` or `BATON_LOG`.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

/// Overrides `-v` with a filter of its own.
const VARIABLE: &str = "BATON_LOG";

/// Starts to speak. `-v` speaks of calls, `-vv` of everything beneath them.
pub fn client(verbose: u8) {
    let filter = match verbose {
        0 => "off",
        1 => "warn,baton=debug",
        _ => "debug",
    };
    start(filter, verbose > 0);
}

/// Starts to speak for a scheduler and a runner in one: what deserves a look, `-v` for what happens, `-vv` for all.
pub fn dev(verbose: u8) {
    let filter = match verbose {
        0 => "warn",
        1 => "info",
        _ => "info,baton=debug,baton_scheduler=debug,baton_runner=debug",
    };
    start(filter, true);
}

fn start(filter: &str, always: bool) {
    let asked = std::env::var(VARIABLE).ok();
    if asked.is_none() && !always {
        return;
    }
    let filter = EnvFilter::new(asked.as_deref().unwrap_or(filter));
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false).with_ansi(ansi).init();
}
