//! `Fence`: the api says who drives the displays.

use async_trait::async_trait;
use cocoonbox_proto::agent::v1::{FenceAck, FenceState, fence_server::Fence};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};

use crate::control::Displays;

pub(crate) struct FenceService {
    pub(crate) displays: Displays,
    pub(crate) tasks: TaskTracker,
    /// The process ends.
    pub(crate) stop: CancellationToken,
}

#[async_trait]
impl Fence for FenceService {
    type FollowStream = ReceiverStream<Result<FenceAck, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<FenceState>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (acks, acked) = mpsc::channel(1);
        let (displays, stop) = (self.displays.clone(), self.stop.clone());
        let states = request.into_inner();
        let stream = displays.begin();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = acks.closed() => {}
                () = follow(&displays, stream, states, &acks) => {}
            }
            displays.end(stream);
        });
        Ok(Response::new(ReceiverStream::new(acked)))
    }
}

async fn follow(
    displays: &Displays,
    stream: u64,
    mut states: Streaming<FenceState>,
    acks: &mpsc::Sender<Result<FenceAck, Status>>,
) {
    while let Ok(Some(state)) = states.message().await {
        let version = state.version;
        displays.apply(stream, state).await;
        if acks.send(Ok(FenceAck { version })).await.is_err() {
            return;
        }
    }
}
