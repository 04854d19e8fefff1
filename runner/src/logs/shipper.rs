//! Carries chunks from files to a stream.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs::{self, File},
    mem::MaybeUninit,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    time::Duration,
};

use rustix::{
    fd::OwnedFd,
    fs::{FallocateFlags, SeekFrom, fallocate, inotify, seek},
};
use tokio::{
    io::unix::AsyncFd,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tonic::transport::Endpoint;
use tracing::{debug, warn};

use super::{
    Files, Message,
    output::{Chunk, Outputs},
    spares::Spares,
};
use crate::{
    clock::watched,
    link::append::{Append, Piece, Stored},
    task::TaskRef,
};

/// The most bytes in one chunk.
const CHUNK_MAX: u64 = 256 * 1024;

/// Fewer bytes than this wait for more.
const CHUNK_MIN: u64 = 1024;

/// But no longer than this.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// What an ended task leaves to send waits this long for that of others, unless it is much.
const ENDED_PATIENCE: Duration = Duration::from_millis(10);

/// How many bytes of one output may be under way.
const OUTPUT_WINDOW: u64 = 1024 * 1024;

/// How many bytes may be under way in all.
const TOTAL_WINDOW: u64 = 8 * 1024 * 1024;

/// Room is given back to the disk in steps of this size.
const FREE_STEP: u64 = 1024 * 1024;

/// Holes begin and end at multiples of this.
const BLOCK: u64 = 4096;

/// The pause after a connection that could not be had or that broke.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// How long a connection may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two looks at what changed: hundreds of tasks that write a line each are one look's work.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How often outputs are looked at where inotify is not to be had.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const INOTIFY_BUFFER: usize = 16 * 1024;

type Key = (TaskRef, usize);

struct Log {
    files: Files,
    open: [Option<File>; 2],
    outputs: Outputs,
    /// The file system cannot punch holes.
    solid: bool,
}

struct Stream {
    append: Append,
    /// How many bytes were sent and are not stored, over all outputs.
    in_flight: u64,
}

pub(super) struct Shipper {
    messages: mpsc::UnboundedReceiver<Message>,
    dir: PathBuf,
    spares: Spares,
    logs: HashMap<TaskRef, Log>,
    /// Outputs with something to send, in the order in which it came.
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    /// Outputs with less than a chunk to send, and until when that may wait.
    waiting: VecDeque<(Instant, Key)>,
    wait_listed: HashSet<Key>,
    /// Outputs of ended tasks with less than a chunk to send, and until when that may wait.
    last_words: VecDeque<(Instant, Key)>,
    waiters: Vec<oneshot::Sender<()>>,
    changes: Option<AsyncFd<OwnedFd>>,
}

impl Shipper {
    pub(super) fn new(dir: PathBuf, spares: Spares, messages: mpsc::UnboundedReceiver<Message>) -> Self {
        Self {
            messages,
            dir,
            spares,
            logs: HashMap::new(),
            ready: VecDeque::new(),
            queued: HashSet::new(),
            waiting: VecDeque::new(),
            wait_listed: HashSet::new(),
            last_words: VecDeque::new(),
            waiters: Vec::new(),
            changes: None,
        }
    }

    /// Ships until nobody can speak to it any more.
    pub(super) async fn run(mut self, endpoint: watch::Receiver<Option<Endpoint>>) {
        self.recover();
        self.changes = match self.watch() {
            Ok(changes) => Some(changes),
            Err(error) => {
                warn!(%error, "no inotify: the output of tasks is looked for ten times a second instead");
                None
            }
        };
        let mut stream: Option<Stream> = None;
        let mut connect_at = Instant::now();
        let mut look_at = Instant::now();
        // Beside the loop, for a connection takes longer than the next event does.
        let mut connecting: Option<JoinHandle<Option<Append>>> = None;
        loop {
            self.pump(&mut stream);
            self.waiters.retain(|waiter| !waiter.is_closed());
            if !self.waiters.is_empty() && !self.logs.values().any(|log| log.outputs.ended) {
                for waiter in self.waiters.drain(..) {
                    let _ = waiter.send(());
                }
            }
            if stream.is_none() && connecting.is_none() && !self.logs.is_empty() {
                connecting = Some(tokio::spawn(connect(endpoint.clone(), connect_at)));
            }
            let flush_at = [&self.waiting, &self.last_words].into_iter().filter_map(|list| Some(list.front()?.0)).min();
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => self.hear(message),
                    None => return,
                },
                changed = async { sleep_until(look_at).await; changes(self.changes.as_ref()).await } => {
                    self.see(changed);
                    look_at = Instant::now() + LOOK_AGAIN;
                }
                answer = answer(&mut stream) => if let Some(answer) = answer {
                    self.stored(&answer, &mut stream);
                } else {
                    self.rewind(&mut stream);
                    connect_at = Instant::now() + RECONNECT_AFTER;
                },
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() => self.flush(),
                connected = joined(&mut connecting) => {
                    connecting = None;
                    connect_at = Instant::now() + RECONNECT_AFTER;
                    stream = connected.map(|append| Stream { append, in_flight: 0 });
                }
            }
        }
    }

    fn watch(&self) -> std::io::Result<AsyncFd<OwnedFd>> {
        let changes = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&changes, &self.dir, inotify::WatchFlags::MODIFY)?;
        watched(changes)
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Opened(task, files) => {
                let outputs = Outputs::new(files.limit);
                self.logs.insert(task, Log { files, open: [None, None], outputs, solid: false });
                // It may have written before it was watched for. Most are over before it is looked at.
                for key in [(task, 0), (task, 1)] {
                    if self.wait_listed.insert(key) {
                        self.waiting.push_back((Instant::now() + FLUSH_AFTER, key));
                    }
                }
            }
            Message::Ended(task, sizes) => self.end(task, sizes),
            Message::Empty(waiter) => self.waiters.push(waiter),
        }
    }

    /// Takes up what an earlier boot could not ship. A hole at the beginning was stored; one further on was cut.
    fn recover(&mut self) {
        for (task, files) in Files::all_in(&self.dir, &self.spares) {
            let mut log = Log { outputs: Outputs::new(files.limit), files, open: [None, None], solid: false };
            for stream in [0, 1] {
                let Ok(file) = File::open(log.files.path(stream)) else { continue };
                let size = file.metadata().map_or(0, |file| file.len());
                log.outputs.grew(stream, size);
                let stored = seek(&file, SeekFrom::Data(0)).unwrap_or(size);
                let output = &mut log.outputs.each[stream];
                (output.stored, output.sent, output.freed) = (stored, stored, stored);
                output.head = output.head.max(stored);
            }
            let sizes = log.outputs.each.each_ref().map(|output| output.size);
            self.logs.insert(task, log);
            self.end(task, sizes);
            let Some(log) = self.logs.get_mut(&task) else { continue };
            for stream in [0, 1] {
                let Ok(file) = File::open(log.files.path(stream)) else { continue };
                let output = &mut log.outputs.each[stream];
                let hole = seek(&file, SeekFrom::Hole(output.stored)).unwrap_or(output.size);
                let data = seek(&file, SeekFrom::Data(hole)).unwrap_or(output.size);
                if output.cut.is_none() && hole < data {
                    output.cut = Some((hole, data));
                }
            }
        }
    }

    fn end(&mut self, task: TaskRef, sizes: [u64; 2]) {
        let Some(log) = self.logs.get_mut(&task) else { return };
        for (stream, size) in sizes.into_iter().enumerate() {
            log.outputs.grew(stream, size);
            log.free(stream);
        }
        log.outputs.end();
        if log.outputs.done() {
            self.drop_log(task);
            return;
        }
        let unsent = log.outputs.each.each_ref().map(|output| output.size - output.sent);
        for (stream, unsent) in unsent.into_iter().enumerate() {
            if unsent >= CHUNK_MIN {
                self.queue((task, stream));
            } else if sizes[stream] > 0 {
                self.last_words.push_back((Instant::now() + ENDED_PATIENCE, (task, stream)));
            }
        }
    }

    /// Looks at how long a file has become; whether that is longer than before.
    fn look(&mut self, (task, stream): Key) -> bool {
        let Some(log) = self.logs.get_mut(&task).filter(|log| !log.outputs.ended) else { return false };
        let Ok(size) = log.files.size(stream) else { return false };
        let more = size != log.outputs.each[stream].size;
        if more {
            log.outputs.grew(stream, size);
        }
        more
    }

    /// Looks at how long a file has become, and has what is new of it sent: at once where it is much.
    fn grew(&mut self, key: Key) {
        let (task, stream) = key;
        if !self.look(key) {
            return;
        }
        let Some(log) = self.logs.get_mut(&task) else { return };
        let output = &log.outputs.each[stream];
        let unsent = output.head - output.sent;
        log.free(stream);
        if unsent >= CHUNK_MIN {
            self.queue(key);
        } else if unsent > 0 && self.wait_listed.insert(key) {
            self.waiting.push_back((Instant::now() + FLUSH_AFTER, key));
        }
    }

    /// Sees which files have changed.
    fn see(&mut self, changed: Changed) {
        match changed {
            Changed::Some(keys) => keys.into_iter().for_each(|key| self.grew(key)),
            Changed::Any => {
                let all: Vec<Key> = self.logs.keys().flat_map(|task| [(*task, 0), (*task, 1)]).collect();
                for key in all {
                    self.grew(key);
                }
            }
        }
    }

    fn flush(&mut self) {
        let now = Instant::now();
        while let Some((_, key)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            self.wait_listed.remove(&key);
            if self.logs.contains_key(&key.0) {
                self.look(key);
                self.queue(key);
            }
        }
        // With the first that has waited for long enough go all that wait: one write and one commit for them.
        if self.last_words.front().is_some_and(|(at, _)| *at <= now) {
            for (_, key) in std::mem::take(&mut self.last_words) {
                if self.logs.contains_key(&key.0) {
                    self.queue(key);
                }
            }
        }
    }

    fn queue(&mut self, key: Key) {
        if self.queued.insert(key) {
            self.ready.push_back(key);
        }
    }

    /// Sends what may be sent now, an output at a time, each a chunk in turn.
    fn pump(&mut self, stream: &mut Option<Stream>) {
        let Some(open) = stream.as_mut() else { return };
        let mut blocked = VecDeque::new();
        while open.in_flight < TOTAL_WINDOW {
            let Some(key) = self.ready.pop_front() else { break };
            let Some(log) = self.logs.get_mut(&key.0) else {
                self.queued.remove(&key);
                continue;
            };
            let Some(chunk) = log.outputs.next(key.1, CHUNK_MAX) else {
                self.queued.remove(&key);
                continue;
            };
            // What is stored opens the window and puts it back into the queue.
            if log.outputs.in_flight(key.1) >= OUTPUT_WINDOW {
                blocked.push_back(key);
                continue;
            }
            let data = match log.read(key.1, chunk) {
                Ok(data) => data,
                Err(error) => {
                    warn!(task = %key.0, %error, "the output of a task cannot be read; the rest of it is lost");
                    self.drop_log(key.0);
                    continue;
                }
            };
            log.outputs.sent(key.1, chunk);
            open.in_flight += chunk.len;
            let Chunk { offset, skipped, last, .. } = chunk;
            let piece = Piece { task: key.0, stream: key.1, offset, data: data.into(), skipped, last };
            if open.append.pieces.send(piece).is_err() {
                break;
            }
            self.ready.push_back(key);
        }
        self.ready.append(&mut blocked);
    }

    fn stored(&mut self, answer: &Stored, stream: &mut Option<Stream>) {
        let Stored { task, stream: which, before: stored, refused } = answer;
        let Some(log) = self.logs.get_mut(task) else { return };
        let before = log.in_flight();
        let finished = if refused.is_empty() {
            log.outputs.stored(*which, *stored);
            log.free(*which);
            log.outputs.done()
        } else {
            debug!(%task, reason = refused, "the output of a task is not wanted");
            true
        };
        let after = if finished { 0 } else { log.in_flight() };
        if let Some(open) = stream {
            open.in_flight = open.in_flight.saturating_sub(before - after);
        }
        if finished {
            self.drop_log(*task);
        } else {
            self.queue((*task, *which));
        }
    }

    fn drop_log(&mut self, task: TaskRef) {
        if let Some(log) = self.logs.remove(&task) {
            // Closed first, or we would stand in our own way.
            drop(log.open);
            // A task that still writes goes on into files without a name.
            log.files.remove();
        }
    }

    fn rewind(&mut self, stream: &mut Option<Stream>) {
        *stream = None;
        for log in self.logs.values_mut() {
            log.outputs.rewind();
        }
        let all: Vec<Key> = self.logs.keys().flat_map(|task| [(*task, 0), (*task, 1)]).collect();
        for key in all {
            self.queue(key);
        }
    }
}

