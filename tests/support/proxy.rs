//! A bad network between two programs: holds, delays, cuts and refuses what passes, as a test says.
//!
//! It knows nothing of what it carries. Bytes are never lost from a connection that lives (TCP would send them again),
//! so a partition is a connection that stands still, and a loss is one that is cut with bytes on their way.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::programs;

/// How much is read at once: small, so that a cut can fall within a frame.
const READ_BYTES: usize = 4096;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From who dialled to who listens: from a runner to its scheduler.
    Up,
    /// The other one.
    Down,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// In order (FIN), as when a program closes it.
    Close,
    /// By a reset (RST), as when a host or a firewall has forgotten it.
    Reset,
}

#[derive(Debug, Clone, Default)]
struct Flow {
    held: bool,
    delay: Duration,
    // Cut once so many more bytes have passed.
    cut_after: Option<(u64, Cut)>,
}

#[derive(Debug, Clone, Default)]
struct Weather {
    up: Flow,
    down: Flow,
    refuse: bool,
    // How many connections were taken.
    taken: u64,
    // Grows with each cut: a connection made under a lower number is gone.
    cuts: u64,
    how: Option<Cut>,
}

impl Weather {
    fn flow(&self, way: Way) -> &Flow {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    fn flow_mut(&mut self, way: Way) -> &mut Flow {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// Takes `count` bytes off what may still pass this way before the cut: how many pass, and whether it cuts now.
    fn pass(&mut self, way: Way, count: usize) -> (usize, Option<Cut>) {
        let flow = self.flow_mut(way);
        match flow.cut_after {
            Some((left, how)) if left <= count as u64 => {
                flow.cut_after = None;
                (left as usize, Some(how))
            }
            Some((left, how)) => {
                flow.cut_after = Some((left - count as u64, how));
                (count, None)
            }
            None => (count, None),
        }
    }
}

/// The proxy. It lives until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: Arc<watch::Sender<Weather>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Stands before `target`, with fair weather.
    pub async fn to(target: SocketAddr) -> Self {
        Self::at(programs::free_address(), target).await
    }

    /// Stands at this address, before `target`, with fair weather.
    pub async fn at(address: SocketAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free address can be bound");
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let accepting = tokio::spawn(accept(listener, target, weather.clone()));
        Self { address, weather, accepting }
    }

    /// Where to dial it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing more through in one direction; what is on its way waits.
    pub fn hold(&self, way: Way) {
        self.weather.send_modify(|weather| weather.flow_mut(way).held = true);
    }

    /// Lets nothing more through in either direction.
    pub fn part(&self) {
        self.hold(Way::Up);
        self.hold(Way::Down);
    }

    /// Lets everything through late.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.weather.send_modify(|weather| weather.flow_mut(way).delay = delay);
    }

    /// Cuts every connection there is, with what is on its way.
    pub fn cut(&self, how: Cut) {
        self.weather.send_modify(|weather| {
            weather.cuts += 1;
            weather.how = Some(how);
        });
    }

    /// Cuts the connection that carries the `bytes`-th next byte of this direction: in the midst of a frame.
    pub fn cut_after(&self, way: Way, bytes: u64, how: Cut) {
        self.weather.send_modify(|weather| weather.flow_mut(way).cut_after = Some((bytes, how)));
    }

    /// Refuses new connections.
    pub fn refuse(&self) {
        self.weather.send_modify(|weather| weather.refuse = true);
    }

    /// Fair weather again: what was held goes on, and new connections are taken.
    pub fn heal(&self) {
        self.weather.send_modify(|weather| {
            *weather = Weather { cuts: weather.cuts, taken: weather.taken, ..Weather::default() };
        });
    }

    /// How many connections were taken so far.
    pub fn taken(&self) -> u64 {
        self.weather.borrow().taken
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut(Cut::Reset);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, weather: Arc<watch::Sender<Weather>>) {
    let address = listener.local_addr().expect("it is bound");
    let mut listener = Some(listener);
    let mut seen = weather.subscribe();
    loop {
        if seen.borrow_and_update().refuse {
            // Without a listener the kernel refuses, as it does when a program is gone.
            listener = None;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).await.expect("the address is still ours"));
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = seen.changed() => if changed.is_err() { return },
            connection = accepted => if let Ok((client, _)) = connection {
                weather.send_modify(|weather| weather.taken += 1);
                let made_under = weather.borrow().cuts;
                tokio::spawn(carry(client, target, weather.clone(), made_under));
            },
        }
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, weather: Arc<watch::Sender<Weather>>, made_under: u64) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let how = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::try_join!(
                pump(Way::Up, from_client, to_server, &weather),
                pump(Way::Down, from_server, to_client, &weather)
            )
        };
        tokio::select! {
            ended = both => ended.err().unwrap_or(Cut::Close),
            how = cut(&weather, made_under) => how,
        }
    };
    if how == Cut::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Ends when a connection made under this number of cuts is cut.
async fn cut(weather: &watch::Sender<Weather>, made_under: u64) -> Cut {
    let mut seen = weather.subscribe();
    let now = seen.wait_for(|weather| weather.cuts > made_under).await;
    now.ok().and_then(|weather| weather.how).unwrap_or(Cut::Reset)
}

/// Carries bytes one way until they end, or the weather cuts them off.
async fn pump(
    way: Way,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    weather: &watch::Sender<Weather>,
) -> Result<(), Cut> {
    let mut seen = weather.subscribe();
    let mut buffer = [0; READ_BYTES];
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Cut::Reset)?;
        if count == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        let read_at = Instant::now();
        let delay = seen.wait_for(|weather| !weather.flow(way).held).await.map_err(|_| Cut::Reset)?.flow(way).delay;
        if !delay.is_zero() {
            sleep_until(read_at + delay).await;
        }
        let mut verdict = (count, None);
        weather.send_if_modified(|weather| {
            verdict = weather.pass(way, count);
            false
        });
        let (passes, cut) = verdict;
        to.write_all(&buffer[..passes]).await.map_err(|_| Cut::Reset)?;
        if let Some(how) = cut {
            return Err(how);
        }
    }
}
