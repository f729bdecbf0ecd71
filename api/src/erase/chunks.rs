//! What was streamed of a reply while it was made: the same words, in events of their own.

use cocoonbox_events::{
    AgentEvent, LogId, Payload, ReadError, Recorded, Store, erasure::Plan, limits::PAGE_EVENTS_MAX,
};

/// Returns the positions of what was streamed of the replies that go, oldest first. A reply of minutes has
/// thousands.
pub(super) async fn of_replies(
    store: &dyn Store,
    log: LogId,
    plan: &Plan,
) -> Result<Vec<u64>, ReadError> {
    let mut positions = Vec::new();
    for erased in &plan.erased {
        if let Ok(Some(Payload::Agent(AgentEvent::ModelReplied(reply)))) = erased.event.payload() {
            positions.extend(of_call(store, log, &erased.event, &reply.call_id).await?);
        }
    }
    positions.sort_unstable();
    Ok(positions)
}

/// Looks back from the reply to where its call began, a page at a time.
async fn of_call(
    store: &dyn Store,
    log: LogId,
    reply: &Recorded,
    call_id: &str,
) -> Result<Vec<u64>, ReadError> {
    let mut positions = Vec::new();
    let mut before = reply.seq;
    while before > 1 {
        let from = before.saturating_sub(PAGE_EVENTS_MAX as u64).max(1);
        let mut next = from;
        let mut has_begun = false;
        while next < before {
            let page = store
                .read_stream(log, &reply.stream, next - 1, PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                break;
            };
            next = last.seq + 1;
            for event in page.events.iter().take_while(|event| event.seq < before) {
                let Ok(Some(Payload::Agent(payload))) = event.payload() else {
                    continue;
                };
                match payload {
                    AgentEvent::OutputStreamed(chunk) if chunk.call_id == call_id => {
                        positions.push(event.pos);
                    }
                    AgentEvent::ModelCalled(call) => has_begun |= call.call_id == call_id,
                    _ => {}
                }
            }
        }
        if has_begun {
            break;
        }
        before = from;
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cocoonbox_events::{
        Append, CommandId, Ids as _, LogKind, ManualClock, MemoryStore, NewEvent, NewLog,
        StreamName, SystemIds, erasure,
    };
    use cocoonbox_proto::log::v1::{
        Actor, AgentModelCalled, AgentModelReplied, AgentOutputStreamed,
    };

    use super::*;

    fn called(call_id: &str) -> AgentEvent {
        AgentEvent::ModelCalled(AgentModelCalled {
            call_id: call_id.into(),
            ..AgentModelCalled::default()
        })
    }

    fn streamed(call_id: &str) -> AgentEvent {
        AgentEvent::OutputStreamed(AgentOutputStreamed {
            call_id: call_id.into(),
            text: "word".into(),
            ..AgentOutputStreamed::default()
        })
    }

    fn replied(call_id: &str) -> AgentEvent {
        AgentEvent::ModelReplied(AgentModelReplied {
            call_id: call_id.into(),
            ..AgentModelReplied::default()
        })
    }

    async fn write(store: &MemoryStore, log: LogId, events: Vec<AgentEvent>) {
        let stream = StreamName::new("agent/a").unwrap();
        let events = events.into_iter().map(|event| NewEvent {
            stream: stream.clone(),
            payload: event.into(),
        });
        let append = Append {
            command: CommandId(SystemIds.draw()),
            digest: [0; 32],
            expect: Vec::new(),
            events: events.collect(),
            actor: Actor::default(),
            cause: None,
        };
        store.append(log, append).await.unwrap();
    }

    #[tokio::test]
    async fn what_was_streamed_of_a_reply_is_found_and_nothing_else() {
        let store = MemoryStore::new(Arc::new(ManualClock::at(0)), Arc::new(SystemIds));
        let log = LogId(SystemIds.draw());
        let new = NewLog {
            id: log,
            kind: LogKind::Box,
            owner: "u1".into(),
            parent: None,
        };
        store.open(new).await.unwrap();
        write(&store, log, vec![called("0"), streamed("0"), replied("0")]).await;
        write(&store, log, vec![called("1"), streamed("1"), streamed("0")]).await;
        // More than a page of them.
        let pages = 2 * PAGE_EVENTS_MAX + 10;
        for _ in 0..pages / 10 {
            write(&store, log, vec![streamed("1"); 10]).await;
        }
        write(&store, log, vec![replied("1"), streamed("1")]).await;
        let tail = store.tail(log).unwrap().pos;
        let plan = erasure::plan(&store, log, vec![tail - 1]).await.unwrap();
        let found = of_replies(&store, log, &plan).await.unwrap();
        let due: Vec<u64> = std::iter::once(5).chain(7..tail - 1).collect();
        assert_eq!(found, due);

        let none = erasure::plan(&store, log, vec![tail]).await.unwrap();
        assert!(of_replies(&store, log, &none).await.unwrap().is_empty());
    }
}
