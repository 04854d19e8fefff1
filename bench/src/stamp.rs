//! The child of the latency workloads: what it does first is to look at the clock.
//!
//! It adds one line to a file, `NAME FIRST LAST`: the monotonic clock in nanoseconds at its first instruction and just
//! before it writes and exits. It is as small as a program with a standard library can be, and the floor spawns the
//! same one, so what it costs to be loaded is in both.

use std::{env, fs::OpenOptions, io::Write as _, process::ExitCode};

use rustix::time::{ClockId, clock_gettime};

fn main() -> ExitCode {
    let first = now();
    let mut arguments = env::args_os().skip(1);
    let (Some(file), Some(name)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: give a file and a name: baton-stamp FILE NAME");
        return ExitCode::from(2);
    };
    let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file) else { return ExitCode::FAILURE };
    let line = format!("{} {first} {}\n", name.to_string_lossy(), now());
    // Short lines added to a file are never torn, whoever writes at the same time.
    match file.write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
