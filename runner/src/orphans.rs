//! Reaps what lost its parent and came to this process, so that no zombie stays.
//!
//! Spawned children are waited for through their pidfd by the one who runs them (`process.rs`), so nobody races for
//! an exit and nothing that another part of the program spawned from its own threads is taken from it. What is left
//! are orphans; they are reaped here, on SIGCHLD, by pid.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    time::sleep,
};

use crate::tree;

/// The pause between two looks at the dead: hundreds that die in a second are one look's work.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The pids that this process spawned and has not reaped. One list for the process, as the kernel has one.
static SPAWNED: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);

/// Rings after each look at the dead.
static REAPED: LazyLock<Arc<Notify>> = LazyLock::new(Arc::default);

fn spawned() -> std::sync::MutexGuard<'static, HashSet<i32>> {
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the one that orphans come to.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// This pid is waited for by whoever says so.
pub(crate) fn claim(pid: i32) {
    spawned().insert(pid);
}

/// This pid has been reaped.
pub(crate) fn release(pid: i32) {
    spawned().remove(&pid);
}

/// The orphans that are there, dead ones included.
pub(crate) fn present() -> Vec<i32> {
    let known = spawned();
    tree::orphans(|pid| known.contains(&pid))
}

/// Resolves after the next look at the dead. Create it before looking, so that none is missed.
pub(crate) fn reaped() -> impl Future<Output = ()> {
    REAPED.clone().notified_owned()
}

/// Reaps orphans as they die, until dropped.
pub(crate) async fn reap() -> io::Result<()> {
    let mut deaths = signal(SignalKind::child())?;
    loop {
        for pid in present() {
            // Never any pid: another part of the program may wait for its own.
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        REAPED.notify_waiters();
        sleep(LOOK_AGAIN).await;
        if deaths.recv().await.is_none() {
            return Ok(());
        }
    }
}
