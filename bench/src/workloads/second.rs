//! A schedule every second on an idle `baton dev`: how long after its second the child of each fire starts.

use std::{fs, path::Path, time::SystemTime};

use anyhow::Context as _;
use baton_tests::{Api, Asked, Backend, Part, eventually, programs, v1};
use serde_json::json;

use crate::{
    figure::{Figure, round},
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::{Stamps, now},
};

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    // `baton dev` has a database of its own, on SQLite.
    if backend != Backend::Sqlite {
        return Ok(Vec::new());
    }
    let seconds = settings.amount(120, 4);
    let directory = tempfile::tempdir()?;
    let (_dev, ask) = dev(directory.path()).await?;
    let stamps = Stamps::fresh(directory.path(), "second");
    // Each child is told which second it belongs to.
    let command = stamps.command("{{ logical_time | date('%s') }}");
    let ticking = json!({
        "name": "tick",
        "overlap": "allow",
        "schedules": [{"name": "tick", "cron": "* * * * * *"}],
        "tasks": [{"name": "work", "command": command}],
    });
    ask.apply(&ticking.to_string()).await?;
    // What the clock on the wall shows at a moment of the one that only goes forward.
    let wall = wall_nanos() - now();
    let mut stamped = stamps.count(seconds, PATIENCE).await;
    stamped.truncate(seconds);
    let mut fired = Vec::with_capacity(seconds);
    let mut late = Vec::with_capacity(seconds);
    for stamp in &stamped {
        let second: i64 = stamp.name.parse().context("a child is named for its second")?;
        fired.push(second);
        late.push((stamp.first + wall - second * 1_000_000_000) as f64 / 1e6);
    }
    fired.sort_unstable();
    let steady = fired.windows(2).all(|pair| pair[1] - pair[0] == 1);
    let figure = Figure::median("schedules-second", parts::name(backend), &mut late, "ms late")
        .with("every_second_once", steady)
        .with("max", round(late.last().copied().unwrap_or_default()));
    let p99 = figure.p99.unwrap_or(f64::MAX);
    Ok(vec![if settings.smoke { figure } else { figure.reach("p99 < 20", p99 < 20.0 && steady) }])
}

/// `baton dev` in this directory, as anybody starts it.
async fn dev(directory: &Path) -> anyhow::Result<(Part, Asked)> {
    let address = programs::free_address();
    let home = directory.join("home");
    fs::create_dir(&home)?;
    let mut command = programs::command("baton");
    command.args(["dev", "--listen", &address.to_string(), "--data"]).arg(directory.join("data"));
    command.current_dir(directory).env("HOME", home);
    let dev = Part::start("dev", command, &directory.join("dev.log"));
    let ask = Asked(Api::to(address));
    eventually("its runner is online", PATIENCE, || async {
        let request = v1::ListRunnersRequest::default();
        let runners = ask.0.runners.clone().list_runners(request).await.ok()?.into_inner().runners;
        runners.iter().any(|runner| runner.state() == v1::RunnerState::Online).then_some(())
    })
    .await;
    Ok((dev, ask))
}

fn wall_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
