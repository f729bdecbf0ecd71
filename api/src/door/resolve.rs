//! Names to addresses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Look-ups of all boxes at a time. Each holds a thread until the system's resolver answers or gives
/// up, which it does after some tens of seconds.
const LOOKUPS_MAX: usize = 64;

/// Resolves host names. It is asked once per connection; what it answers is what is checked and
/// connected to.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Returns every address of the name; none and an error both mean that there is no such host.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver (`getaddrinfo`).
#[derive(Clone, Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let name = name.to_owned();
        let look_up = move || {
            // Held by the thread, not by the caller: a caller that gave up has not freed the thread.
            let _permit = permit;
            let found = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0))?;
            Ok(found.map(|address| address.ip()).collect())
        };
        tokio::task::spawn_blocking(look_up)
            .await
            .map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_systems_own_names_resolve() {
        let found = SystemResolver::default()
            .resolve("localhost")
            .await
            .unwrap();
        assert!(
            found.iter().all(IpAddr::is_loopback) && !found.is_empty(),
            "{found:?}"
        );
    }
}
