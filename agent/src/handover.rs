//! What a person does with a display while it is theirs: looked at when they take it and when they hand it back, put
//! into the log, and told to the agents that go on with it.
//!
//! A person who takes it waits for the first look, two seconds at most: agents' hands are off the display behind it.
//! One that cannot be looked at is taken and handed back all the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cocoonbox_commands::{
    agent,
    desktop::{Command, Rejection, SHARED_DISPLAY, STREAM, State},
};
use cocoonbox_events::{CommandId, LoadError, StreamName};
use cocoonbox_proto::{
    agent::v1::HandBack,
    log::v1::{DesktopHandedBack, Image},
    toolhost::v1::{ComputerSeen, ComputerWatchRequest},
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::{
    blobs::Blobs,
    control::Displays,
    journal::{Error, Journal},
    seats::Seats,
    turn::Agents,
};

/// Before what a person writes as they hand the display back.
const SCREEN_IS_YOURS: &str = "A person had the screen and gave it back to you, with this note: ";
/// The same of a display that a helper had for itself and is done with.
const DISPLAY_IS_OVER: &str = "A person had the display of a helper of yours, which is over by now with all that was \
    on it, and left this note: ";
/// For the display to be looked at. Its process may have to be started, and a film never settles.
const SEEN_MAX: Duration = Duration::from_secs(5);

/// Watches what people do with the displays.
#[derive(Clone)]
pub(crate) struct Handover {
    /// Which displays there are, and who looks at them.
    pub(crate) seats: Seats,
    pub(crate) displays: Displays,
    pub(crate) journal: Journal,
    pub(crate) blobs: Blobs,
    pub(crate) agents: Agents,
    pub(crate) stop: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error("the display cannot be looked at")]
    Display(#[from] Status),
    #[error("it cannot be written down")]
    Journal(#[from] Error<Rejection>),
    #[error("the log cannot be read")]
    Log(#[from] LoadError),
    #[error("`{STREAM}` is no name of a stream")]
    Stream,
}

/// A display that is being watched.
struct Watched {
    /// Dropped when it is handed back.
    until: mpsc::Sender<ComputerWatchRequest>,
    answers: Streaming<ComputerSeen>,
    before: ComputerSeen,
}

impl Handover {
    /// Works until the box is stopped. The box has to be released.
    pub(crate) async fn follow(self) {
        match self.last().await {
            Ok(Some(back)) => self.displays.tell_left(back),
            Ok(None) => {}
            Err(error) => tracing::warn!(?error, "what a person left behind is not known"),
        }
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.follow_all()).await;
    }

    /// One task for each display, while it is there.
    async fn follow_all(self) {
        let mut open = self.seats.open();
        let mut followed = BTreeMap::<u32, CancellationToken>::new();
        let mut tasks = JoinSet::new();
        loop {
            let displays = open.borrow_and_update().clone();
            followed.retain(|display, until| {
                let is_there = displays.contains(display);
                if !is_there {
                    until.cancel();
                }
                is_there
            });
            for display in displays {
                followed.entry(display).or_insert_with(|| {
                    let until = CancellationToken::new();
                    let work = self.clone().work(display);
                    tasks.spawn(until.clone().run_until_cancelled_owned(work));
                    until
                });
            }
            // Those that have ended.
            while tasks.try_join_next().is_some() {}
            if open.changed().await.is_err() {
                return;
            }
        }
    }

    async fn work(self, display: u32) {
        let _looker = self.displays.look_first(display);
        loop {
            let fence = self.displays.taken(display).await;
            let awaited = self.displays.await_left(display);
            let watched = match self.watch(display).await {
                Ok(watched) => Some(watched),
                Err(status) => {
                    tracing::info!(%status, "the display is not watched");
                    None
                }
            };
            // Another who takes it from them finds it watched.
            self.displays.looked(display, u64::MAX);
            let back = self.displays.free(display).await;
            self.displays.looked(display, fence);
            // A lease that ended before the agents had stopped gave nobody the display.
            let back = back.filter(|back| back.fence >= fence);
            if let (Some(watched), Some(back)) = (watched, back.clone())
                && let Err(error) = self.handed_back(watched, back).await
            {
                tracing::info!(?error, "what a person left behind is not known");
            }
            let mut waiting = self.displays.take_waiting(display);
            // Whoever only looked, too.
            waiting.extend(self.seats.owner(display));
            if let Some(back) = back.filter(|back| !back.note.is_empty()) {
                self.pass_on(&back, &waiting).await;
            }
            // One that its agent has left is ended from here on.
            drop(awaited);
        }
    }

    /// What the log has of the display that was there before.
    async fn last(&self) -> Result<Option<DesktopHandedBack>, Unknown> {
        let mut fold = self.journal.fold::<State>(stream()?);
        fold.refresh(&**self.journal.store()).await?;
        Ok(fold.state.handed_back.remove(&SHARED_DISPLAY))
    }

    async fn watch(&self, display: u32) -> Result<Watched, Status> {
        let client = self.seats.client(display);
        let mut client = client.ok_or_else(|| Status::not_found("there is no such display"))?;
        let (until, requests) = mpsc::channel(1);
        let begun = async {
            let mut answers = client
                .watch(ReceiverStream::new(requests))
                .await?
                .into_inner();
            let before = next(&mut answers).await?;
            Ok(Watched {
                until,
                answers,
                before,
            })
        };
        in_time(begun).await
    }

    async fn handed_back(&self, watched: Watched, back: HandBack) -> Result<(), Unknown> {
        let Watched {
            until,
            mut answers,
            before,
        } = watched;
        drop(until);
        let display = back.display;
        let after = in_time(next(&mut answers)).await?;
        let back = DesktopHandedBack {
            display: back.display,
            fence: back.fence,
            label: back.label,
            note: back.note,
            before: self.keep(&before.png).await,
            after: self.keep(&after.png).await,
            windows_before: before.windows,
            windows_after: after.windows,
            typed: after.typed,
        };
        let mut fold = self.journal.fold::<State>(stream()?);
        let own = self.journal.own_actor();
        let command = Command::HandBack(back);
        self.journal
            .record(&mut fold, &command, own, &self.stop)
            .await?;
        if let Some(back) = fold.state.handed_back.remove(&display) {
            self.displays.tell_left(back);
        }
        Ok(())
    }

    /// Gives a note of the person's to the agents that it is for: one that had stopped goes on with it. Agents that
    /// work for others have no conversation with people; theirs is told.
    async fn pass_on(&self, back: &HandBack, waiting: &BTreeSet<String>) {
        let first = |id: &String| id.split('.').next().unwrap_or_default().to_owned();
        let agents: BTreeSet<String> = waiting.iter().map(first).collect();
        for agent_id in agents {
            let seed = format!("{} {} {agent_id}", back.display, back.fence);
            let id = CommandId::derive(seed.as_bytes(), "handed back");
            let words = if self.seats.is_left(back.display) {
                DISPLAY_IS_OVER
            } else {
                SCREEN_IS_YOURS
            };
            let text = format!("{words}{}", back.note);
            let prompt = agent::Command::Prompt {
                prompt_id: id.to_string(),
                text: text.clone(),
                steer: true,
                images: Vec::new(),
            };
            let own = self.journal.own_actor();
            let once = Some((id, text.into_bytes()));
            if let Err(error) = self.agents.tell(&agent_id, prompt, own, once).await {
                tracing::info!(%error, agent_id, "a note is not passed on");
            }
        }
    }

    async fn keep(&self, png: &[u8]) -> Option<Image> {
        let kept = self.blobs.store_picture(png).await;
        kept.inspect_err(|error| tracing::info!(%error, "a picture of the display is not kept"))
            .ok()
    }
}

async fn next(answers: &mut Streaming<ComputerSeen>) -> Result<ComputerSeen, Status> {
    let ended = || Status::unavailable("who looks at the display is gone");
    answers.message().await?.ok_or_else(ended)
}

async fn in_time<T>(looking: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded("it takes too long to look at the display");
    timeout(SEEN_MAX, looking).await.map_err(late)?
}

fn stream() -> Result<StreamName, Unknown> {
    StreamName::new(STREAM).map_err(|_| Unknown::Stream)
}
