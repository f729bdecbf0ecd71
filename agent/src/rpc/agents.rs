//! `Agents`: prompts in, answers to approvals, cancels. What comes of them is in the log.

use async_trait::async_trait;
use cocoonbox_commands::agent::Command;
use cocoonbox_events::CommandId;
use cocoonbox_proto::{
    agent::v1::{
        Agent, AgentRef, CreateAgentRequest, ListAgentsRequest, ListAgentsResponse, RespondRequest,
        SendAccepted, SendRequest, TranscriptPage, TranscriptRequest, agents_server::Agents,
    },
    log::v1::{Actor, ModelChoice, actor},
};
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

use super::status;
use crate::{
    identity::IdentityFile,
    journal::Journal,
    turn::{self, AgentState, Settings},
};

/// Where the edge says which user asks. It is believed because the credential is.
const USER: &str = "x-cocoonbox-user";
const USER_ID_BYTES_MAX: usize = 64;
/// Of a nonce; it is only hashed.
const NONCE_BYTES_MAX: usize = 256;

pub(crate) struct AgentsService {
    pub(crate) agents: turn::Agents,
    pub(crate) journal: Journal,
    pub(crate) identity: IdentityFile,
}

impl AgentsService {
    fn actor(&self, metadata: &MetadataMap) -> Actor {
        let user = metadata.get(USER).and_then(|user| user.to_str().ok());
        match user.filter(|user| !user.is_empty() && user.len() <= USER_ID_BYTES_MAX) {
            Some(user) => Actor {
                kind: actor::Kind::User.into(),
                id: user.to_owned(),
            },
            None => self.journal.own_actor(),
        }
    }

    fn model(&self, asked: Option<ModelChoice>) -> Result<ModelChoice, Status> {
        if let Some(model) = asked.filter(|model| !model.model.is_empty()) {
            return Ok(model);
        }
        self.identity.current().model(turn::MAIN).ok_or_else(|| {
            let message = "no model is configured for this box";
            status::status(
                Code::FailedPrecondition,
                "MODEL_NOT_CONFIGURED",
                message,
                &[],
            )
        })
    }

    /// The id that a nonce stands for, or a fresh one.
    fn id(&self, nonce: &str, what: &str) -> Result<String, Status> {
        if nonce.len() > NONCE_BYTES_MAX {
            return Err(status::bad_field(
                "client_nonce",
                "is longer than 256 bytes",
            ));
        }
        if nonce.is_empty() {
            return Ok(self.journal.draw());
        }
        Ok(CommandId::derive(nonce.as_bytes(), what).to_string())
    }

    async fn make_main(&self, actor: &Actor) -> Result<(), Status> {
        if self.agents.exists(turn::MAIN) {
            return Ok(());
        }
        let settings = Settings {
            name: turn::MAIN.to_owned(),
            model: self.model(None)?,
            approval: cocoonbox_proto::log::v1::ApprovalPolicy::ApproveAll,
            steps_max: 0,
        };
        let made = self
            .agents
            .create(turn::MAIN, settings, actor.clone())
            .await;
        made.map(drop).map_err(|error| status::agent_error(&error))
    }
}

#[async_trait]
impl Agents for AgentsService {
    async fn create(
        &self,
        request: Request<CreateAgentRequest>,
    ) -> Result<Response<Agent>, Status> {
        let actor = self.actor(request.metadata());
        let request = request.into_inner();
        let agent_id = self.id(&request.client_nonce, "agent")?;
        let settings = Settings {
            model: self.model(request.model.clone())?,
            approval: request.approval(),
            name: request.name,
            steps_max: request.steps_max,
        };
        let made = self.agents.create(&agent_id, settings, actor).await;
        made.map(|made| Response::new(to_wire(made)))
            .map_err(|error| status::agent_error(&error))
    }

    async fn list(
        &self,
        _: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        let all = self
            .agents
            .list()
            .await
            .map_err(|error| status::agent_error(&error))?;
        let agents = all.into_iter().map(to_wire).collect();
        Ok(Response::new(ListAgentsResponse { agents }))
    }

    async fn send(&self, request: Request<SendRequest>) -> Result<Response<SendAccepted>, Status> {
        let actor = self.actor(request.metadata());
        let SendRequest {
            agent_id,
            prompt,
            client_nonce,
        } = request.into_inner();
        let agent_id = or_main(agent_id);
        if agent_id == turn::MAIN {
            self.make_main(&actor).await?;
        }
        let prompt_id = self.id(&client_nonce, &format!("prompt {agent_id}"))?;
        let id = CommandId::derive(prompt_id.as_bytes(), "prompt");
        let asked = prompt.clone().into_bytes();
        let command = Command::Prompt {
            prompt_id: prompt_id.clone(),
            text: prompt,
        };
        let told = self
            .agents
            .tell(&agent_id, command, actor, Some((id, asked)))
            .await;
        let key = told.map_err(|error| status::agent_error(&error))?;
        Ok(Response::new(SendAccepted {
            agent_id,
            prompt_id,
            offset_key: key.to_string(),
        }))
    }

    async fn transcript(
        &self,
        _: Request<TranscriptRequest>,
    ) -> Result<Response<TranscriptPage>, Status> {
        let message = "transcripts are served by the api, from its replica of this box's log";
        Err(status::status(
            Code::Unimplemented,
            "SERVED_BY_EDGE",
            message,
            &[],
        ))
    }

    async fn respond(&self, request: Request<RespondRequest>) -> Result<Response<()>, Status> {
        let actor = self.actor(request.metadata());
        let request = request.into_inner();
        let agent_id = or_main(request.agent_id);
        let command = Command::Approve {
            approval_id: request.approval_id,
            allowed: request.allow,
            comment: request.comment,
        };
        let told = self.agents.tell(&agent_id, command, actor, None).await;
        told.map_err(|error| status::agent_error(&error))?;
        Ok(Response::new(()))
    }

    async fn cancel(&self, request: Request<AgentRef>) -> Result<Response<()>, Status> {
        let actor = self.actor(request.metadata());
        let agent_id = or_main(request.into_inner().agent_id);
        let command = Command::Cancel {
            turn_id: self.journal.draw(),
        };
        let told = self.agents.tell(&agent_id, command, actor, None).await;
        told.map_err(|error| status::agent_error(&error))?;
        Ok(Response::new(()))
    }
}

fn or_main(agent_id: String) -> String {
    if agent_id.is_empty() {
        turn::MAIN.to_owned()
    } else {
        agent_id
    }
}

fn to_wire(agent: AgentState) -> Agent {
    Agent {
        state: agent.state.mood().name().to_owned(),
        id: agent.state.agent_id,
        name: agent.state.name,
        model: Some(agent.state.model),
        offset_key: agent.key.to_string(),
    }
}
