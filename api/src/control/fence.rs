//! Tells a box who drives its displays, for as long as it runs.

use std::time::Duration;

use cocoonbox_proto::agent::v1::{FenceState, fence_client::FenceClient};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::channel::BoxChannel;

/// Between two tries. A box that starts answers within this; until it is told, its agents keep still.
const PAUSE: Duration = Duration::from_millis(250);

/// Keeps the box told until stopped, and `acked` at the newest state that it keeps to.
pub(super) async fn run(
    channel: BoxChannel,
    mut told: watch::Receiver<Option<FenceState>>,
    acked: watch::Sender<u64>,
    stop: CancellationToken,
) {
    let keep = async {
        loop {
            match follow(&channel, &mut told, &acked).await {
                Ok(()) => {}
                Err(status) => {
                    tracing::debug!(box_id = channel.box_id, %status, "the box is not told of control");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = keep => {}
    }
}

async fn follow(
    channel: &BoxChannel,
    told: &mut watch::Receiver<Option<FenceState>>,
    acked: &watch::Sender<u64>,
) -> Result<(), Status> {
    let first = told.wait_for(Option::is_some).await;
    let first = first.ok().and_then(|state| state.clone());
    // The desk is gone.
    let Some(first) = first else { return Ok(()) };
    let (states, sent) = mpsc::channel(1);
    drop(states.try_send(first));
    let mut client = FenceClient::new(channel.transport.clone());
    let answer = client
        .follow(channel.sign(ReceiverStream::new(sent)))
        .await?;
    let mut acks = answer.into_inner();
    loop {
        tokio::select! {
            ack = acks.message() => match ack? {
                Some(ack) => drop(acked.send_replace(ack.version)),
                None => return Ok(()),
            },
            changed = told.changed() => {
                let state = told.borrow_and_update().clone();
                let (Ok(()), Some(state)) = (changed, state) else { return Ok(()) };
                if states.send(state).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
