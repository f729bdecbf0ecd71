//! For each method there is, a call that tries to reach what is somebody else's.

use bytes::Bytes;
use cocoonbox_e2e::exec::start;
use cocoonbox_events::{Clock as _, SystemClock};
use cocoonbox_proto::{
    agent::v1 as agent,
    control::v1::{self as control, RevokeTokenRequest},
};
use prost::Message;

use super::Victim;

/// How an attack has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Must {
    /// NOT_FOUND or PERMISSION_DENIED.
    BeRefused,
    /// The method knows no foreign ids: it may answer, with nothing of the victim's.
    ShowNothing,
    /// PERMISSION_DENIED, whoever asks.
    BeRefusedToAll,
}

/// The request with which bob tries to reach what is ada's, and how that must end. A method without a case
/// fails the tests: write one when you add a method.
pub(super) fn attack(method: &str, ada: &Victim) -> (Bytes, Must) {
    let (box_id, operation_id) = (ada.the_box.id.clone(), ada.operation_id.clone());
    let key = ada.account_key.clone();
    let box_ref = control::BoxRef {
        box_id: box_id.clone(),
        ..Default::default()
    };
    let (service, name) = method.rsplit_once('/').expect("a path");
    use Must::{BeRefused, BeRefusedToAll, ShowNothing};
    let bytes = |message: Vec<u8>| Bytes::from(message);
    let exec = agent::exec_request::Frame::Start(start(&["cat", "/workspace/secret"]));
    match (service, name) {
        ("/cocoonbox.control.v1.Boxes", "Ensure") => {
            let request = control::EnsureRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "Fork") => {
            let request = control::ForkRequest {
                box_id,
                name: "eve".into(),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "SetModels") => {
            let request = control::SetBoxModelsRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "KeepAwake") => {
            let request = control::KeepAwakeRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "Get") => {
            let request = control::GetBoxRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "List") => (
            bytes(control::ListBoxesRequest::default().encode_to_vec()),
            ShowNothing,
        ),
        ("/cocoonbox.control.v1.Boxes", "Watch") => (
            bytes(control::WatchBoxesRequest::default().encode_to_vec()),
            ShowNothing,
        ),
        ("/cocoonbox.control.v1.Boxes", "Hibernate" | "Delete") => {
            (bytes(box_ref.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Boxes", "WatchOperation") => {
            let request = control::WatchRequest {
                operation_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        (
            "/cocoonbox.control.v1.Capsule",
            "Save" | "ListSnapshots" | "BrowseSnapshot" | "ReadFile" | "Diff",
        ) => {
            let path = b"/workspace/secret".to_vec();
            let request = match name {
                "Save" => control::SaveRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
                "ListSnapshots" => control::ListSnapshotsRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
                "BrowseSnapshot" => control::BrowseSnapshotRequest {
                    box_id,
                    path,
                    ..Default::default()
                }
                .encode_to_vec(),
                "ReadFile" => control::ReadFileRequest {
                    box_id,
                    path,
                    ..Default::default()
                }
                .encode_to_vec(),
                _ => control::DiffRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
            };
            (bytes(request), BeRefused)
        }
        ("/cocoonbox.control.v1.Capsule", "RestorePaths") => {
            let request = control::RestorePathsRequest {
                box_id,
                paths: vec![b"/workspace/secret".to_vec()],
                in_place: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Capsule", "UndoRestore") => {
            let request = control::UndoRestoreRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Shares", "Create" | "List" | "Regenerate" | "Revoke") => {
            let request = match name {
                "Create" => control::CreateShareRequest {
                    box_id,
                    label: "eve".into(),
                    ..Default::default()
                }
                .encode_to_vec(),
                "List" => control::ListSharesRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
                "Regenerate" => control::RegenerateShareRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
                _ => control::RevokeShareRequest {
                    box_id,
                    ..Default::default()
                }
                .encode_to_vec(),
            };
            (bytes(request), BeRefused)
        }
        ("/cocoonbox.control.v1.History", "Search") => {
            let request = control::SearchRequest {
                query: "secret".into(),
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Capsule", "Pin" | "Unpin" | "Forget") => {
            let request = control::PinRequest {
                box_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Routines", "Create") => {
            let request = control::CreateRoutineRequest {
                box_id,
                plan: Some(plan("eve")),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Routines", "Change") => {
            let request = control::ChangeRoutineRequest {
                routine_id: ada.routine_id.clone(),
                plan: Some(plan("eve")),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        // The field is the first in all of them.
        ("/cocoonbox.control.v1.Routines", "Pause" | "Resume" | "Run" | "Delete" | "Runs") => {
            let request = control::RoutineRef {
                routine_id: ada.routine_id.clone(),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        // Of the caller's own account.
        ("/cocoonbox.control.v1.Capsule", "GetStorage" | "SetRetention" | "Prune") => {
            (Bytes::new(), ShowNothing)
        }
        ("/cocoonbox.control.v1.Users", "Bootstrap") => (
            bytes(control::BootstrapRequest::default().encode_to_vec()),
            BeRefusedToAll,
        ),
        ("/cocoonbox.control.v1.Users", "Create") => {
            let request = control::CreateUserRequest {
                name: "eve".into(),
                admin: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        (
            "/cocoonbox.control.v1.Users",
            "WhoAmI" | "ListTokens" | "ListPasskeys" | "Usage" | "IssueToken" | "Audit",
        )
        // A key each, of no use to the others: that they differ is looked at where keys are.
        | ("/cocoonbox.control.v1.Capsule", "ExportKey")
        | ("/cocoonbox.control.v1.Routines", "List")
        | ("/cocoonbox.control.v1.Checkpoints", "ListKeys") => (Bytes::new(), ShowNothing),
        ("/cocoonbox.control.v1.Budgets", "Set" | "Clear" | "Show") => {
            let budget = control::BudgetId {
                user_id: ada.user.id.clone(),
                ..Default::default()
            };
            let request = control::SetBudgetRequest {
                budget: Some(budget),
                tokens_max: Some(1),
                ..Default::default()
            };
            let show = control::ShowBudgetsRequest {
                user_id: ada.user.id.clone(),
            };
            let request = if name == "Show" {
                show.encode_to_vec()
            } else {
                request.encode_to_vec()
            };
            (bytes(request), BeRefused)
        }
        ("/cocoonbox.control.v1.Users", "RevokeToken") => {
            let request = RevokeTokenRequest {
                token_id: ada.user.token_id.clone(),
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        // That of a real one of somebody else nothing becomes is shown where browsers add them.
        ("/cocoonbox.control.v1.Users", "RemovePasskey") => {
            let request = control::RemovePasskeyRequest {
                passkey_id: "p0123456789ab".into(),
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Users", "Events") => {
            let request = control::AccountEventsRequest {
                from_offset: key,
                no_follow: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Session", "Events") => {
            let request = agent::EventsRequest {
                from_offset: String::new(),
                no_follow: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Session", "Exec") => (
            bytes(agent::ExecRequest { frame: Some(exec) }.encode_to_vec()),
            BeRefused,
        ),
        ("/cocoonbox.agent.v1.Session", "SignalExec") => {
            let request = agent::SignalExecRequest {
                exec_id: ada.exec_id.clone(),
                signal: 9,
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Agents", "Create") => {
            let request = agent::CreateAgentRequest {
                name: "eve".into(),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Users", "List")
        // For whoever has a share's secret, which no user's token is.
        | ("/cocoonbox.control.v1.Shares", "Look")
        | ("/cocoonbox.agent.v1.Session", "Hello")
        | ("/cocoonbox.agent.v1.Control", "Renew" | "Release" | "Show")
        | ("/cocoonbox.control.v1.Checkpoints", "Standing")
        | (
            "/cocoonbox.agent.v1.Agents",
            "List" | "Transcript" | "Cancel" | "Withdraw" | "Branch" | "SelectBranch" | "Configure"
            | "ReadBlob",
        ) => (Bytes::new(), BeRefused),
        ("/cocoonbox.agent.v1.Session", "Screen") => {
            let start = agent::screen_request::Frame::Start(agent::ScreenStart::default());
            let request = agent::ScreenRequest { frame: Some(start) };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Control", "Take") => {
            let request = agent::TakeControlRequest {
                lease_id: "eve".into(),
                steal: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Agents", "Send") => {
            let request = agent::SendRequest {
                prompt: "hi".into(),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.agent.v1.Agents", "Respond") => {
            let request = agent::RespondRequest {
                approval_id: "a".into(),
                allow: true,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Users", "Delete") => {
            let request = control::DeleteUserRequest {
                user_id: ada.user.id.clone(),
                confirm_name: ada.user.name.clone(),
                force: true,
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Erasure", "Erase") => {
            let request = control::EraseRequest {
                what: Some(control::erase_request::What::Item(ada.box_key.clone())),
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Checkpoints", "List") => {
            let log_id = ada.box_key.split('.').next().expect("a log id").to_owned();
            let request = control::ListCheckpointsRequest {
                log_id,
                ..Default::default()
            };
            (bytes(request.encode_to_vec()), BeRefused)
        }
        ("/cocoonbox.control.v1.Operator", "RebuildView") => {
            let request = control::RebuildViewRequest {
                name: "boxes".into(),
            };
            (bytes(request.encode_to_vec()), BeRefusedToAll)
        }
        (
            "/cocoonbox.agent.v1.BoxLog",
            "Follow" | "Quiesce" | "Erase" | "Standing" | "Link" | "Restore" | "Release",
        )
        | ("/cocoonbox.agent.v1.Fence", "Follow")
        | ("/cocoonbox.agent.v1.Saves", "Serve")
        | ("/cocoonbox.control.v1.Checkpoints", "RotateKey")
        | ("/cocoonbox.control.v1.Operator", "Condition") => (Bytes::new(), BeRefusedToAll),
        _ => panic!("no case for {method}: add one here"),
    }
}

/// A routine that is due in a year or so.
pub(super) fn plan(name: &str) -> control::RoutinePlan {
    control::RoutinePlan {
        name: name.into(),
        prompt: "hi".into(),
        at_ms: SystemClock.now_us() / 1_000 + 31_536_000_000,
        ..Default::default()
    }
}
