//! Erasing payloads: which may go, and what is left of them.
//!
//! A decider must come to the same state before and after an erasure, but for the content. So a payload
//! is either structure, and is kept; or loose, and nothing stands on it; or it leaves a husk: the same
//! message with its content taken out. Husks are written into `log.erasure_requested` before anything is
//! erased, and folds read them from there (see [`Husks`]).

mod honour;
mod husks;
mod plan;
mod rows;

use cocoonbox_proto::log::v1::{
    Block, ExecOutputStreamed, OutputSummary, TextBlock, ToolUseBlock, block,
};

pub use self::{
    honour::{HonourError, before_done, honour},
    husks::Husks,
    plan::{Erased, Kept, Plan, PlanError, Refusal, plan},
    rows::{RowsError, rows},
};
use crate::registry::{
    AgentEvent, BlobEvent, CapsuleEvent, ControlEvent, DesktopEvent, DirectoryEvent, ExecEvent,
    Kind, LogEvent, Payload, RoutineEvent, ShareEvent, SnapshotEvent, UserEvent,
};

/// Positions in one request. Their husks have to fit one event, and a view that held them is folded
/// again for each request, not for each position.
pub const POSITIONS_MAX: usize = 1_000;
/// Why it was erased, in the words of whoever asked.
pub const REASON_BYTES_MAX: usize = 200;

/// Stands where text was. Vendors refuse empty text.
pub const ERASED: &str = "[erased]";
/// Stands where a tool call's arguments were: they are JSON for whoever reads them.
pub const ERASED_ARGS: &str = r#"{"erased":true}"#;

/// What may become of a kind's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasable {
    /// Nothing stands on it once what it belongs to has ended.
    Loose,
    /// Content and structure: the structure stays as a husk.
    Husk,
    /// Deciders or accounts stand on it.
    Structure { why: &'static str },
}

const IDENTITY: Erasable = Erasable::Structure {
    why: "it says what this is; a name in it goes with its user",
};
const STEP: Erasable = Erasable::Structure {
    why: "it holds ids and facts only, and what comes after it stands on them",
};
const ACCOUNTING: Erasable = Erasable::Structure {
    why: "it says what was used and holds no content",
};
const PROOF: Erasable = Erasable::Structure {
    why: "checkpoints are verified with it",
};
const ERASURE: Erasable = Erasable::Structure {
    why: "it says what was erased",
};

