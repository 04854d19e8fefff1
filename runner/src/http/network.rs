//! The connections of requests: to whom they lead, and how far they are.
//!
//! Names are resolved here, and what a name leads to is checked here: the connector is given those addresses alone that passed,
//! so that no second look at the name can bring others. Nothing else of the environment counts: no proxy, which would ask
//! names on its own, no pool of connections, which would blur what was sent and what was not.

use std::{error::Error, fmt, sync::Arc, task, time::Duration};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{
    net::lookup_host,
    sync::{OnceCell, watch},
    task::spawn_blocking,
    time::Instant,
};
use tower_layer::Layer;
use tower_service::Service;

use super::address::{Allowed, Refused};

/// Makes connections to who may be asked.
pub(super) struct Connections {
    allowed: Arc<Allowed>,
    tls: OnceCell<ClientConfig>,
}

impl Connections {
    pub(super) fn new(allowed: Allowed) -> Self {
        Self { allowed: Arc::new(allowed), tls: OnceCell::new() }
    }

    /// A client of its own for one task, and how far its connections are.
    pub(super) async fn client(&self) -> Result<(Client, Progress), String> {
        let tls = self.tls.get_or_try_init(tls).await?.clone();
        let progress = Progress(Arc::new(watch::Sender::new(None)));
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .http1_only()
            .redirect(Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .pool_idle_timeout(Duration::ZERO)
            .dns_resolver(Arc::new(Guard(self.allowed.clone())))
            .connector_layer(progress.clone())
            .build();
        client.map(|client| (client, progress)).map_err(|error| format!("cannot make an HTTP client: {}", root(&error)))
    }

    /// Checks a host that is an address already, and that nobody is going to resolve.
    pub(super) fn check(&self, url: &Url) -> Result<(), Refused> {
        match url.host() {
            Some(url::Host::Ipv4(address)) => self.allowed.check(address.into()),
            Some(url::Host::Ipv6(address)) => self.allowed.check(address.into()),
            Some(url::Host::Domain(_)) | None => Ok(()),
        }
    }
}

/// Whom to trust: whom the machine trusts, which `SSL_CERT_FILE` and `SSL_CERT_DIR` may tell.
async fn tls() -> Result<ClientConfig, String> {
    let made = spawn_blocking(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    });
    made.await.unwrap_or_else(|error| Err(error.to_string())).map_err(|error| format!("cannot set TLS up: {error}"))
}

/// Resolves names to addresses that may be asked.
struct Guard(Arc<Allowed>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0.clone();
        Box::pin(async move {
            // The port is the connector's to say.
            let found = lookup_host((name.as_str(), 0)).await.map_err(Lookup::Failed)?;
            let (mut good, mut refused) = (Vec::new(), None);
            for address in found {
                match allowed.check(address.ip()) {
                    Ok(()) => good.push(address),
                    Err(why) => drop(refused.get_or_insert(why)),
                }
            }
            match (good.is_empty(), refused) {
                (true, Some(why)) => Err(Lookup::Refused(why).into()),
                (true, None) => Err(Lookup::Failed(std::io::Error::other("it has no address")).into()),
                (false, _) => Ok(Box::new(good.into_iter()) as Addrs),
            }
        })
    }
}

/// Why a name leads to nobody.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Nobody knows it.
    Failed(std::io::Error),
    /// None of its addresses may be asked.
    Refused(Refused),
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

impl Error for Lookup {}

/// When the connection of the request under way stood.
#[derive(Clone)]
pub(super) struct Progress(Arc<watch::Sender<Option<Instant>>>);

impl Progress {
    /// Another request begins.
    pub(super) fn begin(&self) -> watch::Receiver<Option<Instant>> {
        self.0.send_replace(None);
        self.0.subscribe()
    }
}

impl<S> Layer<S> for Progress {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner, progress: self.clone() }
    }
}

/// A connector that tells when it is done.
#[derive(Clone)]
pub(super) struct Watched<S> {
    inner: S,
    progress: Progress,
}

impl<S, R> Service<R> for Watched<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> task::Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (connecting, progress) = (self.inner.call(request), self.progress.clone());
        Box::pin(async move {
            let connected = connecting.await;
            if connected.is_ok() {
                progress.0.send_replace(Some(Instant::now()));
            }
            connected
        })
    }
}

/// What lies at the bottom of an error.
pub(super) fn root(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}
