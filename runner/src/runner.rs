//! The runner: brings what happens to the machine, and does what the machine says.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use crate::{
    clock::{self, Alarm},
    http::{self, Network},
    link::{self, Identity, Link},
    logs,
    machine::{Input, Leftovers, Machine, Output, Redial, Settings},
    orphans,
    process::Processes,
    state::{self, State},
    target::{self, Context, Handler, Outcome},
    task::{End, RunSpec, Target, TaskRef},
    watchdog::{Guarded, Watchdog},
};

/// The beat until a scheduler says otherwise.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Frames that may wait for the runner.
const EVENTS_MAX: usize = 1024;

/// How much that came together is taken in together.
const INPUTS_MAX: usize = 256;

/// How long a runner that has stopped its tasks waits for the scheduler to take their results. They are on disk, so
/// the next boot can still tell.
const ACK_PATIENCE: Duration = Duration::from_secs(10);

/// How long the line may take to say goodbye.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(3);

/// How long a leaving runner ships the last output. What is left is shipped by its next boot.
const LOGS_PATIENCE: Duration = Duration::from_secs(5);

/// Children spawned at the same time, for each core: spawning holds a thread until the child executes.
const SPAWNING_PER_CORE: usize = 2;

/// What a runner is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name: 1 to 100 of `a-z A-Z 0-9 - _ .`.
    pub id: String,
    /// Schedulers to dial, as `host:port` or `http://host:port`; at least one.
    pub endpoints: Vec<String>,
    /// How many tasks it runs at once, 1 to 10,000.
    pub slots: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it claims to run.
    pub capabilities: Vec<String>,
    /// What it keeps; its own.
    pub state_dir: PathBuf,
    /// Where tasks run.
    pub work_dir: PathBuf,
    /// Networks that `http` tasks may ask beside those that everybody can reach.
    pub http_allow: Vec<Network>,
    /// Variables of its own environment that tasks get.
    pub pass_env: Vec<String>,
    /// How long processes may take to end after SIGTERM, unless a task says otherwise.
    pub grace: Duration,
    /// How long a leaving runner waits for its tasks before it stops them.
    pub drain_timeout: Duration,
}

impl Config {
    /// A runner with one slot for each core and everything else by default.
    pub fn new(id: impl Into<String>, endpoint: impl Into<String>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            id: id.into(),
            endpoints: vec![endpoint.into()],
            slots: cores() as u32,
            labels: BTreeMap::new(),
            capabilities: ["command", "shell", "http"].map(str::to_owned).to_vec(),
            state_dir: state_dir.into(),
            work_dir: PathBuf::from("."),
            http_allow: Vec::new(),
            pass_env: Vec::new(),
            grace: Duration::from_secs(10),
            drain_timeout: Duration::from_hours(1),
        }
    }
}

/// How many threads this machine runs at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Why a runner cannot run.
#[derive(Debug, Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("{0}")]
    Config(String),
    /// Its state directory cannot be used.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The system refuses something it cannot do without.
    #[error("cannot {what}")]
    Io {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its watchdog is gone, so nothing would end its tasks if it died.
    #[error("the watchdog of this runner is gone; the tasks were stopped. Start the runner again")]
    WatchdogGone,
}

/// A runner, ready to run.
pub struct Runner {
    config: Config,
    guarded: Option<Guarded>,
    handler: Option<Handler>,
    requests_apart: bool,
}

impl Runner {
    /// A runner of processes, without a watchdog.
    pub fn new(config: Config) -> Self {
        Self { config, guarded: None, handler: None, requests_apart: false }
    }

    /// With threads of its own for `http` tasks, one for each core, made with the first such task. For a runtime of one thread,
    /// which is what a runner works best on.
    #[must_use]
    pub fn requests_apart(mut self) -> Self {
        self.requests_apart = true;
        self
    }

    /// With the watchdog that [`crate::watchdog::guard`] put above this process.
    #[must_use]
    pub fn guarded(mut self, guarded: Guarded) -> Self {
        self.guarded = Some(guarded);
        self
    }

    /// With a handler that does every task itself, instead of processes.
    #[must_use]
    pub fn handler<F>(mut self, handler: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.handler = Some(Arc::new(move |context| Box::pin(handler(context))));
        self
    }