impl Kind {
    /// Says what may become of a payload of this kind.
    pub fn erasable(self) -> Erasable {
        match self {
            // Not for users: the api erases a name once its user is deleted.
            Self::DirectoryUserAdded
            | Self::UserTokenIssued
            | Self::UserPasskeyAdded
            | Self::ControlTaken
            | Self::ControlReleased
            | Self::AgentPromptReceived
            | Self::AgentModelReplied
            | Self::AgentModelFailed
            | Self::AgentToolCalled
            | Self::AgentToolFinished
            | Self::AgentApprovalRequested
            | Self::AgentApprovalDecided
            | Self::AgentTurnEnded
            | Self::AgentInstructed
            | Self::AgentCompacted
            | Self::AgentQuestionAsked
            | Self::AgentQuestionAnswered
            | Self::AgentTodoSet
            | Self::BlobStored
            | Self::DesktopPartFailed
            | Self::DesktopHandedBack
            | Self::SnapshotFailed
            | Self::SnapshotRestoreRequested
            | Self::SnapshotRestoreFailed
            | Self::CapsuleChecked
            | Self::RoutinePromptSet
            | Self::ExecStarted
            | Self::ExecOutputStreamed
            | Self::ExecExited
            | Self::ShareCreated
            | Self::ShareOpened => Erasable::Husk,
            Self::AgentOutputStreamed => Erasable::Loose,
            Self::UserCreated
            | Self::UserRenamed
            | Self::BoxCreated
            | Self::BoxRenamed
            | Self::RoutineCreated
            | Self::RoutineChanged
            | Self::AgentCreated
            | Self::AgentRenamed => IDENTITY,
            Self::DirectoryUserRemoved
            | Self::DirectoryUserDeletionRequested
            | Self::UserTokenRevoked
            | Self::UserPasskeyUsed
            | Self::UserPasskeyRefused
            | Self::UserPasskeyRemoved
            | Self::UserDeleted
            | Self::BoxEnsureRequested
            | Self::BoxWakeRequested
            | Self::BoxStarting
            | Self::BoxRunning
            | Self::BoxHibernateRequested
            | Self::BoxHibernated
            | Self::BoxMachineLost
            | Self::BoxFailed
            | Self::BoxDeleteRequested
            | Self::BoxDeleted
            | Self::BoxLogAnchored
            | Self::BoxLogRewound
            | Self::BoxModelsSet
            | Self::BoxMemoryExhausted
            | Self::BoxKeptAwake
            | Self::SnapshotSaveRequested
            | Self::SnapshotSaveBegun
            | Self::SnapshotCommitted
            | Self::SnapshotUnchanged
            | Self::SnapshotPruned
            | Self::SnapshotRestored
            | Self::SnapshotPinned
            | Self::SnapshotUnpinned
            | Self::CapsuleRuleSet
            | Self::CapsuleSweepRequested
            | Self::CapsuleSweepPlanned
            | Self::CapsuleSwept
            | Self::CapsuleSweepFailed
            | Self::CapsuleKeyExported
            | Self::RoutineRunEnded
            | Self::RoutinePaused
            | Self::RoutineResumed
            | Self::RoutineRunStarted
            | Self::RoutineRunPrompted
            | Self::RoutineMissed
            | Self::RoutineDeleted
            | Self::ControlRenewed
            | Self::ControlExpired
            | Self::AgentClosed
            | Self::AgentTurnStarted
            | Self::AgentModelCalled
            | Self::AgentModelsSet
            | Self::AgentRulesSet
            | Self::AgentPromptWithdrawn
            | Self::AgentBranched
            | Self::AgentBranchSelected
            | Self::AgentApprovalExpired
            | Self::AgentCancelRequested
            | Self::DesktopStarted
            | Self::DesktopPartStarted
            | Self::DesktopReady
            | Self::DesktopPictured
            | Self::DesktopDisplayOpened
            | Self::DesktopDisplayClosed
            | Self::ShareRegenerated
            | Self::ShareRevoked
            | Self::ShareExpired => STEP,
            Self::UsageModelCalled
            | Self::BudgetSet
            | Self::BudgetCleared
            | Self::BudgetReserved
            | Self::BudgetSettled
            | Self::BudgetExpired
            | Self::BudgetExceeded => ACCOUNTING,
            Self::LogErasureRequested
            | Self::LogErasureDone
            | Self::ErasureRequested
            | Self::ErasureReplicaErased
            | Self::ErasureBoxErased
            | Self::ErasureBoxGone => ERASURE,
            Self::LogCheckpointKeyIssued | Self::LogCheckpointKeyRetired | Self::LogRewound => {
                PROOF
            }
        }
    }
}

