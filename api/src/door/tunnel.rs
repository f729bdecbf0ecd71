//! CONNECT: bytes both ways, each direction with its own end.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Parts};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::activity::{Activity, Metered};
use super::body::{Body, empty};
use super::guard::reach;
use super::refusal::Refusal;
use super::serve::Door;
use super::target::Target;

/// Per direction. 256 connections of one box hold 8 MiB.
const BUFFER_BYTES: usize = 16 << 10;

/// The box's side of a connection, as the server holds it.
pub(crate) type BoxSide = TokioIo<Metered<TcpStream>>;

pub(crate) async fn open(
    door: &std::sync::Arc<Door>,
    request: Request<Incoming>,
    slot: std::sync::Arc<OwnedSemaphorePermit>,
) -> Result<Response<Body>, Refusal> {
    let authority = request.uri().authority().ok_or(Refusal::OriginForm)?;
    let target = Target::parse(authority, None)?;
    if target.is_gateway() {
        return Err(Refusal::GatewayForm);
    }
    let far = reach(&door.services, &door.lookups, &target).await?;
    let upgrade = hyper::upgrade::on(request);
    let stop = door.stop.clone();
    let idle = door.services.limits.idle;
    door.tasks.spawn(async move {
        // The tunnel counts as the connection that it was.
        let _slot = slot;
        let activity = Activity::new();
        tokio::select! {
            () = stop.cancelled() => {}
            () = activity.idle(idle) => {}
            () = relay(upgrade, far, activity.clone()) => {}
        }
    });
    Ok(Response::new(empty()))
}

/// Copies until both directions have ended. Half-closes are passed on; so is a reset.
async fn relay(upgrade: OnUpgrade, far: TcpStream, activity: Activity) {
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(Parts { io, read_buf, .. }) = upgraded.downcast::<BoxSide>() else {
        tracing::error!("a tunnel is not on a socket of the door");
        return;
    };
    let mut near = io.into_inner();
    let mut far = Metered::new(far, activity);
    let copied = async {
        far.write_all(&read_buf).await?;
        copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER_BYTES, BUFFER_BYTES).await
    };
    if copied.await.is_err() {
        // A plain close would look like the end of the message to who reads until the end.
        reset_on_close(near.get_ref());
        reset_on_close(far.get_ref());
    }
}

/// Makes the close of a socket a break instead of an end.
pub(crate) fn reset_on_close(socket: &TcpStream) {
    if let Err(error) = socket.set_zero_linger() {
        tracing::debug!(%error, "linger not set");
    }
}
