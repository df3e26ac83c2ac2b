//! Requests on behalf of a canvas: resolve, check, pin, and only then connect.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};
use weft_core::seam::Http;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::address::refusal;
use crate::allow_list::AllowList;
use crate::connector::DirectConnector;
use crate::route::{Connector, OutboundRoute, Pinned};
use crate::streaming::{StreamRequest, StreamResponse, StreamingHttp};

/// Maximum number of addresses of one name; names with more are refused.
// Each is checked, and the owner of a name may give it thousands.
const ADDRESSES_MAX: usize = 64;
/// Time limit for resolving an address where nothing else limits it; the same as for connecting.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(10);

/// Resolves names to addresses.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns every address of `host`.
    ///
    /// # Errors
    /// When the name cannot be resolved.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The machine's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        // Port 0: only the addresses are used, and `pin_host` adds the port.
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The only way for nodes and tools to reach the network.
pub struct Outbound {
    allowed: AllowList,
    resolver: Arc<dyn Resolver>,
    connector: Arc<dyn Connector>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Outbound {
    /// Creates one with the machine's resolver and real connections.
    pub fn open(allowed: AllowList) -> Self {
        Self::new(allowed, Arc::new(SystemResolver), Arc::new(DirectConnector::default()))
    }

    /// Creates one with the given resolver and connector.
    pub fn new(allowed: AllowList, resolver: Arc<dyn Resolver>, connector: Arc<dyn Connector>) -> Self {
        Self { allowed, resolver, connector }
    }

    /// Resolves and checks everything that a request would connect to.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Invalid` for a URL that is not valid, `Unavailable` for a name that cannot be
    /// resolved.
    pub async fn route(&self, url: &str, proxy: Option<&str>) -> Result<OutboundRoute> {
        let url = web_url(url, "the URL")?;
        // Also with a proxy, which would otherwise lead to addresses that are refused here.
        let target = self.pin(&url).await?;
        let proxy = match proxy.filter(|proxy| !proxy.trim().is_empty()) {
            None => None,
            Some(proxy) => {
                let proxy = web_url(proxy, "the proxy")?;
                let pinned = self.pin(&proxy).await?;
                Some((proxy, pinned))
            }
        };
        Ok(OutboundRoute { url, target, proxy })
    }

    /// Like [`Outbound::route`] without a proxy, for callers that limit only the time for an answer, or none at all.
    pub(crate) async fn route_in_time(&self, url: &str) -> Result<OutboundRoute> {
        tokio::time::timeout(LOOK_UP_LIMIT, self.route(url, None)).await.unwrap_or_else(|_| {
            let seconds = LOOK_UP_LIMIT.as_secs();
            Err(Error::new(ErrorKind::Timeout, format!("cannot look up the address within {seconds} s")))
        })
    }

    /// Returns the connector that performs exchanges over checked routes.
    pub(crate) fn connector(&self) -> &dyn Connector {
        self.connector.as_ref()
    }

    async fn pin(&self, url: &Url) -> Result<Pinned> {
        self.pin_host(url.host(), url.port_or_known_default().unwrap_or(80)).await
    }

    /// Resolves and checks one host.
    pub(crate) async fn pin_host(&self, host: Option<Host<&str>>, port: u16) -> Result<Pinned> {
        let (host, ips) = match host {
            Some(Host::Ipv4(ip)) => (ip.to_string(), vec![IpAddr::V4(ip)]),
            Some(Host::Ipv6(ip)) => (ip.to_string(), vec![IpAddr::V6(ip)]),
            Some(Host::Domain(name)) => (name.to_owned(), self.addresses(name).await?),
            None => return Err(Error::invalid("the URL does not name a host")),
        };
        // Literal addresses are checked, too: they can lead to a private network without a resolver.
        for ip in &ips {
            self.check(&host, *ip, port)?;
        }
        Ok(Pinned { host, addresses: ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect() })
    }

    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>> {
        let ips = self.resolver.resolve(name).await.map_err(|cause| {
            Error::new(ErrorKind::Unavailable, format!("cannot find the host `{name}`")).because(cause)
        })?;
        match ips.len() {
            0 => Err(Error::new(ErrorKind::Unavailable, format!("the host `{name}` has no address"))),
            1..=ADDRESSES_MAX => Ok(ips),
            count => Err(Error::new(ErrorKind::Denied, format!("the host `{name}` has {count} addresses"))),
        }
    }

    /// Checks an address. One refused address refuses the name: which of its addresses is used is not under our
    /// control.
    pub(crate) fn check(&self, host: &str, ip: IpAddr, port: u16) -> Result<()> {
        let Some(refusal) = refusal(ip) else { return Ok(()) };
        if self.allowed.allows(host, ip, port) {
            return Ok(());
        }
        let place = if host == ip.to_string() {
            format!("`{host}`")
        } else {
            format!("`{host}` is at {ip}, and that")
        };
        Err(Error::new(ErrorKind::Denied, format!("{place} is {}", refusal.as_str()))
            .help("canvases reach public addresses only; an operator can allow this one in `net.allow`"))
    }
}

fn web_url(text: &str, what: &str) -> Result<Url> {
    let url = Url::parse(text.trim())
        .map_err(|cause| Error::invalid(format!("{what} is not valid")).because(cause))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Error::invalid(format!("{what} begins with `{other}:`")).help("use http or https")),
    }
}

#[async_trait]
impl Http for Outbound {
    async fn send(&self, _tenant: &TenantId, request: HttpRequest) -> Result<HttpResponse> {
        let exchange = async {
            let route = self.route(&request.url, request.proxy.as_deref()).await?;
            self.connector.exchange(&route, &request).await
        };
        // The time limit includes name resolution: an unresponsive resolver is waited for longer than any server.
        tokio::time::timeout(request.time_limit, exchange).await.unwrap_or_else(|_| {
            // Rounded to tenths: the time left after redirects has a dozen decimal places.
            let seconds = (request.time_limit.as_secs_f64() * 10.0).ceil() / 10.0;
            Err(Error::new(ErrorKind::Timeout, format!("no complete answer within {seconds} s")))
        })
    }

    async fn may_reach(&self, _tenant: &TenantId, url: &str) -> Result<()> {
        self.route_in_time(url).await.map(drop)
    }
}

/// Checks the address first, for addresses that are not the operator's.
#[async_trait]
impl StreamingHttp for Outbound {
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
        let route = self.route_in_time(&request.url).await?;
        self.connector().open(&route, &request).await
    }
}
