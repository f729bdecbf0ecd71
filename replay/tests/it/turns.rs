//! Conversations that real agents had, decided again: `testdata/turns`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use cocoonbox_events::{AgentEvent, LogId, Payload, Recorded, Store, StreamName};
use cocoonbox_replay::{ExportStore, decode_line, export::ExportLine, rerun, verify};

use crate::exported::{Exported, rewrite};

/// What each recording must have in it, so that it is the one that its name says: a kind of event and
/// a part of how it reads.
const KINDS: &[(&str, &str, &str)] = &[
    ("approval-denied", "agent.tool_finished", "DENIED"),
    ("budget-stop", "agent.model_failed", "BUDGET"),
    ("cancel-asking", "agent.turn_ended", "CANCELLED"),
    ("cancel-questioning", "agent.turn_ended", "CANCELLED"),
    ("cancel-retrying", "agent.turn_ended", "CANCELLED"),
    ("cancel-running", "agent.tool_finished", "CANCELLED"),
    ("cancel-silent", "agent.turn_ended", "CANCELLED"),
    ("cancel-speaking", "agent.turn_ended", "CANCELLED"),
    ("compaction", "agent.compacted", "GO ON NOW"),
    ("crash-asking", "agent.turn_ended", "DONE"),
    ("crash-questioning", "agent.question_answered", "So."),
    ("crash-retrying", "agent.turn_ended", "DONE"),
    ("crash-running", "agent.tool_finished", "INTERRUPTED"),
    ("crash-silent", "agent.model_failed", "AGENT_RESTARTED"),
    ("crash-speaking", "agent.model_failed", "AGENT_RESTARTED"),
    ("cut-stream", "agent.model_failed", "CUT"),
    ("fallback", "agent.model_called", "second"),
    ("huge-output", "agent.tool_finished", "\"blob\""),
    ("image", "agent.prompt_received", "image/gif"),
    ("looping", "agent.turn_ended", "LOOP"),
    (
        "malformed-arguments",
        "agent.tool_finished",
        "not valid JSON",
    ),
    ("parallel-tools", "agent.model_replied", "absent"),
    ("parallel-tools-chat", "agent.model_replied", "absent"),
    ("parallel-tools-responses", "agent.model_replied", "absent"),
    ("refusal", "agent.turn_ended", "REFUSED"),
    ("second-thoughts", "agent.prompt_withdrawn", "prompt_id"),
    ("subagent", "agent.created", "main."),
];

fn path(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/turns");
    PathBuf::from(folder).join(format!("{name}.jsonl"))
}

fn lines(name: &str) -> Vec<ExportLine> {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let decode = |line: &str| decode_line(line.as_bytes()).unwrap();
    text.lines().map(decode).collect()
}

/// The events of agents, of one stream after the other.
fn by_stream(lines: &[ExportLine]) -> BTreeMap<(LogId, StreamName), Vec<&Recorded>> {
    let mut streams = BTreeMap::<_, Vec<&Recorded>>::new();
    for line in lines {
        if let ExportLine::Event(event) = line
            && event.stream.as_str().starts_with("agent/")
        {
            let stream = (event.log, event.stream.clone());
            streams.entry(stream).or_default().push(event);
        }
    }
    streams
}

#[test]
fn every_recording_is_listed() {
    let folder = path("x");
    let files = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let found: BTreeSet<String> = files
        .map(|file| file.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let listed = KINDS.iter().map(|(name, ..)| (*name).to_owned());
    assert_eq!(found, listed.collect());
}

#[tokio::test]
async fn every_recording_is_decided_the_same() {
    for (name, kind, part) in KINDS {
        let store: Arc<dyn Store> = Arc::new(ExportStore::open(&path(name)).await.unwrap());
        let lines = lines(name);
        let streams = by_stream(&lines);
        let mut is_there = false;
        for ((log, stream), events) in &streams {
            assert!(verify(&store, *log).await.unwrap().is_good(), "{name}");
            let run = rerun(&store, *log, stream).await.unwrap();
            assert!(run.is_same(), "{name}: {stream} {}", run.text());
            assert_eq!((run.same, run.cut, run.erased), (events.len() as u64, 0, 0));
            is_there |= events.iter().any(|event| {
                let line = cocoonbox_replay::Line::of(event);
                line.kind == *kind && line.payload.to_string().contains(part)
            });
        }
        assert!(is_there, "{name}: no `{kind}` with `{part}`");
    }
}

/// Another decision than the one that is recorded; `None` where an event says what came from outside.
fn otherwise(event: AgentEvent) -> Option<AgentEvent> {
    Some(match event {
        AgentEvent::TurnStarted(mut e) => {
            e.prompt_ids.push("another".into());
            AgentEvent::TurnStarted(e)
        }
        AgentEvent::ModelCalled(mut e) => {
            e.attempt += 1;
            AgentEvent::ModelCalled(e)
        }
        AgentEvent::ToolCalled(mut e) => {
            e.args_json.push(' ');
            AgentEvent::ToolCalled(e)
        }
        AgentEvent::Compacted(mut e) => {
            e.summary.push('.');
            AgentEvent::Compacted(e)
        }
        AgentEvent::ApprovalRequested(mut e) => {
            e.args_hash.push(0);
            AgentEvent::ApprovalRequested(e)
        }
        AgentEvent::TurnEnded(mut e) => {
            e.detail.push('.');
            AgentEvent::TurnEnded(e)
        }
        _ => return None,
    })
}

#[tokio::test]
async fn a_decision_that_is_changed_is_found_at_its_place() {
    for (name, ..) in KINDS {
        let whole = lines(name);
        // One of each kind is enough.
        let mut changes = BTreeMap::new();
        for ((log, stream), events) in by_stream(&whole) {
            for event in events {
                let payload = event.payload().unwrap().and_then(AgentEvent::pick);
                if let Some(other) = payload.and_then(otherwise) {
                    let at = (log, stream.clone(), event.pos);
                    changes.entry(event.kind).or_insert((at, other));
                }
            }
        }
        assert!(changes.len() >= 3, "{name}: {changes:?}");
        for ((log, stream, pos), other) in changes.into_values() {
            let mut lines = whole.clone();
            let (_, bytes) = Payload::from(other).encode();
            rewrite(&mut lines, (log, pos), bytes);
            let store = Exported::from_lines(&lines, false);
            let store = store.store().await;
            assert!(verify(&store, log).await.unwrap().is_good(), "{name}");
            let run = rerun(&store, log, &stream).await.unwrap();
            let found = run.divergence.as_ref().map(|found| found.pos);
            assert_eq!(found, Some(pos), "{name}: {}", run.text());
        }
    }
}
