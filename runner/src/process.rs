//! Runs a task as a child process, and ends all of it.
//!
//! The child leads its own process group. Its exit is awaited through its pidfd and it is reaped last, after
//! everything it left behind is gone: as long as it is a zombie, neither its pid nor its group can come to name
//! someone else's, so every signal hits what it is meant for.
//!
//! On the way to the child's first instruction there is no thread of its own, no fork (`posix_spawn` only: see
//! `environment::program`), no sync to disk; on the way from its exit to the result, one small file of `/proc` says
//! whether anything was left over.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::{
    fd::{AsFd as _, OwnedFd},
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid},
};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until},
};
use tracing::warn;
use uuid::Uuid;

use crate::{
    clock::{self, watched},
    environment::{Places, environment, program, working_dir},
    logs,
    machine::Input,
    orphans,
    state::{Process, State},
    task::{End, Exit, OUTPUT_MAX, RunSpec, Target, TaskRef},
    tree,
    watchdog::Watchdog,
};

/// How long what a task leaves behind may go on after it, so that the last words of a `tee` are not lost.
const LINGER: Duration = Duration::from_millis(200);

/// The pause between two looks at a process that does not die, and at what a task left behind.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The longest single argument Linux takes, less its final zero. A longer script goes through a file.
const ARGUMENT_MAX: usize = 128 * 1024 - 1;

/// When a task is to be killed, once it is being stopped. The sooner time counts.
pub(crate) type StopAt = watch::Receiver<Option<Instant>>;

/// What all tasks of a runner share.
pub(crate) struct Processes {
    pub(crate) state: Arc<State>,
    pub(crate) work_dir: PathBuf,
    pub(crate) pass_env: Vec<String>,
    pub(crate) grace: Duration,
    pub(crate) logs: logs::Handle,
    pub(crate) watchdog: Watchdog,
    /// `/dev/null`, which every task reads.
    pub(crate) nothing: File,
    /// Spawning holds a thread until the child executes, so a burst must not take them all.
    pub(crate) spawning: Semaphore,
}

struct Child {
    pid: i32,
    pidfd: OwnedFd,
    key: String,
    start_time: SystemTime,
    since: clock::Instant,
    outputs: logs::Files,
    litter: Litter,
}

/// What an attempt alone has on disk beside its output.
#[derive(Debug, Clone)]
struct Litter {
    tmp: Option<PathBuf>,
    output: PathBuf,
    script: Option<PathBuf>,
}

impl Processes {
    /// Runs one task from start to end and reports both.
    pub(crate) async fn run(
        self: Arc<Self>,
        slot: u32,
        task: TaskRef,
        spec: Box<RunSpec>,
        stop_at: StopAt,
        events: mpsc::UnboundedSender<Input>,
    ) {
        let mut used = None;
        let end = match self.clone().launch(slot, task, spec, &stop_at).await {
            Ok(child) => {
                used = Some(child.litter.clone());
                let started =
                    Input::Started { slot, task, pid: Some(child.pid.unsigned_abs()), start_time: child.start_time };
                // Nobody listens only when the runner itself is being dropped; the task is ended all the same.
                let _ = events.send(started);
                self.see_through(slot, task, child, stop_at).await
            }
            Err(reason) => End::not_started(reason),
        };
        let _ = events.send(Input::Ended { slot, task, end });
        // Only then: what follows the task need not wait for it.
        if let Some(litter) = used {
            self.tidy(litter);
        }
    }

    async fn launch(
        self: Arc<Self>,
        slot: u32,
        task: TaskRef,
        spec: Box<RunSpec>,
        stop_at: &StopAt,
    ) -> Result<Child, String> {
        let permit = self.spawning.acquire().await.map_err(|error| error.to_string())?;
        if stop_at.borrow().is_some() {
            return Err("it was ended before it started".to_owned());
        }
        let this = self.clone();
        let launched = spawn_blocking(move || this.spawn(slot, task, &spec)).await;
        drop(permit);
        launched.unwrap_or_else(|error| Err(format!("starting it failed: {error}")))
    }

