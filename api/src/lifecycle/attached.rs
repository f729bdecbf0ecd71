//! What hangs on one life of a box: its channel, its door, its replication.

use std::{sync::Arc, time::Duration};

use cocoonbox_machines::{BoxId, Error, Listener, WakeId};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    capsules::Guard,
    channel::{BoxChannel, Life},
    control::{self, Desk},
    door::{self, Channel},
    lifecycle::Context,
    replica::{self, Release},
    status::describe,
};

/// Where a box finds the egress door in its own network.
const DOOR_PORT: u16 = 3128;
/// The process before us may still listen in the box.
const DOOR_PAUSE: Duration = Duration::from_millis(200);

/// Open, until it is closed.
pub(super) struct Attached {
    pub(super) channel: BoxChannel,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Attached {
    /// Opens everything. The door may open a little later, if another process listens in the box yet.
    pub(super) async fn open(context: &Arc<Context>, life: Life) -> Self {
        let channel = BoxChannel::new(
            &life,
            context.machines.clone(),
            context.signer.clone(),
            context.clock.clone(),
        );
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let wake = WakeId(life.wake_id.clone());
        let account = life.account;
        let first = listen(context, &life.box_id, &wake).await;
        let door = Door {
            context: context.clone(),
            id: life.box_id.clone(),
            wake,
            who: Channel {
                user_id: life.user_id,
                box_id: life.box_id.to_string(),
                wake_id: life.wake_id,
            },
        };
        tasks.spawn(door.open(first, stop.clone()));
        let release = Release::new(
            context.store.clone(),
            life.account,
            life.stream,
            life.is_untouched,
            context.saves_first,
        );
        tasks.spawn(replica::run(
            context.store.clone(),
            release,
            channel.clone(),
            stop.clone(),
        ));
        let guard = Guard {
            store: context.store.clone(),
            account,
            channel: channel.clone(),
            saves_first: context.saves_first,
        };
        tasks.spawn(guard.run(stop.clone()));
        let parts = control::Parts {
            store: context.store.clone(),
            ids: context.ids.clone(),
            clock: context.clock.clone(),
        };
        match Desk::new(parts, account, channel.clone(), stop.clone()) {
            Ok((handle, desk)) => {
                context.desks.insert(&channel.box_id, handle);
                tasks.spawn(desk.run(stop.clone()));
            }
            Err(error) => {
                tracing::error!(box_id = channel.box_id, %error, "nobody can take control");
            }
        }
        context.channels.insert(channel.clone());
        Self {
            channel,
            stop,
            tasks,
        }
    }

    /// Closes everything and returns when all of it has ended. Calls on their way into the box go on.
    pub(super) async fn close(self, context: &Context) {
        let channel = &self.channel;
        context.channels.remove(&channel.box_id, &channel.wake_id);
        context.desks.remove(&channel.box_id, &channel.wake_id);
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

struct Door {
    context: Arc<Context>,
    id: BoxId,
    wake: WakeId,
    who: Channel,
}

impl Door {
    /// Serves the door, once it can be listened in the box: a process that was held up and does not know that
    /// it was replaced may still do so.
    async fn open(self, first: Result<Listener, Error>, stop: CancellationToken) {
        let mut listening = first;
        let mut is_said = false;
        let listener = loop {
            match listening {
                Ok(listener) => break listener,
                Err(error) if !is_said => {
                    is_said = true;
                    let error = describe(&error);
                    tracing::warn!(box_id = %self.id, error, "the door cannot listen in the box yet");
                }
                Err(_) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(DOOR_PAUSE) => {}
            }
            listening = listen(&self.context, &self.id, &self.wake).await;
        };
        door::serve(listener, self.who, self.context.door.clone(), stop).await;
    }
}

async fn listen(context: &Context, id: &BoxId, wake: &WakeId) -> Result<Listener, Error> {
    context.machines.listen(id, wake, DOOR_PORT).await
}
