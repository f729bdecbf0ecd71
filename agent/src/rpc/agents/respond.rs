//! Answers of people to what an agent, or a subagent of it, asks.

use cocoonbox_commands::agent::{Command, Rejection, Waiting};
use cocoonbox_proto::{
    agent::v1::RespondRequest,
    log::v1::{Actor, agent_approval_decided::Scope},
};
use tonic::Status;

use super::{super::status, AgentsService, or_main};
use crate::{journal, turn::Fault};

impl AgentsService {
    /// Gives an answer to whoever asks.
    pub(super) async fn answer(&self, request: RespondRequest, actor: Actor) -> Result<(), Status> {
        if request.approval_id.is_empty() == request.question_id.is_empty() {
            let problem = "say either which approval or which question";
            return Err(status::bad_field("approval_id", problem));
        }
        let agent_id = or_main(request.agent_id.clone());
        let command = self.command(&request);
        let told = self
            .agents
            .tell(&agent_id, command.clone(), actor.clone(), None);
        let unknown = match told.await {
            Ok(_) => return Ok(()),
            Err(error) if is_unknown(&error) => error,
            Err(error) => return Err(status::agent_error(&error)),
        };
        // What a subagent asks is shown with the agent that it works for.
        for child_id in self.agents.children(&agent_id) {
            let child = self.agents.get(&child_id).await;
            let child = child.map_err(|error| status::agent_error(&error))?;
            if asks(&child.waiting(), &request) {
                return self.tell(&child_id, command, actor).await.map(drop);
            }
        }
        Err(status::agent_error(&unknown))
    }

    fn command(&self, request: &RespondRequest) -> Command {
        if !request.question_id.is_empty() {
            return Command::Answer {
                question_id: request.question_id.clone(),
                answer: request.answer.clone(),
            };
        }
        Command::Approve {
            approval_id: request.approval_id.clone(),
            allowed: request.allow,
            comment: request.comment.clone(),
            scope: if request.for_conversation {
                Scope::Conversation
            } else {
                Scope::Once
            },
            now_us: self.journal.now_us(),
        }
    }
}

fn asks(waiting: &Waiting, request: &RespondRequest) -> bool {
    let approvals = waiting.approvals.iter().map(|one| &one.approval_id);
    let questions = waiting.questions.iter().map(|one| &one.question_id);
    let asked = [&request.approval_id, &request.question_id];
    approvals
        .chain(questions)
        .any(|id| !id.is_empty() && asked.contains(&id))
}

fn is_unknown(error: &Fault) -> bool {
    matches!(
        error,
        Fault::Journal(journal::Error::Rejected(
            Rejection::UnknownApproval { .. } | Rejection::UnknownQuestion { .. }
        ))
    )
}