    /// Runs until it has left. When `leave` resolves it takes nothing new and finishes what it has; when `stop` does, or
    /// `drain_timeout` is over, it stops what it has, which burns no attempt.
    ///
    /// A runner of processes makes its process the sub-reaper of everything below it: the program around it must not
    /// spawn children of its own from its main thread and expect to reap them.
    ///
    /// # Errors
    /// When it cannot start, or has lost its watchdog.
    pub async fn run(
        self,
        leave: impl Future<Output = ()> + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let Self { config, guarded, handler, requests_apart } = self;
        let endpoints: Result<Vec<_>, _> = config.endpoints.iter().map(|text| link::address(text)).collect();
        let endpoints = endpoints.map_err(Error::Config)?;
        if endpoints.is_empty() || config.slots == 0 {
            return Err(Error::Config("a runner needs a scheduler to dial and at least one slot".to_owned()));
        }
        let io = |what| move |source| Error::Io { what, source };
        let work_dir = config.work_dir.canonicalize().map_err(io("find the work directory (--work-dir)"))?;
        let state_dir = config.state_dir.clone();
        let opened = spawn_blocking(move || State::open(&state_dir)).await;
        let (state, leftovers) = opened.map_err(|error| Error::Config(error.to_string()))??;
        let state = Arc::new(state);

        // Everything that runs beside, and ends with this function.
        let mut beside = JoinSet::new();
        let mut watchdog = Watchdog::none();
        let mut watchdog_gone: JoinHandle<()> = tokio::spawn(std::future::pending());
        if let Some(guarded) = guarded {
            let (speaker, gone) = Watchdog::of(guarded).map_err(io("speak to the watchdog"))?;
            watchdog = speaker;
            watchdog_gone.abort();
            watchdog_gone = tokio::spawn(gone);
        }
        let (present, present_at) = watch::channel(None);
        let (log_handle, shipper) = logs::start(state.logs(), present_at);
        beside.spawn(shipper);
        let executor = if let Some(handler) = handler {
            Executor::Handler { handler, logs: log_handle.clone() }
        } else {
            orphans::adopt().map_err(io("become a sub-reaper"))?;
            beside.spawn(orphans::reap());
            let requests =
                http::Requests::new(state.clone(), log_handle.clone(), config.http_allow.clone(), requests_apart);
            let processes = Arc::new(Processes {
                state: state.clone(),
                work_dir,
                pass_env: config.pass_env.clone(),
                grace: config.grace,
                logs: log_handle.clone(),
                watchdog: watchdog.clone(),
                nothing: File::open("/dev/null").map_err(io("open /dev/null"))?,
                spawning: Semaphore::new(cores() * SPAWNING_PER_CORE),
            });
            Executor::Own { processes, requests: Arc::new(requests) }
        };

        let settings = Settings {
            slots: config.slots,
            grace: config.grace,
            heartbeat_interval: HEARTBEAT_INTERVAL,
            answer_timeout: HEARTBEAT_INTERVAL / 2,
        };
        let identity = Identity {
            id: config.id.clone(),
            install_id: state.install_id().to_string(),
            boot_id: Uuid::new_v4().to_string(),
            boot_number: state.boot_number(),
            labels: config.labels.clone(),
            slots: config.slots,
            capabilities: config.capabilities.clone(),
        };
        let (orders, to_line) = mpsc::unbounded_channel();
        let (from_line, line_events) = mpsc::channel(EVENTS_MAX);
        let line = Link::new(identity, settings.clone(), endpoints, to_line, from_line, present);
        let line = tokio::spawn(line.run());
        let (work, work_events) = mpsc::unbounded_channel();
        info!(runner.id = config.id, slots = config.slots, "runner started");

        let core = Core {
            machine: Machine::new(settings, leftovers.clone()),
            leftovers,
            state,
            executor,
            watchdog,
            lifeline: None,
            conn: None,
            orders,
            work,
            stops: HashMap::new(),
            tasks: JoinSet::new(),
            alarm: Alarm::new().map_err(io("make a timer"))?,
            left: false,
        };
        let lost = core.run(line_events, work_events, leave, stop, &mut watchdog_gone, config.drain_timeout).await;
        if timeout(GOODBYE_PATIENCE, line).await.is_err() {
            debug!("the line did not end in time");
        }
        log_handle.empty(LOGS_PATIENCE).await;
        watchdog_gone.abort();
        info!("runner stopped");
        lost
    }
}

