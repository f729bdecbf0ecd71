//! Giving an agent work and seeing it through.

use cocoonbox_proto::{
    agent::v1::{SendAccepted, SendRequest},
    log::v1::{
        AgentModelReplied, AgentOutputStreamed, AgentToolCalled, AgentToolFinished, AgentTurnEnded,
        AgentTurnStarted, Event, agent_output_streamed::Part, agent_turn_ended::Outcome, block,
    },
};
use uuid::Uuid;

use crate::{
    TheBox,
    events::{payload, payload_if},
    operation::retrying,
};

/// A turn that has ended.
#[derive(Clone, Debug)]
pub struct Turn {
    pub accepted: SendAccepted,
    pub outcome: Outcome,
    pub detail: String,
    /// What was logged from the prompt's acceptance to the turn's end.
    pub events: Vec<Event>,
}

impl TheBox {
    /// Sends a prompt to the agent `main` and returns when its turn has ended.
    pub async fn send(&self, prompt: &str) -> Turn {
        let accepted = self.accept(prompt).await;
        self.turn_of(accepted).await
    }

    /// Sends a prompt and returns once it is accepted.
    pub async fn accept(&self, prompt: &str) -> SendAccepted {
        let request = SendRequest {
            prompt: prompt.into(),
            client_nonce: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        let call = || {
            let request = request.clone();
            async move { self.user.agents(&self.id).send(request).await }
        };
        retrying("Send is answered", call)
            .await
            .expect("a prompt is accepted")
            .into_inner()
    }

    /// Follows an accepted prompt to its turn's end.
    pub async fn turn_of(&self, accepted: SendAccepted) -> Turn {
        let mut following = self.events(&accepted.offset_key, &["agent/"]);
        let mut events = Vec::new();
        let mut ours = None;
        loop {
            let event = following.next().await;
            if let Some(started) = payload_if::<AgentTurnStarted>(&event, "agent.turn_started")
                && started.prompt_ids.contains(&accepted.prompt_id)
            {
                ours = Some(started.turn_id);
            }
            let ended = payload_if::<AgentTurnEnded>(&event, "agent.turn_ended");
            events.push(event);
            if let Some(ended) = ended
                && ours.as_ref() == Some(&ended.turn_id)
            {
                let outcome = ended.outcome();
                return Turn {
                    accepted,
                    outcome,
                    detail: ended.detail,
                    events,
                };
            }
        }
    }
}

impl Turn {
    pub fn assert_done(&self) {
        assert_eq!(
            self.outcome,
            Outcome::Done,
            "{}: {}",
            self.detail,
            self.story()
        );
    }

    /// All text of all replies.
    pub fn text(&self) -> String {
        let replies = self.of::<AgentModelReplied>("agent.model_replied");
        let blocks = replies.iter().flat_map(|reply| &reply.blocks);
        let texts = blocks.filter_map(|block| match &block.block {
            Some(block::Block::Text(text)) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Payloads of all events of one kind.
    pub fn of<M: prost::Message + Default>(&self, kind: &str) -> Vec<M> {
        let events = self.events.iter().filter(|event| event.kind == kind);
        events.map(|event| payload(event, kind)).collect()
    }

    pub fn tools_called(&self) -> Vec<AgentToolCalled> {
        self.of("agent.tool_called")
    }

    pub fn tools_finished(&self) -> Vec<AgentToolFinished> {
        self.of("agent.tool_finished")
    }

    /// The kinds of events in order, for a message.
    pub fn story(&self) -> String {
        self.events
            .iter()
            .map(|event| event.kind.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Puts streamed text of one model call together; panics where a piece is missing or doubled.
pub fn assemble(pieces: &[AgentOutputStreamed], call_id: &str) -> String {
    let mut text = String::new();
    for piece in pieces {
        if piece.call_id == call_id && piece.part() == Part::Text {
            let at = u64::try_from(text.len()).expect("fits");
            assert_eq!(
                piece.offset, at,
                "a gap or a repeat before `{}`",
                piece.text
            );
            text.push_str(&piece.text);
        }
    }
    text
}
