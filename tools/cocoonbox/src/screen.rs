//! A box's screen, for VNC viewers on this host.

mod bridge;
mod peer;

use std::net::SocketAddr;

use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    cli::screen::Screen, context::Context, exit::Exit, failure::Failure, interrupt::Interrupts,
    target,
};
use bridge::{Bridge, Ended};

/// At once; the api takes some more of one box.
const VIEWERS_MAX: usize = 16;

pub async fn screen(ctx: &mut Context, args: Screen) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.target.name).await?;
    let mut interrupts = Interrupts::catch()?;
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::local(format!("listening on {}", args.listen), &error))?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::local("the address that we listen on", &error))?;
    let bridge = Bridge {
        session: client.session(&found.id)?,
        control: client.control(&found.id)?,
        display: args.target.display,
        takes_control: args.control,
        steals: args.steal,
    };
    ctx.out.answer(
        &json!({"address": address.to_string(), "box_id": found.id}),
        format!("the screen of {} is at {address}", found.name),
    )?;
    let mut viewers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if viewers.len() < VIEWERS_MAX => {
                let (viewer, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => return Err(Failure::local("accepting a viewer", &error)),
                };
                if is_ours(&viewer, peer) {
                    viewers.spawn(bridge.clone().run(viewer));
                } else {
                    ctx.out.note("another user of this host wanted to look; refused");
                }
            }
            Some(ended) = viewers.join_next() => say(ctx, ended),
            _ = interrupts.next() => {
                // Their streams end with them, and with those what they hold.
                viewers.shutdown().await;
                return Ok(Exit::Interrupted);
            }
        }
    }
}

/// Whether the viewer is one of this user, or of root.
fn is_ours(viewer: &TcpStream, peer: SocketAddr) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let uid = viewer.local_addr().ok().and_then(|at| peer::uid(peer, at));
    uid.is_some_and(|uid| uid == own || uid == 0)
}

fn say(ctx: &mut Context, ended: Result<Ended, tokio::task::JoinError>) {
    match ended {
        Ok(Ended { lost, result }) => {
            if let Some(why) = lost {
                ctx.out.note(format!("the viewer only looked: {why}"));
            }
            match result {
                Ok(()) => ctx.out.note("the viewer has left"),
                Err(failure) => ctx.out.note(format!("the viewer was let go: {failure}")),
            }
        }
        Err(error) => ctx.out.note(format!("a viewer's task ended: {error}")),
    }
}