    /// Starts the child. Whatever goes wrong is a reason in words, and leaves nothing behind.
    fn spawn(&self, slot: u32, task: TaskRef, spec: &RunSpec) -> Result<Child, String> {
        let dir = working_dir(&self.work_dir, &spec.working_dir)?;
        let key = Uuid::new_v4().simple().to_string();
        let outputs = self.logs.files(task, spec.log_limit_bytes);
        let mut litter = Litter { tmp: None, output: self.state.output(task), script: None };
        let prepared = self.prepare(slot, task, &key, &outputs);
        let spawned = prepared.and_then(|(tmp, stdout, stderr)| {
            let tmp = litter.tmp.insert(tmp);
            let places = Places { tmp, output: &litter.output, key: &key };
            let env = environment(task, spec, &places, &self.pass_env);
            if let Target::Shell(text) = &spec.target
                && text.len() >= ARGUMENT_MAX
            {
                let script = litter.script.insert(self.state.script(task));
                fs::write(script, text).map_err(|error| format!("cannot write the script to a file: {error}"))?;
            }
            let path = env.get(OsStr::new("PATH")).map(|path| &**path);
            let mut command = target_command(spec, &dir, path, litter.script.as_deref())?;
            command.env_clear().envs(env).current_dir(&dir).process_group(0);
            // Opened once and for all tasks: a duplicate costs less than `Stdio::null` does.
            let nothing =
                self.nothing.try_clone().map_err(|error| format!("cannot give it an empty input: {error}"))?;
            command.stdin(nothing).stdout(stdout).stderr(stderr);
            let before = clock::Instant::now();
            command.spawn().map(|child| (child, before)).map_err(|error| start_error(&error, &command, &dir))
        });
        let (child, before) = match spawned {
            Ok(spawned) => spawned,
            Err(reason) => {
                self.tidy(litter);
                outputs.remove();
                return Err(reason);
            }
        };
        let (since, start_time) = (clock::Instant::now(), SystemTime::now());
        let pid = child.id() as i32;
        orphans::claim(pid);
        // The child is ours to reap, so its pid is its own until we do.
        let pidfd = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH).and_then(|p| pidfd_open(p, PidfdFlags::empty()));
        let pidfd = match pidfd {
            Ok(pidfd) => pidfd,
            Err(error) => {
                tree::signal_group(pid, Signal::KILL);
                let mut child = child;
                let _ = child.wait();
                orphans::release(pid);
                self.tidy(litter);
                outputs.remove();
                return Err(format!("cannot watch the process: {error}"));
            }
        };
        let started = tree::start_between(before, since).or_else(|| tree::start_time(pid)).unwrap_or(0);
        // Its key is written down already, so a later boot would find it even without this.
        if let Err(error) = self.state.hold(slot, task, &key, Some(Process { pid, started })) {
            warn!(%task, %error, "cannot write down the process of a task");
        }
        let grace = spec.grace.unwrap_or(self.grace);
        self.watchdog.runs(slot, pid, started, &key, spec.self_stop_after, grace);
        self.logs.opened(task, outputs.clone());
        Ok(Child { pid, pidfd, key, start_time, since, outputs, litter })
    }

    /// Writes down what is about to run and makes its directory and files. A full disk ends here, in words.
    fn prepare(
        &self,
        slot: u32,
        task: TaskRef,
        key: &str,
        outputs: &logs::Files,
    ) -> Result<(PathBuf, File, File), String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("cannot {what} in the runner's state directory: {error}")
        };
        self.state.hold(slot, task, key, None).map_err(failed("write down the task"))?;
        let (stdout, stderr) = outputs.create().map_err(failed("make the output files"))?;
        let tmp = self.state.tmps().make().map_err(failed("make the task's directory"))?;
        Ok((tmp, stdout, stderr))
    }

    /// Waits for the end of the child, ends it when told to, and whatever it leaves running.
    async fn see_through(&self, slot: u32, task: TaskRef, child: Child, mut stop_at: StopAt) -> End {
        let Child { pid, pidfd, key, start_time, since, outputs, .. } = child;
        let pidfd = match watched(pidfd) {
            Ok(pidfd) => pidfd,
            // Out of memory or descriptors: the task cannot be watched, so it is not run.
            Err(error) => {
                tree::signal_group(pid, Signal::KILL);
                orphans::release(pid);
                self.watchdog.gone(slot);
                self.logs.ended(task, outputs.sizes());
                return End::not_started(format!("cannot watch the process: {error}"));
            }
        };
        let mut kill_at = None;
        loop {
            tokio::select! {
                biased;
                ready = pidfd.readable() => { if ready.is_ok() { break } }
                at = next_stop(&mut stop_at, kill_at) => {
                    if kill_at.is_none() {
                        self.watchdog.stops(slot);
                        tree::signal_group(pid, Signal::TERM);
                    }
                    kill_at = Some(at);
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some_and(|at| at > Instant::now()) => {}
                () = std::future::ready(()), if kill_at.is_some_and(|at| at <= Instant::now()) => {
                    tree::signal_group(pid, Signal::KILL);
                    // Only a process that the kernel holds on to is still there after this.
                    tokio::select! { _ = pidfd.readable() => break, () = sleep(LOOK_AGAIN) => {} }
                }
            }
        }
        let (end_time, run_time) = (SystemTime::now(), clock::Instant::now() - since);
        let killed = end_rest(pid, &key, kill_at, &mut stop_at).await;
        let status = waitid(WaitId::PidFd(pidfd.get_ref().as_fd()), WaitIdOptions::EXITED);
        orphans::release(pid);
        self.watchdog.gone(slot);
        let sizes @ [stdout_bytes, stderr_bytes] = outputs.sizes();
        // They serve another attempt only once nobody here holds on to them.
        drop(outputs);
        self.logs.ended(task, sizes);
        let (mut exit, output) = match (status, self.read_output(task)) {
            (Ok(Some(status)), output) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => (Exit::Code(code), output),
                (None, Some(signal)) => (Exit::Signal(signal), output),
                (None, None) => (Exit::Unusable("it ended in an unknown way".to_owned()), output),
            },
            (_, output) => (Exit::Unusable("how it ended was not to be learnt".to_owned()), output),
        };
        let output = output.unwrap_or_else(|problem| {
            if exit == Exit::Code(0) {
                exit = Exit::Unusable(problem);
            }
            Vec::new()
        });
        let note = match killed {
            0 => String::new(),
            1 => "a process that it left behind was killed".to_owned(),
            n => format!("{n} processes that it left behind were killed"),
        };
        End {
            exit,
            note: if kill_at.is_none() { note } else { String::new() },
            output,
            stdout_bytes,
            stderr_bytes,
            start_time: Some(start_time),
            end_time: Some(end_time),
            run_time,
        }
    }

    /// What the task wrote to `BATON_OUTPUT`.
    fn read_output(&self, task: TaskRef) -> Result<Vec<u8>, String> {
        let path = self.state.output(task);
        let failed = |error: io::Error| format!("cannot read what it wrote to BATON_OUTPUT: {error}");
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
            Ok(file) if !file.is_file() => Err("what it made of BATON_OUTPUT is not a file".to_owned()),
            Ok(file) if file.len() > OUTPUT_MAX as u64 => {
                Err(format!("it wrote {} bytes to BATON_OUTPUT; the limit is {OUTPUT_MAX}", file.len()))
            }
            Ok(_) => fs::read(&path).map_err(failed),
        }
    }

    /// Removes what was the attempt's alone.
    fn tidy(&self, litter: Litter) {
        let Litter { tmp, output, script } = litter;
        for file in [Some(output), script].into_iter().flatten() {
            let _ = fs::remove_file(file);
        }
        let Some(tmp) = tmp.filter(|tmp| !self.state.tmps().keep(tmp)) else { return };
        // A large tree takes its time, and nobody waits for it.
        drop(spawn_blocking(move || match fs::remove_dir_all(&tmp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(path = %tmp.display(), %error, "the directory of a task cannot be removed");
            }
            _ => {}
        }));
    }
}

