//! The line to a scheduler: dials for ever, carries frames both ways, and knows nothing of what they mean.
//!
//! One stream at a time. Each connection gets a number that only grows (`conn`), raised after the older stream is
//! closed, and everything said to and by the line carries it, so that a frame meant for one stream never goes out on
//! another. Messages of the protocol end here: `convert` turns them into the runner's own words.

pub(crate) mod append;
pub(crate) mod backoff;
mod convert;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use baton::v1::{self, heartbeat_service_client::HeartbeatServiceClient};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Endpoint};
use tracing::{debug, error, info, warn};

use self::{
    backoff::{Backoff, chance},
    convert::Incoming,
};
use crate::machine::{Frame, Received, Settings};

/// How long a connection may take to stand (rule 10).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The flow-control window of a connection: h2 kills one over unread small frames in proportion to it (rule 15).
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// How often a silent connection is pinged, and how long the answer may take. Beats find a dead scheduler sooner; this
/// finds a dead path.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest frame that is taken in: a full inventory of verdicts for 10,000 slots, or a large spec.
const FRAME_MAX: usize = 64 * 1024 * 1024;

/// Frames that may wait to be written. A line that is further behind than that is dead.
const OUTGOING_MAX: usize = 4096;

/// Endpoints remembered from a scheduler.
const ENDPOINTS_MAX: usize = 64;

/// How long the last frame may take to go out.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the log says that no scheduler is to be had.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);

/// Who says hello.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) install_id: String,
    pub(crate) boot_id: String,
    pub(crate) boot_number: u64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) slots: u32,
    pub(crate) capabilities: Vec<String>,
}

/// What the line is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send this on that connection.
    Send(u64, Frame),
    /// Close that connection and dial again.
    Redial(u64),
    /// Let what was sent go out, close, and end.
    Goodbye,
}

/// What the line tells.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection stands and waits for a hello; `others` says whether there is another endpoint.
    Opened { conn: u64, others: bool },
    /// A frame came.
    Received { conn: u64, received: Received },
    /// It is closed.
    Closed { conn: u64 },
}

/// The line.
pub(crate) struct Link {
    identity: Identity,
    settings: Settings,
    /// As configured; always tried.
    own: Vec<String>,
    /// As the last scheduler said.
    learnt: Vec<String>,
    backoff: Backoff,
    conn: u64,
    /// The scheduler that closed the last stream wants nobody back before this has passed.
    reconnect_after: Duration,
    orders: mpsc::UnboundedReceiver<Order>,
    events: mpsc::Sender<Event>,
    /// Where the session is, for logs.
    present: watch::Sender<Option<Endpoint>>,
    outage: Outage,
}

/// Why a stream is over.
enum Over {
    /// The other end, or the path.
    Lost(String),
    /// We were told to dial again.
    Redial,
    /// We are leaving.
    Goodbye,
}

impl Link {
    pub(crate) fn new(
        identity: Identity,
        settings: Settings,
        endpoints: Vec<String>,
        orders: mpsc::UnboundedReceiver<Order>,
        events: mpsc::Sender<Event>,
        present: watch::Sender<Option<Endpoint>>,
    ) -> Self {
        let beat = settings.heartbeat_interval;
        Self {
            identity,
            own: endpoints,
            learnt: Vec::new(),
            backoff: Backoff::new(beat / 10, beat * 4 / 5),
            conn: 0,
            reconnect_after: Duration::ZERO,
            orders,
            events,
            present,
            outage: Outage::default(),
            settings,
        }
    }

    /// Holds a stream to some scheduler until told goodbye, or until nobody listens.
    pub(crate) async fn run(mut self) {
        loop {
            let endpoints = self.endpoints();
            let address = endpoints[self.backoff.current(endpoints.len())].clone();
            let over = self.dial(&address, endpoints.len() > 1).await;
            let pause = self.backoff.next(self.endpoints().len(), chance());
            let pause = pause.max(std::mem::take(&mut self.reconnect_after));
            match over {
                Over::Lost(reason) => self.outage.complain(&address, &reason),
                Over::Redial => {}
                Over::Goodbye => return,
            }
            if self.rest(pause).await {
                return;
            }
        }
    }

