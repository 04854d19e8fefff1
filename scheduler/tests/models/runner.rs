//! What several models say in the same words: a runner with one slot, and what the database knows of it and of its task.

use std::{collections::BTreeMap, time::Duration};

use baton_scheduler::domain::{
    definition::{OnFailure, Retry},
    heartbeat::{Hello, Known},
    policy::Policy,
    task::{self, Circumstances, Counters, Decision, Ending, Kind, TaskState},
    time::Timestamp,
};

/// The first frame of the stream with this number, of the process with this number; 0 stands for one that does not
/// number its boots.
pub(crate) fn hello(boot: u64, boot_number: u64, conn: u64) -> Hello {
    Hello {
        runner_id: "r".into(),
        install_id: "install".into(),
        boot_id: format!("boot-{boot}"),
        boot_number,
        conn,
        protocol_version: 1,
        version: String::new(),
        labels: BTreeMap::new(),
        slots: 1,
        capabilities: Vec::new(),
        inventory: Vec::new(),
        ended: Vec::new(),
        drain: None,
    }
}

/// What is known once that hello was admitted.
pub(crate) fn known(hello: &Hello, last_seen_at: Timestamp) -> Known {
    Known {
        install_id: hello.install_id.clone(),
        boot_id: hello.boot_id.clone(),
        boot_number: hello.boot_number,
        conn: hello.conn,
        has_session: true,
        last_seen_at,
        hold_until: None,
    }
}

/// The counters of a task in its first attempt.
pub(crate) fn counters(lease: u64, refusals: u32) -> Counters {
    Counters { attempt: 1, lease, deaths: 0, refusals, tried: 0, not_before: Timestamp(0) }
}

/// What follows the end of a dispatch where there are so many attempts, one at once after the other: a model has no clock of
/// its own and no chance.
pub(crate) fn decide(state: TaskState, counters: Counters, max_attempts: u32, ending: Ending) -> Option<Decision> {
    let retry = Retry::times(max_attempts, Duration::ZERO);
    let policy = Policy { retry: Some(&retry), on_failure: OnFailure::Fail };
    let at = Circumstances { now: Timestamp(0), exit_code: None, chance: 0.5, others_left: false, attempts_before: 0 };
    task::decide(state, Kind::Task, counters, policy, ending, at)
}