impl Log {
    fn in_flight(&self) -> u64 {
        self.outputs.in_flight(0) + self.outputs.in_flight(1)
    }

    /// An output, opened to be read and freed.
    fn file(&mut self, stream: usize) -> std::io::Result<&File> {
        if let Some(file) = self.files.held(stream) {
            return Ok(file);
        }
        let open = &mut self.open[stream];
        Ok(match open {
            Some(file) => file,
            None => open.insert(fs::OpenOptions::new().read(true).write(true).open(self.files.path(stream))?),
        })
    }

    fn read(&mut self, stream: usize, chunk: Chunk) -> std::io::Result<Vec<u8>> {
        let mut data = vec![0; chunk.len as usize];
        if chunk.len > 0 {
            self.file(stream)?.read_exact_at(&mut data, chunk.offset)?;
        }
        Ok(data)
    }

    /// Gives room back to the disk, in large steps.
    fn free(&mut self, stream: usize) {
        if self.solid {
            return;
        }
        for (which, (from, to)) in self.outputs.needless(stream).into_iter().enumerate() {
            let (from, to) = (from.next_multiple_of(BLOCK), to / BLOCK * BLOCK);
            if to < from + FREE_STEP {
                continue;
            }
            let Ok(file) = self.file(stream) else { return };
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(error) = fallocate(file, flags, from, to - from) {
                warn!(%error, "cannot free the room of output on disk; it stays until its task has ended");
                self.solid = true;
                return;
            }
            let output = &mut self.outputs.each[stream];
            *[&mut output.freed, &mut output.cut_freed][which] = to;
        }
    }
}

