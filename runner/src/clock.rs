//! Time as the runner counts it: `CLOCK_BOOTTIME`, which goes on while the machine sleeps, because self-stop must.

use std::{
    io,
    ops::{Add, Sub},
    time::Duration,
};

use rustix::{
    fd::OwnedFd,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    },
};
use tokio::io::unix::AsyncFd;

/// An instant of `CLOCK_BOOTTIME`. It means the same in every process of one machine, so the watchdog is told in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// The present.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self(Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32))
    }

    /// So long after the machine started.
    pub const fn from_boot(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the machine started.
    pub const fn since_boot(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time between; zero when the other is later.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A timer on the same clock. Tokio's own stands still while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: AsyncFd<OwnedFd>,
    set: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { fd: watched(fd)?, set: None })
    }

    /// Rings at `at` at the latest, or never. It may ring for nothing: one that is set for sooner is left as it is, since setting
    /// it anew with every event would cost more than a ring now and then.
    pub(crate) fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        let Some(at) = at.filter(|at| self.set.is_none_or(|set| *at < set)) else { return Ok(()) };
        // All zero disarms a timer, so the earliest time it can be set to is a nanosecond after the start.
        let since = at.0.max(Duration::from_nanos(1));
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let value = Timespec { tv_sec: seconds, tv_nsec: since.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        self.set = Some(at);
        Ok(())
    }

    /// Waits for the alarm. Cancel safe.
    pub(crate) async fn ring(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            let mut expirations = [0_u8; 8];
            match rustix::io::read(self.fd.get_ref(), &mut expirations) {
                Ok(_) => {
                    self.set = None;
                    return Ok(());
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Lets the runtime wait for a descriptor.
#[expect(
    deprecated,
    reason = "the replacement is unsafe for types that may close their descriptor early; OwnedFd cannot"
)]
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
}