    fn endpoints(&self) -> Vec<String> {
        let mut all = self.own.clone();
        for learnt in &self.learnt {
            if !all.contains(learnt) {
                all.push(learnt.clone());
            }
        }
        all
    }

    /// Waits between two dials; true when it is time to go.
    async fn rest(&mut self, pause: Duration) -> bool {
        let rest = sleep(pause);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                () = &mut rest => return false,
                order = self.orders.recv() => if let None | Some(Order::Goodbye) = order { return true },
            }
        }
    }

    /// One connection, from dialling to its end.
    async fn dial(&mut self, address: &str, others: bool) -> Over {
        let endpoint = match endpoint(address) {
            Ok(endpoint) => endpoint,
            Err(problem) => return Over::Lost(problem),
        };
        let connected = tokio::select! {
            connected = timeout(CONNECT_TIMEOUT, endpoint.connect()) => connected,
            () = goodbye(&mut self.orders) => return Over::Goodbye,
        };
        let channel = match connected {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Over::Lost(root(&error)),
            Err(_) => return Over::Lost("no answer in time".to_owned()),
        };
        self.conn += 1;
        let conn = self.conn;
        if self.events.send(Event::Opened { conn, others }).await.is_err() {
            return Over::Goodbye;
        }
        let (outgoing, frames) = mpsc::channel(OUTGOING_MAX);
        // The hello is in the channel before the call is made: a server may want to see it before it answers.
        loop {
            match self.orders.recv().await {
                Some(Order::Send(to, frame)) if to == conn => {
                    let _ = outgoing.try_send(convert::heartbeat(frame, conn, &self.identity));
                    break;
                }
                Some(Order::Goodbye) | None => return Over::Goodbye,
                Some(_) => {}
            }
        }
        let client = HeartbeatServiceClient::new(channel).max_decoding_message_size(FRAME_MAX);
        let over = self.carry(client, conn, &endpoint, outgoing, frames).await;
        if !matches!(over, Over::Goodbye) {
            // A runner that leaves still ships its last output there.
            self.present.send_replace(None);
        }
        if self.events.send(Event::Closed { conn }).await.is_err() {
            return Over::Goodbye;
        }
        over
    }

    /// Carries frames both ways until the stream is over. When this returns, the connection is closed.
    async fn carry(
        &mut self,
        mut client: HeartbeatServiceClient<tonic::transport::Channel>,
        conn: u64,
        endpoint: &Endpoint,
        outgoing: mpsc::Sender<v1::Heartbeat>,
        frames: mpsc::Receiver<v1::Heartbeat>,
    ) -> Over {
        let call = client.beat(ReceiverStream::new(frames));
        tokio::pin!(call);
        let mut incoming: Option<Streaming<v1::Command>> = None;
        loop {
            tokio::select! {
                opened = &mut call, if incoming.is_none() => match opened {
                    Ok(opened) => incoming = Some(opened.into_inner()),
                    Err(status) => return Over::Lost(describe(&status)),
                },
                message = next(&mut incoming) => match message {
                    Ok(Some(command)) => {
                        let Incoming { received, terms, farewell } = convert::command(command, &self.settings);
                        if let Some(terms) = terms {
                            self.welcomed(terms, endpoint);
                        }
                        if let Some(farewell) = farewell {
                            self.dismissed(&farewell);
                        }
                        // When nobody listens any more, the last frame and the goodbye are already on their way here.
                        let _ = self.events.send(Event::Received { conn, received }).await;
                    }
                    Ok(None) => return Over::Lost("it closed the stream".to_owned()),
                    Err(status) => return Over::Lost(describe(&status)),
                },
                order = self.orders.recv() => match order {
                    Some(Order::Send(to, frame)) if to == conn => {
                        let beat = frame.hello.is_none() && frame.slots.len() >= self.identity.slots as usize;
                        let mut message = convert::heartbeat(frame, conn, &self.identity);
                        if beat {
                            message.load = convert::load();
                        }
                        if outgoing.try_send(message).is_err() {
                            return Over::Lost("it does not read what is sent".to_owned());
                        }
                    }
                    Some(Order::Redial(of)) if of == conn => return Over::Redial,
                    Some(Order::Goodbye) | None => {
                        drop(outgoing);
                        let _ = timeout(GOODBYE_TIMEOUT, async {
                            while let Ok(Some(_)) = next(&mut incoming).await {}
                        })
                        .await;
                        return Over::Goodbye;
                    }
                    Some(_) => {}
                },
            }
        }
    }

    fn welcomed(&mut self, terms: convert::Terms, endpoint: &Endpoint) {
        self.backoff.succeeded();
        self.backoff.set(terms.backoff_base, terms.backoff_max);
        self.learnt = terms.endpoints.into_iter().filter_map(|text| address(&text).ok()).take(ENDPOINTS_MAX).collect();
        self.outage.over();
        info!(
            scheduler = %endpoint.uri(),
            scheduler.id = terms.scheduler,
            session = terms.session,
            conn = self.conn,
            "connected"
        );
        if !terms.notice.is_empty() {
            warn!(notice = terms.notice, "the scheduler says");
        }
        self.present.send_replace(Some(endpoint.clone()));
    }

    fn dismissed(&mut self, farewell: &convert::Farewell) {
        // Remembered here, for the stream may end before anyone else has read why.
        self.reconnect_after = farewell.reconnect_after;
        if farewell.duplicate {
            error!(
                runner.id = self.identity.id,
                message = farewell.message,
                "another host uses this runner id; give each runner its own with --id. Trying again until the other \
                 one is gone"
            );
        } else {
            info!(reason = farewell.reason, message = farewell.message, "the scheduler closes the stream");
        }
    }
}

