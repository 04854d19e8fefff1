//! The child of the latency workloads: what it does first is to look at the clock.
//!
//! With a count and a pause behind the name it writes so many lines to standard output, one each so many microseconds, before
//! it ends.
//!
//! It adds one line to a file, `NAME FIRST LAST`: the monotonic clock in nanoseconds at its first instruction and just
//! before it writes and exits. It is as small as a program with a standard library can be, and the floor spawns the
//! same one, so what it costs to be loaded is in both.

use std::{
    env,
    ffi::OsString,
    fs::OpenOptions,
    io::{Write as _, stdout},
    process::ExitCode,
    thread::sleep,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

fn main() -> ExitCode {
    let first = now();
    let mut arguments = env::args_os().skip(1);
    let (Some(file), Some(name)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: give a file and a name: baton-stamp FILE NAME [LINES MICROSECONDS]");
        return ExitCode::from(2);
    };
    if let (Some(lines), Some(pause)) = (number(arguments.next()), number(arguments.next())) {
        write_lines(first, lines, pause);
    }
    let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file) else { return ExitCode::FAILURE };
    let line = format!("{} {first} {}\n", name.to_string_lossy(), now());
    // Short lines added to a file are never torn, whoever writes at the same time.
    match file.write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn number(argument: Option<OsString>) -> Option<i64> {
    argument?.to_str()?.parse().ok()
}

/// Writes lines of 64 bytes at a steady pace, by the clock and not by the sleep, so that a late one is made up for.
fn write_lines(since: i64, lines: i64, micros: i64) {
    for line in 0..lines {
        let due = since + line * micros * 1_000;
        if let Ok(early) = u64::try_from(due - now()) {
            sleep(Duration::from_nanos(early));
        }
        let _nobody_reads_any_more = stdout().write_all(format!("{line:063}\n").as_bytes());
    }
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
