//! Saves a box before one of its agents makes a call that may destroy files.
//!
//! The box asks on a stream that is kept open into it, and makes the call when it is answered. What it says of a call
//! may be a lie, which costs it a save.

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::snapshot::{Command, Rejection, State, reason};
use cocoonbox_events::{
    CommandId, Execute, Fold, LogId, Meta, Payload, ReadError, SnapshotEvent, Store, StreamName,
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::{
    agent::v1::{
        SaveAnswer, SaveAsk, SaveSetting,
        save_answer::{Answer, NotSaved, Saved},
        saves_client::SavesClient,
    },
    log::v1::{Actor, actor},
};
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{service::digest, worker::save_id};
use crate::{channel::BoxChannel, status::describe};

/// Between two tries to reach a box that starts, to write into a store that does not answer, and to find room among
/// what is owed.
const AGAIN: Duration = Duration::from_millis(250);
/// Waited for at once in one box; each is a call of another agent. The rest is asked for later.
const ASKS_MAX: usize = 32;
/// Ids are up to 128 bytes long in boxes that tell the truth.
const ID_BYTES_MAX: usize = 256;
/// It is not in our hands that these boxes can be saved: their agents do not wait for it.
const IMPOSSIBLE: [&str; 2] = ["CANNOT_SAVE", "NO_CAPSULE_FOLDER"];

/// What one life of a box is served with.
pub(crate) struct Guard {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) account: LogId,
    pub(crate) channel: BoxChannel,
    /// Whether calls wait for saves.
    pub(crate) saves_first: bool,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("there is no stream for the box")]
    Name(#[from] cocoonbox_events::id::BadStreamName),
    #[error(transparent)]
    Load(#[from] cocoonbox_events::LoadError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Execute(#[from] Execute<Rejection>),
}

impl Guard {
    /// Serves the box until stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let keep = async {
            loop {
                if let Err(status) = self.serve().await {
                    tracing::debug!(box_id = self.channel.box_id, %status, "the box cannot ask for saves");
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep => {}
        }
    }

    async fn serve(&self) -> Result<(), Status> {
        let (answers, sent) = mpsc::channel(1);
        let setting = SaveSetting {
            saves_first: self.saves_first,
        };
        drop(answers.try_send(SaveAnswer {
            answer: Some(Answer::Setting(setting)),
        }));
        let mut client = SavesClient::new(self.channel.transport.clone());
        let request = self.channel.sign(ReceiverStream::new(sent));
        let mut asks = client.serve(request).await?.into_inner();
        let mut saving = FuturesUnordered::new();
        loop {
            tokio::select! {
                ask = asks.message(), if saving.len() < ASKS_MAX => match ask? {
                    Some(ask) => saving.push(self.save(ask)),
                    None => return Ok(()),
                },
                Some(answer) = saving.next() => {
                    let answer = SaveAnswer { answer: Some(answer) };
                    if answers.send(answer).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn save(&self, ask: SaveAsk) -> Answer {
        let not = |reason: &str, detail: &str| {
            Answer::NotSaved(NotSaved {
                ask_id: ask.ask_id.clone(),
                reason: reason.to_owned(),
                detail: detail.to_owned(),
                is_impossible: IMPOSSIBLE.contains(&reason),
            })
        };
        let fits = |id: &str| !id.is_empty() && id.len() <= ID_BYTES_MAX;
        if !fits(&ask.ask_id) || !fits(&ask.tool_call_id) {
            return not("BAD_ID", "an id is empty or too long");
        }
        if !self.saves_first {
            return not(IMPOSSIBLE[1], "nothing is saved before calls here");
        }
        loop {
            match self.try_save(&ask).await {
                Ok(Ok(snapshot_id)) => {
                    return Answer::Saved(Saved {
                        ask_id: ask.ask_id,
                        snapshot_id,
                    });
                }
                Ok(Err((reason, detail))) => return not(&reason, &detail),
                // Others are done meanwhile; the box does not wait for ever.
                Err(Fault::Execute(Execute::Rejected(Rejection::TooMany))) => {}
                Err(fault) => {
                    let error = describe(&fault);
                    tracing::warn!(
                        box_id = self.channel.box_id,
                        error,
                        "a box waits to be saved"
                    );
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks for a save, once for each ask, and waits for its end: the snapshot, or why there is none.
    async fn try_save(&self, ask: &SaveAsk) -> Result<Result<String, (String, String)>, Fault> {
        let store = &*self.store;
        let box_id = &self.channel.box_id;
        let name = StreamName::new(format!("snapshot/{box_id}"))?;
        let account = store.current(self.account)?;
        let mut fold = Fold::<State>::new(account, name.clone());
        fold.refresh(store).await?;
        let mut seq = fold.seq;
        let id = CommandId::derive(box_id.as_bytes(), &format!("save {}", ask.ask_id));
        let save_id = save_id(id);
        let command = Command::RequestSave {
            save_id: save_id.clone(),
            reason: reason::TOOL,
            // One that is named in the timeline, whatever has changed.
            only_if_changed: false,
            tool_call_id: ask.tool_call_id.clone(),
        };
        let meta = Meta {
            command: id,
            actor: Actor {
                kind: actor::Kind::Box.into(),
                id: box_id.clone(),
            },
            cause: None,
        };
        let asked = digest(&format!("{command:?}"));
        let executed = fold.execute(store, &command, &meta, asked).await?;
        if executed.replayed || executed.events.is_empty() {
            // It was asked for before, and may have ended since.
            seq = 0;
        }
        loop {
            let account = store.current(self.account)?;
            let mut bell = store.doorbell(account)?;
            bell.mark_unchanged();
            let page = store
                .read_stream(account, &name, seq, PAGE_EVENTS_MAX)
                .await?;
            for event in &page.events {
                seq = event.seq;
                if let Ok(Some(Payload::Snapshot(event))) = event.payload()
                    && let Some(ended) = ended(event, &save_id)
                {
                    return Ok(ended);
                }
            }
            if page.events.is_empty() {
                tokio::select! {
                    _ = bell.changed() => {}
                    // The account log may go on as another one.
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }
}

fn ended(event: SnapshotEvent, save_id: &str) -> Option<Result<String, (String, String)>> {
    match event {
        SnapshotEvent::Committed(kept) if kept.save_id == save_id => Some(Ok(kept.snapshot_id)),
        SnapshotEvent::Unchanged(same) if same.save_id == save_id => Some(Ok(same.snapshot_id)),
        SnapshotEvent::Failed(failed) if failed.save_id == save_id => {
            Some(Err((failed.reason, failed.detail)))
        }
        _ => None,
    }
}
