//! gRPC over the Unix sockets of the box's own processes.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// A channel to whoever listens there, connected at the first call and again after a loss. `name` stands for the host in
/// requests.
pub(crate) fn channel(name: &'static str, socket: PathBuf) -> Channel {
    over(Endpoint::from_static(name), socket)
}

/// As [`channel`], with settings of its own.
pub(crate) fn over(endpoint: Endpoint, socket: PathBuf) -> Channel {
    endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}
