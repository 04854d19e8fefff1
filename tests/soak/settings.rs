//! What a soak is told by its environment.

use std::{env, fmt, time::Duration};

use baton_tests::Backend;

/// The settings of one run.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) backend: Backend,
    pub(crate) schedulers: usize,
    pub(crate) runners: usize,
}

impl Settings {
    /// Reads them all, or says which one makes no sense.
    pub(crate) fn read() -> Result<Self, String> {
        let backend = match env::var("DATABASE_URL").as_deref() {
            Ok("postgres") => Backend::Postgres,
            Ok("") | Err(_) if Backend::Postgres.is_available() => Backend::Postgres,
            Ok("sqlite" | "") | Err(_) => Backend::Sqlite,
            Ok(other) => return Err(format!("DATABASE_URL={other}: give `sqlite` or `postgres`, each starts its own")),
        };
        let (schedulers, runners) = match backend {
            Backend::Sqlite => (1, 3),
            Backend::Postgres => (3, 6),
        };
        let minutes: f64 = number("MINUTES", 3.0)?;
        let settings = Self {
            seed: number("SEED", u64::from(uuid::Uuid::new_v4().as_fields().0))?,
            time: Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| format!("MINUTES={minutes}: {error}"))?,
            backend,
            schedulers: number("SCHEDULERS", schedulers)?,
            runners: number("RUNNERS", runners)?,
        };
        if backend == Backend::Sqlite && settings.schedulers != 1 {
            return Err("SQLite is for one scheduler; several need PostgreSQL".to_owned());
        }
        if settings.schedulers == 0 || settings.runners == 0 {
            return Err("a soak needs at least one scheduler and one runner".to_owned());
        }
        Ok(settings)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, time, backend, schedulers, runners } = self;
        let seconds = time.as_secs();
        write!(f, "soak SEED={seed}: {seconds} s on {backend:?}, {schedulers} schedulers, {runners} runners")
    }
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> Result<T, String> {
    match env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|_| format!("{name}={text} is not a number")),
        _ => Ok(default),
    }
}
