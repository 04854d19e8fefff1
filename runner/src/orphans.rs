//! Reaps what lost its parent and came to this process, so that no zombie stays.
//!
//! Spawned children are waited for through their pidfd by the one who runs them (`process.rs`), so nobody races for
//! an exit and nothing that another part of the program spawned from its own threads is taken from it. What is left
//! are orphans; they are reaped here, by pid, whenever somebody looks: at the end of each task, and now and then while tasks
//! run or orphans are there. Not on SIGCHLD: each end of each task raises it, and to be interrupted by all of them for the sake
//! of the few that leave orphans costs more than the looks.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::tree;

/// How long a dead orphan stays a zombie at most while tasks run.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same while no task runs.
const LOOK_AT_REST: Duration = Duration::from_secs(10);

/// The pids that this process spawned and has not reaped. One list for the process, as the kernel has one.
static SPAWNED: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);

/// Rings when there is a first child to look after.
static CLAIMED: LazyLock<Arc<Notify>> = LazyLock::new(Arc::default);

fn spawned() -> MutexGuard<'static, HashSet<i32>> {
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the one that orphans come to.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// This pid is waited for by whoever says so.
pub(crate) fn claim(pid: i32) {
    let mut spawned = spawned();
    let first = spawned.is_empty();
    spawned.insert(pid);
    if first {
        CLAIMED.notify_one();
    }
}

/// This pid has been reaped.
pub(crate) fn release(pid: i32) {
    spawned().remove(&pid);
}

/// Reaps the orphans that are dead and says which live.
pub(crate) fn living() -> Vec<i32> {
    // Held to the end, so that of two who look one does not wait for a pid that the other has reaped and that has come to be
    // a child's.
    let known = spawned();
    let mut all = tree::orphans(|pid| known.contains(&pid));
    // Never any pid: another part of the program may wait for its own.
    all.retain(|pid| {
        Pid::from_raw(*pid).is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
    });
    all
}

/// Looks after orphans for as long as there may be some, until dropped.
pub(crate) async fn reap() {
    loop {
        let none = living().is_empty() && spawned().is_empty();
        if none {
            // Of two runners in one program the one that was rung for may be gone.
            let _ = timeout(LOOK_AT_REST, CLAIMED.notified()).await;
        }
        sleep(LOOK_EVERY).await;
    }
}
