//! The registry: every kind of event, its permanent number, its name and its newest version.
//!
//! Numbers and names are never reused. Within a version a payload only grows (protobuf rules). A
//! change of meaning is a new version and an upcaster in [`UPCASTERS`], so that everything behind
//! [`Payload::decode`] sees the newest form only.

use std::borrow::Cow;

use cocoonbox_proto::log::v1 as log;
use prost::Message;

/// Why stored bytes could not be read as an event of this build.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("event kind {number} is not known to this build")]
    UnknownKind { number: u32 },
    #[error("version {version} of `{kind}` is newer than this build, which knows {newest}")]
    NewerVersion {
        kind: &'static str,
        version: u32,
        newest: u32,
    },
    #[error("version {version} of `{kind}` is not one that was ever written")]
    UnknownVersion { kind: &'static str, version: u32 },
    #[error("payload of `{kind}` version {version}")]
    Malformed {
        kind: &'static str,
        version: u32,
        #[source]
        source: prost::DecodeError,
    },
}

/// Turns the payload bytes of one version into those of the next.
pub type Upcast = fn(&[u8]) -> Result<Vec<u8>, prost::DecodeError>;

/// `(kind number, version it reads, how)`. Pure; applied step by step until the newest version.
pub const UPCASTERS: &[(u32, u32, Upcast)] = &[];

macro_rules! registry {
    ($(
        $(#[$doc:meta])*
        $group:ident($event:ident) { $( $number:literal $name:literal v $version:literal => $variant:ident($message:ident), )* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub enum $event { $( $variant(log::$message), )* }

            impl From<$event> for Payload {
                fn from(event: $event) -> Self { Self::$group(event) }
            }

            impl $event {
                /// Picks this group's event out of any payload.
                pub fn pick(payload: Payload) -> Option<Self> {
                    match payload { Payload::$group(event) => Some(event), _ => None }
                }

                /// Returns the kind of this event.
                pub fn kind(&self) -> Kind {
                    match self { $( Self::$variant(_) => Kind::$message, )* }
                }
            }
        )*

        /// Any event's payload, in its newest form.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Payload { $( $group($event), )* }

        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $( $( $message, )* )* }

        impl Kind {
            pub const ALL: &[Kind] = &[ $( $( Kind::$message, )* )* ];

            pub fn number(self) -> u32 {
                match self { $( $( Self::$message => $number, )* )* }
            }

            /// The wire name, `noun.past_participle`.
            pub fn name(self) -> &'static str {
                match self { $( $( Self::$message => $name, )* )* }
            }

            pub fn version(self) -> u32 {
                match self { $( $( Self::$message => $version, )* )* }
            }

            /// Full name of the protobuf message of the newest version.
            pub fn message(self) -> &'static str {
                match self { $( $( Self::$message => concat!("cocoonbox.log.v1.", stringify!($message)), )* )* }
            }

            pub fn from_number(number: u32) -> Option<Self> {
                match number { $( $( $number => Some(Self::$message), )* )* _ => None }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $( $name => Some(Self::$message), )* )* _ => None }
            }
        }

        impl Payload {
            pub fn kind(&self) -> Kind {
                match self { $( Self::$group(event) => event.kind(), )* }
            }

            pub fn encode(&self) -> (Kind, Vec<u8>) {
                match self { $( $( Self::$group($event::$variant(m)) => (Kind::$message, m.encode_to_vec()), )* )* }
            }

            fn decode_newest(kind: Kind, bytes: &[u8]) -> Result<Self, prost::DecodeError> {
                Ok(match kind { $( $( Kind::$message => Self::$group($event::$variant(log::$message::decode(bytes)?)), )* )* })
            }
        }
    };
}