/// Takes the content out of a payload. `None` where the kind leaves no husk. Doing it again changes
/// nothing.
pub fn husk(payload: &Payload) -> Option<Payload> {
    let mut husk = payload.clone();
    match &mut husk {
        Payload::Directory(DirectoryEvent::UserAdded(added)) => added.name.clear(),
        Payload::User(UserEvent::TokenIssued(issued)) => issued.label.clear(),
        Payload::User(UserEvent::PasskeyAdded(added)) => added.name.clear(),
        Payload::Control(ControlEvent::Taken(taken)) => taken.label.clear(),
        Payload::Control(ControlEvent::Released(released)) => released.note.clear(),
        Payload::Agent(event) => empty_agent(event)?,
        Payload::Exec(event) => empty_exec(event),
        Payload::Blob(BlobEvent::Stored(stored)) => stored.data.clear(),
        // What a program wrote may name files.
        Payload::Desktop(DesktopEvent::PartFailed(failed)) => failed.output.clear(),
        Payload::Desktop(DesktopEvent::HandedBack(back)) => {
            back.label.clear();
            back.note.clear();
            back.windows_before.clear();
            back.windows_after.clear();
            back.typed.clear();
        }
        Payload::Snapshot(event) => empty_snapshot(event)?,
        // One without its prompt does not run any more.
        Payload::Routine(RoutineEvent::PromptSet(set)) => ERASED.clone_into(&mut set.prompt),
        Payload::Share(ShareEvent::Created(created)) => created.label.clear(),
        Payload::Share(ShareEvent::Opened(opened)) => opened.label.clear(),
        Payload::Capsule(CapsuleEvent::Checked(checked)) => {
            for snapshot in &mut checked.snapshots {
                snapshot.paths.clear();
            }
        }
        Payload::Directory(
            DirectoryEvent::UserRemoved(_) | DirectoryEvent::UserDeletionRequested(_),
        )
        | Payload::User(
            UserEvent::Created(_)
            | UserEvent::Renamed(_)
            | UserEvent::TokenRevoked(_)
            | UserEvent::PasskeyUsed(_)
            | UserEvent::PasskeyRefused(_)
            | UserEvent::PasskeyRemoved(_)
            | UserEvent::Deleted(_),
        )
        | Payload::Box(_)
        | Payload::Capsule(
            CapsuleEvent::RuleSet(_)
            | CapsuleEvent::SweepRequested(_)
            | CapsuleEvent::SweepPlanned(_)
            | CapsuleEvent::Swept(_)
            | CapsuleEvent::SweepFailed(_)
            | CapsuleEvent::KeyExported(_),
        )
        | Payload::Routine(
            RoutineEvent::Created(_)
            | RoutineEvent::Changed(_)
            | RoutineEvent::Paused(_)
            | RoutineEvent::Resumed(_)
            | RoutineEvent::RunStarted(_)
            | RoutineEvent::RunPrompted(_)
            | RoutineEvent::RunEnded(_)
            | RoutineEvent::Missed(_)
            | RoutineEvent::Deleted(_),
        )
        | Payload::Usage(_)
        | Payload::Budget(_)
        | Payload::Control(ControlEvent::Renewed(_) | ControlEvent::Expired(_))
        | Payload::Desktop(
            DesktopEvent::Started(_)
            | DesktopEvent::PartStarted(_)
            | DesktopEvent::Ready(_)
            | DesktopEvent::Pictured(_)
            | DesktopEvent::DisplayOpened(_)
            | DesktopEvent::DisplayClosed(_),
        )
        | Payload::Log(
            LogEvent::ErasureRequested(_)
            | LogEvent::ErasureDone(_)
            | LogEvent::CheckpointKeyIssued(_)
            | LogEvent::CheckpointKeyRetired(_)
            | LogEvent::Rewound(_),
        )
        | Payload::Share(
            ShareEvent::Regenerated(_) | ShareEvent::Revoked(_) | ShareEvent::Expired(_),
        )
        | Payload::Erasure(_) => return None,
    }
    Some(husk)
}

