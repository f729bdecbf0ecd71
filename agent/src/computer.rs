//! The process that looks at the box's display and acts on it for agents, as the desktop user, while one wants to.
//!
//! What programs tell of their elements comes first, pixels where they tell nothing. Behind one interface
//! (`backend`) stands our own way (`native`): X11's input on a pointer and a keyboard that are the agents' own,
//! and the accessibility bus.

pub(crate) mod action;
mod backend;
mod deeds;
mod geometry;
mod holder;
mod keymap;
mod keys;
mod native;
mod outline;
pub(crate) mod picture;
mod refusal;
mod server;

use std::{io, os::unix::net::UnixListener as StdListener, sync::Arc, time::Duration};

use cocoonbox_proto::toolhost::v1::computer_server::ComputerServer;
use futures::StreamExt as _;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use self::{backend::Backend, holder::Holder, native::Native, server::Service};
use crate::toolhost::Peers;

/// Where it is asked for.
pub const SOCKET: &str = "/run/cocoonbox/computer.sock";

/// A picture, and room for its text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    pub agent_uid: u32,
    /// What nobody has wanted for so long is ended.
    pub idle: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listening on the socket")]
    Socket(#[source] io::Error),
    #[error("serving")]
    Serve(#[source] tonic::transport::Error),
    #[error("putting the pointer and the keyboard away: {0}")]
    PutAway(String),
}

/// Answers on `listener` until `stop`, or until nobody wants the display any more.
pub async fn serve(
    listener: StdListener,
    config: Config,
    stop: CancellationToken,
) -> Result<(), Error> {
    listener.set_nonblocking(true).map_err(Error::Socket)?;
    let listener = UnixListener::from_std(listener).map_err(Error::Socket)?;
    let holder = Holder::new(|hands| Ok(Arc::new(Native::connect(hands)?) as Arc<dyn Backend>));
    let service = ComputerServer::new(Service {
        holder: holder.clone(),
        stop: stop.clone(),
    })
    .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let peers = Peers::new(config.agent_uid);
    let incoming = UnixListenerStream::new(listener).filter(move |stream| {
        let admitted = stream.as_ref().map_or(true, |stream| peers.admits(stream));
        std::future::ready(admitted)
    });
    let over = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = holder.idle(config.idle) => {}
        }
    };
    let server = Server::builder().add_service(service);
    server
        .serve_with_incoming_shutdown(incoming, over)
        .await
        .map_err(Error::Serve)
}

/// Takes away what a process that did not end by itself may have left at the display: keys that are held down.
pub fn put_away() -> Result<(), Error> {
    native::put_away().map_err(|fault| Error::PutAway(fault.to_string()))
}
