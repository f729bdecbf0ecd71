//! The guard against reaching into the installation's own network.
//!
//! ```text
//! target -> policy -> resolve once -> every address public? -> connect to one of them -> peer public?
//! ```
//! Between the check and the connection no name is resolved again, so there is no moment at which an
//! answer could change.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::{canonical, is_own, is_public};
use super::policy::WebPolicy;
use super::refusal::Refusal;
use super::serve::DoorServices;
use super::target::{Host, Target};

/// Addresses of one name that are tried. All are checked.
const TRIES_MAX: usize = 8;

/// What one box's look-ups share.
#[derive(Debug)]
pub(crate) struct Lookups {
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// Connects to a target, or says why not.
pub(crate) async fn reach(
    services: &DoorServices,
    lookups: &Lookups,
    target: &Target,
) -> Result<TcpStream, Refusal> {
    let trusted = services.web.names(target);
    if !trusted {
        if !services.web.enabled {
            return Err(Refusal::Off);
        }
        if !WebPolicy::is_web_port(target.port) {
            return Err(Refusal::Port(target.port));
        }
    }
    let addresses = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => look_up(services, lookups, target, name).await?,
    };
    for address in &addresses {
        check(
            services,
            SocketAddr::new(*address, target.port),
            trusted,
            target,
        )?;
    }
    let stream = connect(services, target, &addresses).await?;
    // What the kernel says we are connected to is the last word.
    let peer = stream
        .peer_addr()
        .map_err(|_| Refusal::Unreachable(target.to_string()))?;
    check(services, peer, trusted, target)?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay not set");
    }
    Ok(stream)
}

fn check(
    services: &DoorServices,
    address: SocketAddr,
    trusted: bool,
    target: &Target,
) -> Result<(), Refusal> {
    let ip = canonical(address.ip());
    let own = |listening: &SocketAddr| {
        let same = canonical(listening.ip()) == ip;
        listening.port() == address.port()
            && (same || listening.ip().is_unspecified() && is_own(ip))
    };
    let allowed = trusted || is_public(ip) && !is_own(ip);
    if allowed && !services.own.iter().any(own) {
        Ok(())
    } else {
        Err(Refusal::PrivateAddress(target.to_string()))
    }
}

async fn look_up(
    services: &DoorServices,
    lookups: &Lookups,
    target: &Target,
    name: &str,
) -> Result<Vec<IpAddr>, Refusal> {
    let no_such_host = || Refusal::NoSuchHost(name.to_owned());
    if target.host.is_in_own_domain() {
        return Err(no_such_host());
    }
    let resolver = Arc::clone(&services.resolver);
    let permits = Arc::clone(&lookups.permits);
    let stop = lookups.stop.clone();
    let asked = name.to_owned();
    // A task of its own: a look-up that nobody waits for any more still counts against the box.
    let lookup = lookups.tasks.spawn(async move {
        let resolved = async {
            let _permit = permits.acquire_owned().await.ok()?;
            resolver.resolve(&asked).await.ok()
        };
        tokio::select! {
            () = stop.cancelled() => None,
            resolved = resolved => resolved,
        }
    });
    let found = timeout(services.limits.lookup, lookup).await;
    let found = found.map_err(|_| Refusal::Timeout(target.to_string()))?;
    let found = found.ok().flatten().unwrap_or_default();
    if found.is_empty() {
        return Err(no_such_host());
    }
    Ok(found.into_iter().map(canonical).collect())
}

/// Tries one address after the other; each gets a fair share of the time that is left.
async fn connect(
    services: &DoorServices,
    target: &Target,
    addresses: &[IpAddr],
) -> Result<TcpStream, Refusal> {
    let deadline = Instant::now() + services.limits.connect;
    let tries = addresses.len().min(TRIES_MAX);
    let mut refusal = Refusal::Unreachable(target.to_string());
    for (tried, address) in addresses.iter().take(tries).enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let tries_left = u32::try_from(tries - tried).unwrap_or(1);
        let share = Instant::now() + left / tries_left;
        let dialed = services.dialer.dial(SocketAddr::new(*address, target.port));
        refusal = match timeout_at(share, dialed).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(_)) => Refusal::Unreachable(target.to_string()),
            Err(_) => Refusal::Timeout(target.to_string()),
        };
    }
    Err(refusal)
}
