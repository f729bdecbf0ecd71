//! What may be erased, and what is left of it.

use cocoonbox_events::{
    Fold, Husks, Kind, LoadError, LogId, NewEvent, Payload, Store, UsageEvent,
    erasure::{self, ERASED, Erasable, POSITIONS_MAX, PlanError, Refusal},
};
use cocoonbox_proto::log::v1::{
    AgentOutputStreamed, AgentPromptReceived, LogErasureRequested, UsageModelCalled,
};
use uuid::Uuid;

use crate::{
    fold::Agent,
    support::{append, memory, opened, stream},
};

fn golden(kind: Kind) -> Payload {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let name = format!("{}.v{}.bin", kind.name(), kind.version());
    let bytes = std::fs::read(folder.join(name)).unwrap();
    Payload::decode(kind.number(), kind.version(), &bytes).unwrap()
}

/// Strings in a message that are ids, names of tools or models, or versions: facts, not content.
const FACTS: &[&str] = &[
    "user_id 0",
    "account_log 0",
    "token_id 0",
    "passkey_id 0",
    "host 0",
    "lease_id 0",
    "share_id 0",
    "secret_id 0",
    "for_user 0",
    "prompt_id 0",
    "call_id 0",
    "turn_id 0",
    "tool_call_id 0",
    "approval_id 0",
    "question_id 0",
    // Streams are called so.
    "blob 0",
    "media_type 0",
    "exec_id 0",
    "save_id 0",
    "restore_id 0",
    "snapshot_id 0",
    "objects 0",
    "objects 1",
    "name 0",
    "part 0",
    "vendor_stop 0",
    "[erased]",
    "{\"erased\":true}",
    "",
];

fn strings(value: &serde_json::Value, into: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => into.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| strings(item, into)),
        _ => {}
    }
}

/// Every kind is one of the three, and a husk holds no word of what was in it.
#[test]
fn every_kind_is_loose_a_husk_or_structure() {
    let mut kept = Vec::new();
    for kind in Kind::ALL {
        let payload = golden(*kind);
        let husk = erasure::husk(&payload);
        match kind.erasable() {
            Erasable::Structure { why } => {
                assert!(!why.is_empty() && husk.is_none(), "{}", kind.name());
                continue;
            }
            Erasable::Loose => {
                assert!(husk.is_none(), "{}", kind.name());
                continue;
            }
            Erasable::Husk => {}
        }
        let husk = husk.unwrap_or_else(|| panic!("`{}` leaves nothing", kind.name()));
        assert_eq!(husk.kind(), *kind);
        assert_ne!(husk, payload, "`{}` kept all", kind.name());
        assert_eq!(erasure::husk(&husk), Some(husk.clone()), "{}", kind.name());
        let (_, bytes) = husk.encode();
        let json = cocoonbox_proto::json::render(kind.message(), &bytes).unwrap();
        let mut left = Vec::new();
        strings(&json, &mut left);
        // Enums and bytes are strings in this form, too.
        let words = left
            .iter()
            .filter(|text| text.ends_with(" 0") || text.ends_with(" 1"));
        for word in words {
            let is_fact = FACTS.contains(&word.as_str());
            let is_name = word == "name 0" && *kind == Kind::DirectoryUserAdded;
            // One of the codes that the api answers with; elsewhere a reason is what a person wrote.
            let is_code = word == "reason 0"
                && [Kind::SnapshotFailed, Kind::SnapshotRestoreFailed].contains(kind);
            if !(is_fact || is_code) || is_name {
                kept.push(format!("`{}` keeps `{word}`", kind.name()));
            }
        }
    }
    assert!(kept.is_empty(), "{kept:#?}");
}

fn event(name: &str, payload: impl Into<Payload>) -> NewEvent {
    NewEvent {
        stream: stream(name),
        payload: payload.into(),
    }
}

async fn story(store: &dyn Store) -> LogId {
    use cocoonbox_events::AgentEvent as E;
    let log = opened(store).await;
    let mut all = append(&[("agent/a", "1")]);
    all.expect.clear();
    all.events = vec![
        event(
            "agent/a",
            E::PromptReceived(AgentPromptReceived {
                prompt_id: "p1".into(),
                text: "a secret".into(),
                ..AgentPromptReceived::default()
            }),
        ),
        event(
            "agent/a",
            E::OutputStreamed(AgentOutputStreamed {
                text: "half of it".into(),
                ..AgentOutputStreamed::default()
            }),
        ),
        event(
            "usage/2026-11-30",
            UsageEvent::ModelCalled(UsageModelCalled::default()),
        ),
    ];
    store.append(log, all).await.unwrap();
    log
}