registry! {
    /// Who has an account here. Stream `directory` of the system log.
    Directory(DirectoryEvent) {
        1 "directory.user_added" v 1 => UserAdded(DirectoryUserAdded),
        2 "directory.user_removed" v 1 => UserRemoved(DirectoryUserRemoved),
        3 "directory.user_deletion_requested" v 1 => UserDeletionRequested(DirectoryUserDeletionRequested),
    }
    /// Stream `user/<id>` of an account log.
    User(UserEvent) {
        10 "user.created" v 1 => Created(UserCreated),
        11 "user.renamed" v 1 => Renamed(UserRenamed),
        12 "user.token_issued" v 1 => TokenIssued(UserTokenIssued),
        13 "user.token_revoked" v 1 => TokenRevoked(UserTokenRevoked),
        14 "user.deleted" v 1 => Deleted(UserDeleted),
        15 "user.passkey_added" v 1 => PasskeyAdded(UserPasskeyAdded),
        16 "user.passkey_used" v 1 => PasskeyUsed(UserPasskeyUsed),
        17 "user.passkey_refused" v 1 => PasskeyRefused(UserPasskeyRefused),
        18 "user.passkey_removed" v 1 => PasskeyRemoved(UserPasskeyRemoved),
    }
    /// Stream `box/<id>` of an account log.
    Box(BoxEvent) {
        30 "box.created" v 1 => Created(BoxCreated),
        31 "box.renamed" v 1 => Renamed(BoxRenamed),
        32 "box.ensure_requested" v 1 => EnsureRequested(BoxEnsureRequested),
        33 "box.wake_requested" v 1 => WakeRequested(BoxWakeRequested),
        34 "box.starting" v 1 => Starting(BoxStarting),
        35 "box.running" v 1 => Running(BoxRunning),
        36 "box.hibernate_requested" v 1 => HibernateRequested(BoxHibernateRequested),
        37 "box.hibernated" v 1 => Hibernated(BoxHibernated),
        38 "box.machine_lost" v 1 => MachineLost(BoxMachineLost),
        39 "box.failed" v 1 => Failed(BoxFailed),
        40 "box.delete_requested" v 1 => DeleteRequested(BoxDeleteRequested),
        41 "box.deleted" v 1 => Deleted(BoxDeleted),
        42 "box.log_anchored" v 1 => LogAnchored(BoxLogAnchored),
        43 "box.log_rewound" v 1 => LogRewound(BoxLogRewound),
        44 "box.models_set" v 1 => ModelsSet(BoxModelsSet),
        45 "box.memory_exhausted" v 1 => MemoryExhausted(BoxMemoryExhausted),
        46 "box.kept_awake" v 1 => KeptAwake(BoxKeptAwake),
    }
    /// Stream `snapshot/<box>` of an account log.
    Snapshot(SnapshotEvent) {
        50 "snapshot.save_requested" v 1 => SaveRequested(SnapshotSaveRequested),
        51 "snapshot.save_begun" v 1 => SaveBegun(SnapshotSaveBegun),
        52 "snapshot.committed" v 1 => Committed(SnapshotCommitted),
        53 "snapshot.unchanged" v 1 => Unchanged(SnapshotUnchanged),
        54 "snapshot.failed" v 1 => Failed(SnapshotFailed),
        55 "snapshot.pruned" v 1 => Pruned(SnapshotPruned),
        56 "snapshot.restore_requested" v 1 => RestoreRequested(SnapshotRestoreRequested),
        57 "snapshot.restored" v 1 => Restored(SnapshotRestored),
        58 "snapshot.restore_failed" v 1 => RestoreFailed(SnapshotRestoreFailed),
        59 "snapshot.pinned" v 1 => Pinned(SnapshotPinned),
        90 "snapshot.unpinned" v 1 => Unpinned(SnapshotUnpinned),
    }
    /// Stream `usage/<day>` of an account log.
    Usage(UsageEvent) {
        60 "usage.model_called" v 1 => ModelCalled(UsageModelCalled),
    }
    /// Stream `budget/<user>` of an account log.
    Budget(BudgetEvent) {
        61 "budget.set" v 1 => Set(BudgetSet),
        62 "budget.cleared" v 1 => Cleared(BudgetCleared),
        63 "budget.reserved" v 1 => Reserved(BudgetReserved),
        64 "budget.settled" v 1 => Settled(BudgetSettled),
        65 "budget.expired" v 1 => Expired(BudgetExpired),
        66 "budget.exceeded" v 1 => Exceeded(BudgetExceeded),
    }
    /// Streams `log/erasure` and `log/rewinds` of any log and `log/checkpoint-keys` of the system log.
    Log(LogEvent) {
        70 "log.erasure_requested" v 1 => ErasureRequested(LogErasureRequested),
        71 "log.erasure_done" v 1 => ErasureDone(LogErasureDone),
        72 "log.checkpoint_key_issued" v 1 => CheckpointKeyIssued(LogCheckpointKeyIssued),
        73 "log.checkpoint_key_retired" v 1 => CheckpointKeyRetired(LogCheckpointKeyRetired),
        74 "log.rewound" v 1 => Rewound(LogRewound),
    }
    /// Stream `erasure/<box log>` of an account log.
    Erasure(ErasureEvent) {
        75 "erasure.requested" v 1 => Requested(ErasureRequested),
        76 "erasure.replica_erased" v 1 => ReplicaErased(ErasureReplicaErased),
        77 "erasure.box_erased" v 1 => BoxErased(ErasureBoxErased),
        78 "erasure.box_gone" v 1 => BoxGone(ErasureBoxGone),
    }
    /// Stream `control/<box>/<display>` of an account log.
    Control(ControlEvent) {
        80 "control.taken" v 1 => Taken(ControlTaken),
        81 "control.renewed" v 1 => Renewed(ControlRenewed),
        82 "control.released" v 1 => Released(ControlReleased),
        83 "control.expired" v 1 => Expired(ControlExpired),
    }
    /// Stream `capsule/<user>` of an account log.
    Capsule(CapsuleEvent) {
        91 "capsule.rule_set" v 1 => RuleSet(CapsuleRuleSet),
        92 "capsule.sweep_requested" v 1 => SweepRequested(CapsuleSweepRequested),
        93 "capsule.sweep_planned" v 1 => SweepPlanned(CapsuleSweepPlanned),
        94 "capsule.swept" v 1 => Swept(CapsuleSwept),
        95 "capsule.sweep_failed" v 1 => SweepFailed(CapsuleSweepFailed),
        96 "capsule.checked" v 1 => Checked(CapsuleChecked),
        97 "capsule.key_exported" v 1 => KeyExported(CapsuleKeyExported),
    }
    /// Stream `routine/<id>` of an account log.
    Routine(RoutineEvent) {
        170 "routine.created" v 1 => Created(RoutineCreated),
        171 "routine.changed" v 1 => Changed(RoutineChanged),
        172 "routine.paused" v 1 => Paused(RoutinePaused),
        173 "routine.resumed" v 1 => Resumed(RoutineResumed),
        174 "routine.run_started" v 1 => RunStarted(RoutineRunStarted),
        175 "routine.run_prompted" v 1 => RunPrompted(RoutineRunPrompted),
        176 "routine.run_ended" v 1 => RunEnded(RoutineRunEnded),
        177 "routine.missed" v 1 => Missed(RoutineMissed),
        178 "routine.deleted" v 1 => Deleted(RoutineDeleted),
        179 "routine.prompt_set" v 1 => PromptSet(RoutinePromptSet),
    }
    /// Stream `agent/<id>` of a box log.
    Agent(AgentEvent) {
        100 "agent.created" v 1 => Created(AgentCreated),
        101 "agent.renamed" v 1 => Renamed(AgentRenamed),
        102 "agent.closed" v 1 => Closed(AgentClosed),
        103 "agent.prompt_received" v 1 => PromptReceived(AgentPromptReceived),
        104 "agent.turn_started" v 1 => TurnStarted(AgentTurnStarted),
        105 "agent.model_called" v 1 => ModelCalled(AgentModelCalled),
        106 "agent.output_streamed" v 1 => OutputStreamed(AgentOutputStreamed),
        107 "agent.model_replied" v 1 => ModelReplied(AgentModelReplied),
        108 "agent.model_failed" v 1 => ModelFailed(AgentModelFailed),
        109 "agent.tool_called" v 1 => ToolCalled(AgentToolCalled),
        110 "agent.tool_finished" v 1 => ToolFinished(AgentToolFinished),
        111 "agent.approval_requested" v 1 => ApprovalRequested(AgentApprovalRequested),
        112 "agent.approval_decided" v 1 => ApprovalDecided(AgentApprovalDecided),
        113 "agent.cancel_requested" v 1 => CancelRequested(AgentCancelRequested),
        114 "agent.turn_ended" v 1 => TurnEnded(AgentTurnEnded),
        115 "agent.models_set" v 1 => ModelsSet(AgentModelsSet),
        116 "agent.rules_set" v 1 => RulesSet(AgentRulesSet),
        117 "agent.prompt_withdrawn" v 1 => PromptWithdrawn(AgentPromptWithdrawn),
        118 "agent.branched" v 1 => Branched(AgentBranched),
        119 "agent.branch_selected" v 1 => BranchSelected(AgentBranchSelected),
        120 "agent.instructed" v 1 => Instructed(AgentInstructed),
        121 "agent.compacted" v 1 => Compacted(AgentCompacted),
        122 "agent.approval_expired" v 1 => ApprovalExpired(AgentApprovalExpired),
        123 "agent.question_asked" v 1 => QuestionAsked(AgentQuestionAsked),
        124 "agent.question_answered" v 1 => QuestionAnswered(AgentQuestionAnswered),
        125 "agent.todo_set" v 1 => TodoSet(AgentTodoSet),
    }
    /// Stream `exec/<id>` of a box log.
    Exec(ExecEvent) {
        130 "exec.started" v 1 => Started(ExecStarted),
        131 "exec.output_streamed" v 1 => OutputStreamed(ExecOutputStreamed),
        132 "exec.exited" v 1 => Exited(ExecExited),
    }
    /// Stream `blob/<name>` of a box log.
    Blob(BlobEvent) {
        140 "blob.stored" v 1 => Stored(BlobStored),
    }
    /// Stream `desktop/main` of a box log.
    Desktop(DesktopEvent) {
        150 "desktop.started" v 1 => Started(DesktopStarted),
        151 "desktop.part_started" v 1 => PartStarted(DesktopPartStarted),
        152 "desktop.part_failed" v 1 => PartFailed(DesktopPartFailed),
        153 "desktop.ready" v 1 => Ready(DesktopReady),
        154 "desktop.pictured" v 1 => Pictured(DesktopPictured),
        155 "desktop.handed_back" v 1 => HandedBack(DesktopHandedBack),
        156 "desktop.display_opened" v 1 => DisplayOpened(DesktopDisplayOpened),
        157 "desktop.display_closed" v 1 => DisplayClosed(DesktopDisplayClosed),
    }
    /// Stream `share/<box>` of an account log.
    Share(ShareEvent) {
        160 "share.created" v 1 => Created(ShareCreated),
        161 "share.opened" v 1 => Opened(ShareOpened),
        162 "share.regenerated" v 1 => Regenerated(ShareRegenerated),
        163 "share.revoked" v 1 => Revoked(ShareRevoked),
        164 "share.expired" v 1 => Expired(ShareExpired),
    }
}