/// The next time by which the task is to be killed, when that is sooner than the one known.
async fn next_stop(stop_at: &mut StopAt, known: Option<Instant>) -> Instant {
    loop {
        let at = *stop_at.borrow_and_update();
        if let Some(at) = at.filter(|at| known.is_none_or(|known| *at < known)) {
            return at;
        }
        if stop_at.changed().await.is_err() {
            // The runner is being dropped and ends its tasks by other means.
            std::future::pending::<()>().await;
        }
    }
}

/// Ends what the main process left behind and returns once nothing is left: how many had to be killed.
///
/// What has lost its parent is a child of ours now. Its group is that of the main process, which is not reaped yet, or
/// it carries the key. What is deeper in the tree loses its parent in turn.
async fn end_rest(group: i32, key: &str, kill_at: Option<Instant>, stop_at: &mut StopAt) -> usize {
    let mut until = kill_at.unwrap_or_else(|| Instant::now() + LINGER);
    let mut killed = std::collections::HashSet::new();
    loop {
        let mut left = orphans::living();
        left.retain(|pid| tree::group_of(*pid) == Some(group) || tree::has_key(*pid, key));
        if left.is_empty() {
            break;
        }
        if Instant::now() >= until {
            tree::signal_group(group, Signal::KILL);
            for pid in left {
                tree::kill_if_keyed(pid, key);
                killed.insert(pid);
            }
        }
        tokio::select! {
            () = sleep(LOOK_AGAIN) => {}
            at = next_stop(stop_at, Some(until)) => until = at,
        }
    }
    if kill_at.is_some() || !killed.is_empty() {
        // Something was in the way: look everywhere, in case part of it has another sub-reaper above it.
        let key = key.to_owned();
        let found = spawn_blocking(move || tree::end_leftovers(None, &key)).await.unwrap_or(0);
        return killed.len() + found;
    }
    0
}