/// Waits for a goodbye while there is no stream; other orders are about streams that are gone.
async fn goodbye(orders: &mut mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        if let Order::Goodbye = order {
            return;
        }
    }
}

async fn next(incoming: &mut Option<Streaming<v1::Command>>) -> Result<Option<v1::Command>, Status> {
    match incoming {
        Some(incoming) => incoming.message().await,
        None => std::future::pending().await,
    }
}

/// What the log has said of having no scheduler: once an outage, then once a minute.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
    said: Option<Instant>,
    tries: u64,
    /// There was one, and the log has not said that it is gone.
    connected: bool,
}

impl Outage {
    fn complain(&mut self, address: &str, reason: &str) {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        self.tries += 1;
        if self.said.is_some_and(|said| now - said < COMPLAIN_EVERY) {
            debug!(address, reason, "no scheduler");
            return;
        }
        self.said = Some(now);
        let for_seconds = (now - since).as_secs();
        let tries = self.tries;
        if self.connected {
            self.connected = false;
            warn!(address, reason, "the line to the scheduler broke; dialling again, and tasks go on");
            return;
        }
        warn!(
            address,
            reason,
            tries,
            for_seconds,
            "no scheduler to be had; dialling on, and tasks go on. Start one with `baton dev` or check --scheduler"
        );
    }

    fn over(&mut self) {
        *self = Self { connected: true, ..Self::default() };
    }
}

/// The address of a scheduler as the transport wants it: `host:port` and `http://host:port` are both fine.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let problem = |why: &str| {
        Err(format!("`{text}` is no address of a scheduler: {why}; write host:port, such as localhost:7420"))
    };
    let (scheme, host) = text.split_once("://").unwrap_or(("http", text));
    if scheme != "http" {
        return problem("only http:// is supported by this version");
    }
    if host.is_empty() || host.contains('/') {
        return problem("it has no host, or a path");
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let full = if has_port { format!("http://{host}") } else { format!("http://{host}:{}", baton::DEFAULT_PORT) };
    if full.parse::<tonic::codegen::http::Uri>().is_err() {
        return problem("it cannot be parsed");
    }
    Ok(full)
}

fn endpoint(address: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| error.to_string())?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// The innermost cause, which is the one a person can act on.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn describe(status: &Status) -> String {
    match status.code() {
        Code::Unimplemented => "it is no Baton scheduler, or one without heartbeats".to_owned(),
        code if status.message().is_empty() => code.description().to_owned(),
        _ => status.message().to_owned(),
    }
}