fn empty_agent(event: &mut AgentEvent) -> Option<()> {
    match event {
        AgentEvent::PromptReceived(prompt) => ERASED.clone_into(&mut prompt.text),
        AgentEvent::ModelReplied(reply) => {
            reply.blocks = reply.blocks.iter().filter_map(empty_block).collect();
            // Vendors' own words: a stop reason that we do not know, and the id of the request.
            reply.vendor_request_id.clear();
        }
        AgentEvent::ModelFailed(failed) => failed.detail.clear(),
        AgentEvent::ToolCalled(call) => ERASED_ARGS.clone_into(&mut call.args_json),
        AgentEvent::ToolFinished(finished) => ERASED.clone_into(&mut finished.content),
        // A hash of arguments is enough to find short ones out.
        AgentEvent::ApprovalRequested(asked) => asked.args_hash.clear(),
        AgentEvent::ApprovalDecided(decided) => decided.comment.clear(),
        AgentEvent::TurnEnded(ended) => ended.detail.clear(),
        AgentEvent::Instructed(told) => {
            ERASED.clone_into(&mut told.system);
            // Servers of the user's own name theirs.
            told.tools.clear();
            // Short schemas could be guessed from it, as arguments could.
            told.tools_hash.clear();
        }
        AgentEvent::Compacted(compacted) => ERASED.clone_into(&mut compacted.summary),
        AgentEvent::QuestionAsked(asked) => {
            ERASED.clone_into(&mut asked.question);
            asked.choices.clear();
        }
        AgentEvent::QuestionAnswered(answered) => ERASED.clone_into(&mut answered.answer),
        AgentEvent::TodoSet(todo) => {
            for item in &mut todo.items {
                ERASED.clone_into(&mut item.text);
            }
        }
        AgentEvent::Created(_)
        | AgentEvent::Renamed(_)
        | AgentEvent::Closed(_)
        | AgentEvent::TurnStarted(_)
        | AgentEvent::ModelCalled(_)
        | AgentEvent::OutputStreamed(_)
        | AgentEvent::ModelsSet(_)
        | AgentEvent::RulesSet(_)
        | AgentEvent::PromptWithdrawn(_)
        | AgentEvent::Branched(_)
        | AgentEvent::BranchSelected(_)
        | AgentEvent::ApprovalExpired(_)
        | AgentEvent::CancelRequested(_) => return None,
    }
    Some(())
}

/// Takes the content out of one block of a reply. Thinking goes whole: vendors sign it, and take nothing
/// else back in its place.
pub fn empty_block(of: &Block) -> Option<Block> {
    let left = match of.block.as_ref()? {
        block::Block::Thinking(_) => return None,
        // Text that says nothing is not told back to vendors, and must not become a word.
        block::Block::Text(text) if text.text.is_empty() => block::Block::Text(text.clone()),
        // A vendor's own block says something too: a reply of nothing else must not become an empty one.
        block::Block::Text(_) | block::Block::Vendor(_) => block::Block::Text(TextBlock {
            text: ERASED.to_owned(),
        }),
        block::Block::ToolUse(tool) => block::Block::ToolUse(ToolUseBlock {
            args_json: ERASED_ARGS.to_owned(),
            ..tool.clone()
        }),
    };
    Some(Block { block: Some(left) })
}

/// What names files. A restore without paths that was not done yet restores nothing.
fn empty_snapshot(event: &mut SnapshotEvent) -> Option<()> {
    match event {
        SnapshotEvent::Failed(failed) => failed.detail.clear(),
        SnapshotEvent::RestoreRequested(asked) => asked.paths.clear(),
        SnapshotEvent::RestoreFailed(failed) => failed.detail.clear(),
        SnapshotEvent::SaveRequested(_)
        | SnapshotEvent::SaveBegun(_)
        | SnapshotEvent::Committed(_)
        | SnapshotEvent::Unchanged(_)
        | SnapshotEvent::Pruned(_)
        | SnapshotEvent::Pinned(_)
        | SnapshotEvent::Unpinned(_)
        | SnapshotEvent::Restored(_) => return None,
    }
    Some(())
}

fn empty_exec(event: &mut ExecEvent) {
    match event {
        ExecEvent::Started(started) => {
            started.argv = vec![ERASED.to_owned()];
            started.cwd.clear();
        }
        // The bytes count as skipped, so that both outputs are as long as they were.
        ExecEvent::OutputStreamed(chunk) => {
            let bytes = chunk.data.len() as u64;
            *chunk = ExecOutputStreamed {
                source: chunk.source,
                offset: chunk.offset.saturating_add(bytes),
                data: Vec::new(),
                skipped_bytes: chunk.skipped_bytes.saturating_add(bytes),
            };
        }
        ExecEvent::Exited(exited) => {
            for summary in [&mut exited.stdout, &mut exited.stderr]
                .into_iter()
                .flatten()
            {
                *summary = OutputSummary {
                    total_bytes: summary.total_bytes,
                    omitted_bytes: summary.total_bytes,
                    ..OutputSummary::default()
                };
            }
            exited.detail.clear();
        }
    }
}