/// The command line of a target. A script runs as `/bin/sh -e -c SCRIPT NAME`: `$0` is the task's name, so the shell's
/// own errors name the task, and standard input stays free. One that is too long for an argument runs from a file.
fn target_command(spec: &RunSpec, dir: &Path, path: Option<&OsStr>, script: Option<&Path>) -> Result<Command, String> {
    match &spec.target {
        Target::Command(argv) => {
            let Some((name, arguments)) = argv.split_first() else { return Err("the command is empty".to_owned()) };
            let mut command = Command::new(program(name, dir, path)?);
            command.arg0(name).args(arguments);
            Ok(command)
        }
        Target::Shell(text) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-e");
            match script {
                Some(file) => command.arg(file),
                None => command.args(["-c", text, &spec.task_name]),
            };
            Ok(command)
        }
        Target::Http(_) | Target::Unknown => Err("this is nothing that a process does".to_owned()),
    }
}

fn start_error(error: &io::Error, command: &Command, dir: &Path) -> String {
    let program = command.get_program().to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound && !dir.is_dir() {
        return format!("the runner's work directory {} is gone; make it again", dir.display());
    }
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            "its arguments and environment are longer than this system allows (a single value may have 128 KiB)".into()
        }
        io::ErrorKind::NotFound => format!("{program} (or the interpreter it names) was not found on this runner"),
        io::ErrorKind::PermissionDenied => format!("{program} may not be executed: {error}"),
        _ => format!("cannot start {program}: {error}"),
    }
}