#[tokio::test]
async fn a_plan_says_what_goes_what_stays_and_why() {
    let f = memory();
    let log = story(&*f.store).await;
    let plan = erasure::plan(&*f.store, log, vec![3, 2, 1, 2, 0, 99])
        .await
        .unwrap();
    assert_eq!(plan.positions(), [1, 2]);
    assert_eq!(plan.husks.len(), 1, "a chunk leaves nothing");
    let kept: Vec<_> = plan
        .kept
        .iter()
        .map(|kept| (kept.event.pos, &kept.why))
        .collect();
    assert!(
        matches!(
            kept[..],
            [(
                3,
                Refusal::Structure {
                    kind: "usage.model_called",
                    ..
                }
            )]
        ),
        "{kept:?}"
    );
    f.store.erase(log, &[1]).await.unwrap();
    let plan = erasure::plan(&*f.store, log, vec![1, 2]).await.unwrap();
    assert_eq!(plan.positions(), [2], "what is erased is not planned again");
    let many = (1..=POSITIONS_MAX as u64 + 1).collect();
    let refused = erasure::plan(&*f.store, log, many).await;
    assert!(matches!(refused, Err(PlanError::TooMany { .. })));
    let nowhere = LogId(Uuid::now_v7());
    let refused = erasure::plan(&*f.store, nowhere, vec![1]).await;
    assert!(matches!(refused, Err(PlanError::Read(_))));
}

#[tokio::test]
async fn folds_read_husks_in_place_of_what_is_erased() {
    let f = memory();
    let log = story(&*f.store).await;
    let plan = erasure::plan(&*f.store, log, vec![1, 2]).await.unwrap();
    let mut asked = append(&[("log/erasure", "1")]);
    asked.expect.clear();
    asked.events = vec![event(
        "log/erasure",
        cocoonbox_events::LogEvent::ErasureRequested(LogErasureRequested {
            positions: plan.positions(),
            reason: String::new(),
            husks: plan.husks,
        }),
    )];
    f.store.append(log, asked).await.unwrap();
    f.store.erase(log, &[1, 2]).await.unwrap();
    let mut husks = Husks::default();
    husks.refresh(&*f.store, log).await.unwrap();
    let page = f.store.read(log, 0, 10).await.unwrap();
    let left = husks.payload(&page.events[0]).unwrap();
    let Some(Payload::Agent(cocoonbox_events::AgentEvent::PromptReceived(prompt))) = left else {
        panic!("{left:?}")
    };
    assert_eq!(
        (prompt.prompt_id.as_str(), prompt.text.as_str()),
        ("p1", ERASED)
    );
    assert_eq!(husks.payload(&page.events[1]).unwrap(), None);
    assert!(husks.payload(&page.events[2]).unwrap().is_some());
    // A fold finds them by itself: this aggregate knows no prompts, and says so.
    let mut fold = Fold::<Agent>::new(log, stream("agent/a"));
    let refused = fold.refresh(&*f.store).await;
    assert!(
        matches!(refused, Err(LoadError::Illegal { pos: 1, .. })),
        "{refused:?}"
    );
}

/// A copy erases what the log says of itself, before it takes that in; and nothing that folds stand on,
/// whatever a box says.
#[tokio::test]
async fn a_copy_erases_what_it_is_told_of_and_no_structure() {
    use cocoonbox_events::LogEvent;
    use cocoonbox_proto::log::v1::LogErasureDone;
    let (of, copy) = (memory(), memory());
    let log = story(&*of.store).await;
    let info = of.store.info(log).unwrap();
    let new = cocoonbox_events::NewLog {
        id: log,
        kind: info.kind,
        owner: info.owner,
        parent: None,
    };
    copy.store.open(new).await.unwrap();
    let first = of.store.read(log, 0, 1).await.unwrap();
    copy.store.replicate(log, first.events).await.unwrap();
    let mut told = append(&[("log/erasure", "1")]);
    told.expect.clear();
    told.events = vec![event(
        "log/erasure",
        LogEvent::ErasureDone(LogErasureDone {
            positions: vec![1, 2, 3, 99],
        }),
    )];
    of.store.append(log, told).await.unwrap();
    let mut rest = of.store.read(log, 1, 10).await.unwrap().events;
    erasure::honour(&*copy.store, log, &mut rest).await.unwrap();
    // Erased here already, though the event that says so is not here yet.
    let held = copy.store.read(log, 0, 10).await.unwrap();
    assert!(held.events[0].body.is_none());
    copy.store.replicate(log, rest).await.unwrap();
    let held = copy.store.read(log, 0, 10).await.unwrap();
    let open: Vec<u64> = held
        .events
        .iter()
        .filter(|event| event.body.is_some())
        .map(|event| event.pos)
        .collect();
    assert_eq!(open, [3, 4], "usage is structure");
}
