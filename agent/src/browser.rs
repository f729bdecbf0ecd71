//! The process that holds the box's Chromium, as the desktop user, while somebody wants it.
//!
//! A page is told as an outline of its accessibility trees, whose elements have refs, and acted on by these.
//! Chromium is spoken to over a pipe, which no page, program or other user can reach.

pub(crate) mod action;
mod answer;
mod cdp;
mod chromium;
mod clickable;
mod deeds;
mod element;
mod events;
mod holder;
mod keys;
mod looks;
mod outline;
mod page;
mod pipe;
mod refs;
mod refusal;
mod server;
mod settle;
mod tabs;

use std::{io, os::unix::net::UnixListener as StdListener, path::PathBuf, time::Duration};

use cocoonbox_proto::toolhost::v1::{
    BrowserOpenRequest, browser_client::BrowserClient, browser_server::BrowserServer,
};
use futures::StreamExt as _;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Server;

use self::{holder::Holder, server::Service};
use crate::{socket, toolhost::Peers};

/// What starts Chromium, in images that have it.
pub const PROGRAM: &str = "/usr/bin/chromium";
/// Where it is asked for.
pub const SOCKET: &str = "/run/cocoonbox/browser.sock";

/// A picture, and room for its text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    /// What starts Chromium.
    pub program: PathBuf,
    /// Downloads go beneath it.
    pub home: PathBuf,
    pub agent_uid: u32,
    /// What nobody has wanted for so long is ended.
    pub idle: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listening on the browser's socket")]
    Socket(#[source] io::Error),
    #[error("serving")]
    Serve(#[source] tonic::transport::Error),
    #[error("the browser failed: {0}")]
    Failed(String),
    #[error("asking for the browser")]
    Ask(#[source] Box<tonic::Status>),
}

/// Answers on `listener` until `stop`, until nobody wants the browser any more, or until it has failed.
pub async fn serve(
    listener: StdListener,
    config: Config,
    stop: CancellationToken,
) -> Result<(), Error> {
    listener.set_nonblocking(true).map_err(Error::Socket)?;
    let listener = UnixListener::from_std(listener).map_err(Error::Socket)?;
    let tasks = TaskTracker::new();
    let holder = Holder::new(config.program, config.home, tasks.clone());
    let service = BrowserServer::new(Service {
        holder: holder.clone(),
        agent_uid: config.agent_uid,
    })
    .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let peers = Peers::new(config.agent_uid);
    let incoming = UnixListenerStream::new(listener).filter(move |stream| {
        let admitted = stream.as_ref().map_or(true, |stream| peers.admits(stream));
        std::future::ready(admitted)
    });
    let over = CancellationToken::new();
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, over.clone().cancelled_owned());
    tokio::pin!(server);
    let failed = tokio::select! {
        served = &mut server => return served.map_err(Error::Serve),
        () = stop.cancelled() => None,
        () = holder.idle(config.idle) => None,
        failed = holder.failed() => Some(failed),
    };
    over.cancel();
    holder.end().await;
    // Those who asked are told.
    server.await.map_err(Error::Serve)?;
    tasks.close();
    failed.map_or(Ok(()), |failed| Err(Error::Failed(failed)))
}

/// Asks whoever holds the browser to start it with these arguments. Returns false if it runs already.
pub async fn open(socket: PathBuf, arguments: Vec<String>) -> Result<bool, Error> {
    let channel = socket::channel("http://browser", socket);
    let opened = BrowserClient::new(channel)
        .open(BrowserOpenRequest { arguments })
        .await;
    let opened = opened.map_err(|status| Error::Ask(Box::new(status)))?;
    Ok(opened.into_inner().started)
}
