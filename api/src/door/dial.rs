//! The last step: a socket to an address that was checked.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::net::TcpStream;

/// Connects to addresses that the guard has let through.
#[async_trait]
pub trait Dialer: Send + Sync + 'static {
    /// Connects to exactly this address. Cancelled by dropping.
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// Plain TCP from the api's own network.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDialer;

#[async_trait]
impl Dialer for TcpDialer {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
