//! The desktop's gRPC server, for the writer of the box's log only.

use std::{os::unix::net::UnixListener as StdListener, pin::Pin};

use cocoonbox_proto::toolhost::v1::{
    DesktopPictureRequest, DesktopPictureResponse, DesktopReport, DesktopWatchRequest,
    desktop_server::{Desktop, DesktopServer},
};
use futures::{Stream, stream};
use tokio::{net::UnixListener, task::spawn_blocking};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::Server};

use super::{Error, reports::Reports};
use crate::computer::picture;

/// Of a picture in its full size: what nobody asked for must not fill the log.
const PICTURE_BYTES_MAX: usize = 1024 * 1024;

struct Service {
    reports: Reports,
    /// As X11 names it; absent where the plan shows nothing.
    display: Option<String>,
}

/// Answers until `stop`. Who may connect is a matter of the socket's mode.
pub(super) async fn serve(
    listener: StdListener,
    reports: Reports,
    display: Option<String>,
    stop: CancellationToken,
) -> Result<(), Error> {
    listener.set_nonblocking(true).map_err(Error::Socket)?;
    let listener = UnixListener::from_std(listener).map_err(Error::Socket)?;
    let served = Server::builder()
        .add_service(DesktopServer::new(Service { reports, display }))
        .serve_with_incoming(UnixListenerStream::new(listener));
    tokio::select! {
        // Streams without an end would hold up one that waits for them.
        () = stop.cancelled() => Ok(()),
        served = served => served.map_err(Error::Serve),
    }
}

#[async_trait::async_trait]
impl Desktop for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<DesktopReport, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<DesktopWatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let DesktopWatchRequest { session, after } = request.into_inner();
        let reports = self.reports.clone();
        let (position, last) = (reports.position(&session, after), reports.last());
        let first = stream::iter([vec![reports.parts()]]);
        let follow = stream::unfold(
            (reports, last, position),
            |(reports, mut last, position)| async move {
                let number = *last.wait_for(|last| *last > position).await.ok()?;
                let behind = reports.behind(position);
                Some((behind, (reports, last, number)))
            },
        );
        let batches = futures::StreamExt::chain(first, follow);
        let all =
            futures::StreamExt::flat_map(batches, |batch| stream::iter(batch.into_iter().map(Ok)));
        Ok(Response::new(Box::pin(all)))
    }

    async fn picture(
        &self,
        _: Request<DesktopPictureRequest>,
    ) -> Result<Response<DesktopPictureResponse>, Status> {
        let display = self.display.clone();
        let display = display.ok_or_else(|| Status::failed_precondition("there is no display"))?;
        let taken = spawn_blocking(move || picture::of_display(&display, PICTURE_BYTES_MAX)).await;
        let taken = taken.map_err(|error| Status::internal(error.to_string()))?;
        let png = taken.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(DesktopPictureResponse { png }))
    }
}
