//! Releases a box: tells it which log it writes, once it is known what its disk has of it.
//!
//! ```text
//!  ask ──▶ compare ──▶ box.log_rewound ──▶ rewind here ──▶ give back ──▶ release
//!                 └─ nothing is left behind ──────────────────┴────────────▲
//! ```
//!
//! Each step is durable before the next and repeated by whoever comes after a crash, the decision first:
//! it is in the account log before anything is done about it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{
    AppendError, CommandId, Execute, Fold, LoadError, LogId, Meta, Parent, ReadError, Recorded,
    Store, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::{
    agent::v1::{ReleaseRequest, RestoreRequest, box_log_client::BoxLogClient},
    log::v1::{Actor, actor},
};

use super::{
    lineage::{self, LINEAGE_MAX, Lineage, Stretch},
    standing::Standing,
    verdict::{Reason, Verdict},
};
use crate::channel::BoxChannel;

/// A box that says again and again in one life that it lost its log is not believed.
const REWINDS_MAX: u32 = 3;

/// What is needed to release one box in one of its lives.
#[derive(Clone)]
pub struct Release {
    store: Arc<dyn Store>,
    /// The box's account log, or what it branched off, and its stream there.
    account: LogId,
    stream: StreamName,
    /// Nothing was written in the box since it was last quiesced; no longer so once it is released.
    is_untouched: Arc<AtomicBool>,
    /// Its agents wait for a save before calls that may destroy files.
    saves_first: bool,
    rewinds: Arc<AtomicU32>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error("asking the box for its log")]
    Box(#[source] tonic::Status),
    #[error("the box's answer cannot be read")]
    Unreadable,
    #[error("reading the replica")]
    Read(#[source] ReadError),
    #[error("folding the box")]
    Load(#[source] LoadError),
    #[error("opening the replica")]
    Open(#[source] AppendError),
    #[error("writing down that the log was rewound")]
    Decide(#[source] Execute<boxes::Rejection>),
    #[error("the box has no log")]
    NoLog,
    #[error("the box's log was rewound {0} times in one life")]
    TooOften(u32),
    #[error("the box's log has branched {0} times")]
    TooMany(usize),
}

impl ReleaseError {
    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::NoLog | Self::TooOften(_) | Self::TooMany(_))
    }
}

impl Release {
    pub fn new(
        store: Arc<dyn Store>,
        account: LogId,
        stream: StreamName,
        is_untouched: bool,
        saves_first: bool,
    ) -> Self {
        Self {
            store,
            account,
            stream,
            is_untouched: Arc::new(is_untouched.into()),
            saves_first,
            rewinds: Arc::default(),
        }
    }

    /// Brings the box to where it writes its log, and returns that log.
    pub(super) async fn release(&self, channel: &BoxChannel) -> Result<LogId, ReleaseError> {
        let store = &*self.store;
        let account = store.current(self.account).map_err(ReleaseError::Read)?;
        let mut fold = Fold::<boxes::State>::new(account, self.stream.clone());
        fold.refresh(store).await.map_err(ReleaseError::Load)?;
        let opened = lineage::open(store, &fold.state).await;
        let opened = opened.map_err(ReleaseError::Open)?;
        let mut log = opened.ok_or(ReleaseError::NoLog)?.log;
        channel.go_on_in(log);

        let standing = Standing::ask(store, channel, log).await?;
        let lineage = Lineage::of(store, log).map_err(ReleaseError::Read)?;
        let is_untouched = self.is_untouched.load(Ordering::SeqCst);
        let compared = standing
            .compare(store, channel, &lineage, is_untouched)
            .await?;
        let verdict = compared.verdict();
        if let Verdict::Rewind { common, reason } = verdict {
            log = self.rewind(&mut fold, log, common, reason).await?;
            channel.go_on_in(log);
        }
        let lineage = Lineage::of(store, log).map_err(ReleaseError::Read)?;
        if lineage.stretches().len() >= LINEAGE_MAX {
            return Err(ReleaseError::TooMany(lineage.stretches().len()));
        }
        if compared.is_lost {
            for stretch in lineage.stretches() {
                let held = standing.tails.get(&stretch.log).copied();
                self.give_back(channel, stretch, held.unwrap_or(0)).await?;
            }
        }
        let mut client = BoxLogClient::new(channel.transport.clone());
        let asked = ReleaseRequest {
            lineage: lineage.to_wire(),
            ends_turns: fold.state.is_new_from_a_moment(),
            saves_first: self.saves_first,
        };
        let released = client.release(channel.sign(asked)).await;
        // Whether it arrived or not: from here on the box may write.
        self.is_untouched.store(false, Ordering::SeqCst);
        released.map_err(ReleaseError::Box)?;
        Ok(log)
    }

    /// Writes down that the log goes on in a branch, and opens that.
    async fn rewind(
        &self,
        fold: &mut Fold<boxes::State>,
        log: LogId,
        common: u64,
        reason: Reason,
    ) -> Result<LogId, ReleaseError> {
        let rewinds = self.rewinds.fetch_add(1, Ordering::SeqCst) + 1;
        if rewinds > REWINDS_MAX {
            return Err(ReleaseError::TooOften(rewinds));
        }
        let store = &*self.store;
        let chain = store.chain_at(log, common).await;
        let left = store.tail(log).map_err(ReleaseError::Read)?;
        let parent = Parent {
            log,
            pos: common,
            chain: chain.map_err(ReleaseError::Read)?,
        };
        let seed = [log.as_bytes().as_slice(), &common.to_le_bytes()].concat();
        let new_log = LogId(CommandId::derive(&seed, "rewound log").0);
        let command = Command::LogRewound {
            new_log,
            parent,
            left_pos: left.pos,
            reason: reason.code().into(),
        };
        let meta = Meta {
            command: CommandId::derive(new_log.as_bytes(), "box.log_rewound"),
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "replica".into(),
            },
            cause: fold.last,
        };
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let decided = fold.execute(store, &command, &meta, digest).await;
        decided.map_err(ReleaseError::Decide)?;
        tracing::warn!(
            stream = %self.stream,
            log = %new_log,
            common,
            left = left.pos,
            reason = reason.code(),
            "a box's log was rewound"
        );
        let opened = lineage::open(store, &fold.state).await;
        let opened = opened.map_err(ReleaseError::Open)?;
        Ok(opened.ok_or(ReleaseError::NoLog)?.log)
    }

    /// Sends the box what it lacks of one log.
    async fn give_back(
        &self,
        channel: &BoxChannel,
        stretch: &Stretch,
        held: u64,
    ) -> Result<(), ReleaseError> {
        let mut client = BoxLogClient::new(channel.transport.clone());
        let mut after = held.max(stretch.base());
        while after < stretch.end {
            let page = self.store.read(stretch.log, after, PAGE_EVENTS_MAX).await;
            let mut events = page.map_err(ReleaseError::Read)?.events;
            events.retain(|event| event.pos <= stretch.end);
            let Some(last) = events.last() else { break };
            after = last.pos;
            let restore = RestoreRequest {
                branch: Some(stretch.to_wire()),
                events: events.iter().map(Recorded::to_wire).collect(),
            };
            let restored = client.restore(channel.sign(restore)).await;
            restored.map_err(ReleaseError::Box)?;
        }
        Ok(())
    }
}