enum Changed {
    Some(HashSet<Key>),
    Any,
}

/// Waits until files change.
async fn changes(watch: Option<&AsyncFd<OwnedFd>>) -> Changed {
    let Some(watch) = watch else {
        tokio::time::sleep(LOOK_EVERY).await;
        return Changed::Any;
    };
    loop {
        let Ok(mut ready) = watch.readable().await else { return Changed::Any };
        let mut buffer = [MaybeUninit::uninit(); INOTIFY_BUFFER];
        let mut reader = inotify::Reader::new(watch.get_ref(), &mut buffer);
        let mut keys = HashSet::new();
        let mut all = false;
        // One buffer at a time: a task that writes without end must not keep us here.
        while let Ok(event) = reader.next() {
            all |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            let name = event.file_name().and_then(|name| name.to_str().ok());
            keys.extend(name.and_then(Files::whose));
            if reader.is_buffer_empty() {
                break;
            }
        }
        if all {
            return Changed::Any;
        }
        if keys.is_empty() {
            ready.clear_ready();
        } else {
            return Changed::Some(keys);
        }
    }
}

async fn answer(stream: &mut Option<Stream>) -> Option<Stored> {
    match stream {
        Some(stream) => stream.append.answers.recv().await,
        None => std::future::pending().await,
    }
}

async fn joined(connecting: &mut Option<JoinHandle<Option<Append>>>) -> Option<Append> {
    match connecting {
        Some(connecting) => connecting.await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// Connects to the scheduler that holds the heartbeat stream.
async fn connect(mut endpoint: watch::Receiver<Option<Endpoint>>, at: Instant) -> Option<Append> {
    sleep_until(at).await;
    let target = endpoint.wait_for(Option::is_some).await.ok()?.clone()?;
    match timeout(CONNECT_TIMEOUT, Append::open(target)).await {
        Ok(Ok(append)) => return Some(append),
        Ok(Err(error)) => debug!(%error, "no connection for logs"),
        Err(_) => debug!("no connection for logs in time"),
    }
    None
}