enum Executor {
    Own { processes: Arc<Processes>, requests: Arc<http::Requests> },
    Handler { handler: Handler, logs: logs::Handle },
}

struct Core {
    machine: Machine,
    leftovers: Leftovers,
    state: Arc<State>,
    executor: Executor,
    watchdog: Watchdog,
    /// As last told to the watchdog.
    lifeline: Option<clock::Instant>,
    conn: Option<u64>,
    orders: mpsc::UnboundedSender<link::Order>,
    work: mpsc::UnboundedSender<Input>,
    stops: HashMap<TaskRef, watch::Sender<Option<Instant>>>,
    tasks: JoinSet<()>,
    alarm: Alarm,
    left: bool,
}

impl Core {
    async fn run(
        mut self,
        mut line: mpsc::Receiver<link::Event>,
        mut work: mpsc::UnboundedReceiver<Input>,
        leave: impl Future<Output = ()> + Send,
        stop: impl Future<Output = ()> + Send,
        watchdog_gone: &mut JoinHandle<()>,
        drain_timeout: Duration,
    ) -> Result<(), Error> {
        tokio::pin!(leave, stop);
        let (mut leaving, mut stopping, mut orphaned) = (false, false, false);
        let mut drain_until: Option<Instant> = None;
        let mut give_up_at: Option<Instant> = None;
        let mut inputs = Vec::new();
        while !self.left {
            if stopping && self.stops.is_empty() && give_up_at.is_none() {
                give_up_at = Some(Instant::now() + ACK_PATIENCE);
            }
            self.alarm.set(self.machine.next_deadline()).map_err(timer)?;
            let input = tokio::select! {
                // Ends before beginnings: a slot that is free is worth more than one that is being filled.
                biased;
                Some(input) = work.recv() => input,
                Some(event) = line.recv() => match self.heard(event) {
                    Some(input) => input,
                    None => continue,
                },
                rung = self.alarm.ring() => { rung.map_err(timer)?; Input::Tick }
                () = &mut leave, if !leaving => {
                    leaving = true;
                    drain_until = Some(Instant::now() + drain_timeout);
                    info!("leaving: nothing new is taken, and what runs is finished. Once more to stop it at once");
                    Input::Leave
                }
                () = &mut stop, if !stopping => {
                    (leaving, stopping) = (true, true);
                    info!("stopping what runs");
                    Input::StopAll
                }
                () = at(drain_until), if !stopping => {
                    stopping = true;
                    warn!("what runs did not finish within the drain timeout; it is stopped");
                    Input::StopAll
                }
                _ = &mut *watchdog_gone, if !orphaned => {
                    (leaving, stopping, orphaned) = (true, true, true);
                    error!("the watchdog is gone; what runs is stopped");
                    Input::StopAll
                }
                () = at(give_up_at) => {
                    warn!("the scheduler has not taken every result; the next start of this runner will tell them");
                    break;
                }
            };
            inputs.push(input);
            // What came meanwhile goes along: one frame for all of it.
            while inputs.len() < INPUTS_MAX
                && let Ok(input) = work.try_recv()
            {
                inputs.push(input);
            }
            for input in &inputs {
                if let Input::Ended { task, .. } = input {
                    self.stops.remove(task);
                }
            }
            let outputs = self.machine.step_all(clock::Instant::now(), inputs.drain(..));
            self.carry_out_all(outputs);
            self.tell_lifeline();
            while self.tasks.try_join_next().is_some() {}
        }
        // It ends when it has written what it was given.
        let _ = self.orders.send(link::Order::Goodbye);
        if orphaned { Err(Error::WatchdogGone) } else { Ok(()) }
    }

    fn heard(&mut self, event: link::Event) -> Option<Input> {
        match event {
            link::Event::Opened { conn, others } => {
                self.conn = Some(conn);
                Some(Input::Opened { others })
            }
            link::Event::Received { conn, received } if self.conn == Some(conn) => Some(Input::Received(received)),
            link::Event::Closed { conn } if self.conn == Some(conn) => {
                self.conn = None;
                Some(Input::Closed)
            }
            link::Event::Received { .. } | link::Event::Closed { .. } => None,
        }
    }

