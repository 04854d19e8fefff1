//! Next: how long it takes to tell when a schedule fires next. Every fire asks it, and so does every preview.

use std::time::Instant;

use baton_scheduler::domain::{
    schedule::{Schedule, Spec},
    time::Timestamp,
};
use baton_tests::Backend;

use crate::{
    figure::{Figure, percentile, round},
    parts,
    settings::Settings,
};

/// How often each question is asked: what it takes is the shortest of the answers. The others had to wait for the
/// machine, which does other things as well.
const ASKED: usize = 3;

/// What people write.
const TYPICAL: [(&str, &str); 6] = [
    ("*/5 * * * *", "UTC"),
    ("30 2 * * 1-5", "Europe/Berlin"),
    ("0 0 1 * *", "America/New_York"),
    ("0 30 9 ? * MON-FRI", "Asia/Shanghai"),
    ("0 15 10 L * ?", "Australia/Lord_Howe"),
    ("@hourly", "America/Santiago"),
];
/// What makes the search long: dates that are rare or never come, in zones with many changes of the clock.
const WORST: [(&str, &str); 6] = [
    ("0 0 0 29W 2 ?", "America/Sao_Paulo"),
    ("0 0 0 29 2 MON", "Europe/London"),
    ("30 2 31 3 7", "Europe/Berlin"),
    ("59 59 23 ? 2 7#5", "America/New_York"),
    ("0 0 0 29 2 ? 2096", "Asia/Gaza"),
    ("0 0 0 31 12 ? 2099", "Africa/Casablanca"),
];

pub(super) fn measure(backend: Backend, settings: &Settings) -> Vec<Figure> {
    // It asks no database: once is enough.
    if backend != Backend::Sqlite {
        return Vec::new();
    }
    let questions = settings.amount(20_000, 200);
    let mut figures = Vec::new();
    for (name, expressions, percent, reach, limit) in
        [("next-typical", TYPICAL, 99.0, "p99 < 10 us", 10.0), ("next-worst", WORST, 100.0, "max < 5000 us", 5_000.0)]
    {
        let mut samples = Vec::with_capacity(questions);
        for (expression, zone) in expressions {
            let schedule = Schedule::new(&Spec::cron(expression, zone), "bench", Timestamp(0), &[]);
            let schedule = schedule.expect("the expression is one");
            for question in 0..questions / expressions.len() {
                // Over ten years, so that every month and every change of the clock is asked about.
                let step = 315_360_000_000_000 / (questions / expressions.len()) as i64;
                let from = Timestamp(1_767_225_600_000_000 + question as i64 * step);
                let took = (0..ASKED).map(|_| {
                    let begin = Instant::now();
                    let next = schedule.next(std::hint::black_box(from));
                    let took = begin.elapsed();
                    drop(std::hint::black_box(next));
                    took
                });
                samples.push(took.min().unwrap_or_default().as_secs_f64() * 1e6);
            }
        }
        let figure = Figure::median(name, parts::name(backend), &mut samples, "us");
        let figure = figure.with("max", round(percentile(&mut samples, 100.0)));
        let reached = percentile(&mut samples, percent) < limit;
        figures.push(if settings.smoke { figure } else { figure.reach(reach, reached) });
    }
    figures
}