impl Payload {
    /// Reads stored bytes, bringing an older version up to the newest.
    pub fn decode(number: u32, version: u32, bytes: &[u8]) -> Result<Self, DecodeError> {
        let kind = Kind::from_number(number).ok_or(DecodeError::UnknownKind { number })?;
        let newest = raise(UPCASTERS, kind, (version, kind.version()), bytes)?;
        Self::decode_newest(kind, &newest).map_err(|source| {
            let kind = kind.name();
            DecodeError::Malformed {
                kind,
                version,
                source,
            }
        })
    }
}

/// Takes payload bytes from one version to the newest, step by step.
fn raise<'a>(
    upcasters: &[(u32, u32, Upcast)],
    kind: Kind,
    (version, newest): (u32, u32),
    bytes: &'a [u8],
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let (number, kind) = (kind.number(), kind.name());
    if version > newest {
        return Err(DecodeError::NewerVersion {
            kind,
            version,
            newest,
        });
    }
    let mut raised = Cow::Borrowed(bytes);
    for step in version..newest {
        let (_, _, upcast) = upcasters
            .iter()
            .find(|(of, reads, _)| (*of, *reads) == (number, step))
            .ok_or(DecodeError::UnknownVersion { kind, version })?;
        let malformed = |source| DecodeError::Malformed {
            kind,
            version,
            source,
        };
        raised = Cow::Owned(upcast(&raised).map_err(malformed)?);
    }
    Ok(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appending(bytes: &[u8], letter: u8) -> Vec<u8> {
        [bytes, &[letter]].concat()
    }

    // Out of order on purpose, with another kind in between.
    const TABLE: &[(u32, u32, Upcast)] = &[
        (101, 3, |bytes| Ok(appending(bytes, b'4'))),
        (100, 1, |_| panic!("another kind's")),
        (101, 1, |bytes| Ok(appending(bytes, b'2'))),
        (101, 2, |bytes| Ok(appending(bytes, b'3'))),
        (101, 5, |bytes| {
            log::AgentRenamed::decode(bytes).map(|_| Vec::new())
        }),
    ];

    fn raised(version: u32, newest: u32) -> Result<String, DecodeError> {
        raise(TABLE, Kind::AgentRenamed, (version, newest), b"1")
            .map(|bytes| String::from_utf8(bytes.into_owned()).unwrap())
    }

    #[test]
    fn versions_are_raised_one_by_one() {
        assert_eq!(raised(1, 1).unwrap(), "1");
        assert_eq!(raised(1, 2).unwrap(), "12");
        assert_eq!(raised(1, 4).unwrap(), "1234");
        assert_eq!(raised(2, 4).unwrap(), "134");
        assert_eq!(raised(4, 4).unwrap(), "1");
    }

    #[test]
    fn versions_that_cannot_be_raised_are_errors() {
        let newer = raised(3, 2);
        assert!(matches!(
            newer,
            Err(DecodeError::NewerVersion {
                version: 3,
                newest: 2,
                ..
            })
        ));
        // No step leads from 4 to 5, none from 0 to 1.
        for (version, newest) in [(1, 5), (0, 1)] {
            let unknown = raised(version, newest);
            assert!(matches!(unknown, Err(DecodeError::UnknownVersion { .. })));
        }
        let malformed = raised(5, 6);
        assert!(matches!(
            malformed,
            Err(DecodeError::Malformed { version: 5, .. })
        ));
    }

    #[test]
    fn the_table_has_a_step_for_every_older_version() {
        let mut wanted: Vec<_> = Kind::ALL
            .iter()
            .flat_map(|kind| (1..kind.version()).map(|version| (kind.number(), version)))
            .collect();
        let mut held: Vec<_> = UPCASTERS.iter().map(|(n, v, _)| (*n, *v)).collect();
        wanted.sort_unstable();
        held.sort_unstable();
        assert_eq!(held, wanted);
    }

    #[test]
    fn unknown_kinds_and_garbage_are_errors() {
        let unknown = Payload::decode(9_999, 1, b"");
        assert!(matches!(
            unknown,
            Err(DecodeError::UnknownKind { number: 9_999 })
        ));
        let newer = Payload::decode(101, 99, b"");
        assert!(matches!(
            newer,
            Err(DecodeError::NewerVersion { version: 99, .. })
        ));
        let malformed = Payload::decode(101, 1, &[0xff; 9]);
        assert!(matches!(
            malformed,
            Err(DecodeError::Malformed {
                kind: "agent.renamed",
                ..
            })
        ));
    }
}