    fn carry_out_all(&mut self, outputs: Vec<Output>) {
        let starts = |output: &Output| if let Output::Start { slot, .. } = output { Some(*slot) } else { None };
        let mut begun: HashSet<u32> = outputs.iter().filter_map(starts).collect();
        for output in outputs {
            match &output {
                // What begins is written down in its place. Should this process die before, a result is told once more, which
                // changes nothing.
                Output::Forget { slot } if begun.contains(slot) => continue,
                Output::Start { slot, .. } => drop(begun.remove(slot)),
                _ => {}
            }
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send(frame) => {
                if let Some(conn) = self.conn {
                    // The line lives as long as we do.
                    let _ = self.orders.send(link::Order::Send(conn, frame));
                }
            }
            Output::Start { slot, task, spec } => self.start(slot, task, spec),
            Output::Stop { task, grace, .. } => {
                let at = Instant::now() + grace;
                if let Some(stop) = self.stops.get(&task) {
                    stop.send_if_modified(|known| {
                        let sooner = known.is_none_or(|known| at < known);
                        if sooner {
                            *known = Some(at);
                        }
                        sooner
                    });
                }
            }
            Output::Keep { slot, task, result } => {
                debug!(%task, slot, reason = ?result.end_reason, exit_code = ?result.exit_code, "task ended");
                if let Err(error) = self.state.keep(slot, task, *result) {
                    warn!(%task, %error, "a result cannot be written to the state directory; it is kept in memory");
                }
            }
            Output::Forget { slot } => self.forget(slot),
            Output::EndedTold => {
                // Their records are kept until here, so that a boot that dies before it could tell leaves it to the
                // next. No new task has been taken before this, so the slots are still theirs.
                for (slot, _) in std::mem::take(&mut self.leftovers.ended) {
                    self.forget(slot);
                }
            }
            Output::Redial(why) => {
                match why {
                    Redial::Deaf => warn!("the scheduler does not answer; dialling again. Tasks go on"),
                    Redial::NotAcked => warn!("the scheduler answers but cannot commit; dialling another"),
                    Redial::Told => {}
                }
                if let Some(conn) = self.conn.take() {
                    let _ = self.orders.send(link::Order::Redial(conn));
                }
            }
            Output::Left => self.left = true,
        }
    }

    fn start(&mut self, slot: u32, task: TaskRef, spec: Box<RunSpec>) {
        debug!(%task, slot, name = spec.task_name, job = spec.job_name, "task starts");
        let (stop, stop_at) = watch::channel(None);
        self.stops.insert(task, stop);
        let work = self.work.clone();
        match &self.executor {
            Executor::Own { requests, .. } if matches!(spec.target, Target::Http(_)) => match requests.runtime() {
                Ok(runtime) => {
                    self.tasks.spawn_on(requests.clone().run(slot, task, spec, stop_at, work), &runtime);
                }
                Err(error) => {
                    let end = End::not_started(format!("cannot make threads for requests: {error}"));
                    let _ = work.send(Input::Ended { slot, task, end });
                }
            },
            Executor::Own { processes, .. } => {
                self.tasks.spawn(processes.clone().run(slot, task, spec, stop_at, work));
            }
            Executor::Handler { handler, logs } => {
                self.tasks.spawn(target::run(handler.clone(), logs.clone(), slot, task, spec, stop_at, work));
            }
        }
    }

    fn forget(&self, slot: u32) {
        if let Err(error) = self.state.forget(slot) {
            warn!(slot, %error, "the record of a slot cannot be cleared");
        }
    }

    /// The watchdog counts self-stop from the same instant.
    fn tell_lifeline(&mut self) {
        let lifeline = self.machine.lifeline();
        if let Some(at) = lifeline.filter(|_| lifeline != self.lifeline) {
            self.lifeline = lifeline;
            self.watchdog.lifeline(at);
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn timer(source: io::Error) -> Error {
    Error::Io { what: "set a timer", source }
}
