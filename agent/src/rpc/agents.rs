//! `Agents`: prompts in, answers of people, cancels. What comes of them is in the log.

mod blob;
mod respond;
mod told;

use std::pin::Pin;

use async_trait::async_trait;
use cocoonbox_commands::agent::{Command, IMAGES_MAX, Life};
use cocoonbox_events::CommandId;
use cocoonbox_proto::{
    agent::v1::{
        Agent, AgentRef, BlobPart, BranchRequest, ConfigureRequest, CreateAgentRequest,
        ListAgentsRequest, ListAgentsResponse, NewImage, ReadBlobRequest, RespondRequest,
        SelectBranchRequest, SendAccepted, SendRequest, TranscriptPage, TranscriptRequest,
        WithdrawRequest, agents_server::Agents,
    },
    log::v1::{Actor, AgentCreated, Image, ModelRoles, actor},
};
use futures::Stream;
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

use self::told::to_wire;
use super::status;
use crate::{blobs::Blobs, identity::IdentityFile, journal::Journal, turn};

/// Where the edge says which user asks. It is believed because the credential is.
const USER: &str = "x-cocoonbox-user";
const USER_ID_BYTES_MAX: usize = 64;
/// Of a nonce; it is only hashed.
const NONCE_BYTES_MAX: usize = 256;

pub(crate) struct AgentsService {
    pub(crate) agents: turn::Agents,
    pub(crate) journal: Journal,
    pub(crate) blobs: Blobs,
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

    fn models(&self) -> Result<ModelRoles, Status> {
        self.identity.current().roles().cloned().ok_or_else(|| {
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
        let created = AgentCreated {
            agent_id: turn::MAIN.to_owned(),
            name: turn::MAIN.to_owned(),
            models: Some(self.models()?),
            models_of_box: true,
            ..AgentCreated::default()
        };
        let made = self.agents.create(created, actor.clone()).await;
        made.map(drop).map_err(|error| status::agent_error(&error))
    }

    /// Gives an agent the box's models, if it has none of its own and these have changed since.
    async fn follow_box(&self, agent_id: &str) -> Result<(), Status> {
        let identity = self.identity.current();
        let Some(models) = identity.roles() else {
            return Ok(());
        };
        let state = self.agents.get(agent_id).await;
        let state = state.map_err(|error| status::agent_error(&error))?;
        if state.life != Life::Open || !state.models_of_box || state.models == *models {
            return Ok(());
        }
        let models = models.clone();
        let actor = self.journal.own_actor();
        self.tell(agent_id, Command::FollowBox { models }, actor)
            .await
            .map(drop)
    }

    /// Executes a command and returns the key behind it.
    async fn tell(
        &self,
        agent_id: &str,
        command: Command,
        actor: Actor,
    ) -> Result<cocoonbox_events::OffsetKey, Status> {
        let told = self.agents.tell(agent_id, command, actor, None).await;
        told.map_err(|error| status::agent_error(&error))
    }

    /// Executes a command that brings a prompt, once for its id and what was asked.
    async fn accept(
        &self,
        agent_id: String,
        prompt_id: String,
        command: Command,
        actor: Actor,
        once: Option<(CommandId, Vec<u8>)>,
    ) -> Result<Response<SendAccepted>, Status> {
        let told = self.agents.tell(&agent_id, command, actor, once).await;
        let key = told.map_err(|error| status::agent_error(&error))?;
        Ok(Response::new(SendAccepted {
            agent_id,
            prompt_id,
            offset_key: key.to_string(),
        }))
    }

    async fn shown(&self, agent_id: &str) -> Result<Agent, Status> {
        let all = self.agents.family(agent_id).await;
        let all = all.map_err(|error| status::agent_error(&error))?;
        let mut agents = to_wire(all);
        agents.retain(|agent| agent.id == agent_id);
        agents.pop().ok_or_else(status::no_such_agent)
    }

    /// Stores the pictures of a prompt.
    async fn images(&self, images: &[NewImage]) -> Result<Vec<Image>, Status> {
        if images.len() > IMAGES_MAX {
            let problem = format!("at most {IMAGES_MAX} pictures fit a prompt");
            return Err(status::bad_field("images", problem));
        }
        let mut stored = Vec::with_capacity(images.len());
        for image in images {
            let kept = self.blobs.store_picture(&image.data).await;
            let kept = kept.map_err(|error| status::blob_error(&error))?;
            if !image.media_type.is_empty() && image.media_type != kept.media_type {
                let problem = format!("the bytes are {}", kept.media_type);
                return Err(status::bad_field("images.media_type", problem));
            }
            stored.push(kept);
        }
        Ok(stored)
    }
}

#[async_trait]
impl Agents for AgentsService {
    type ReadBlobStream = Pin<Box<dyn Stream<Item = Result<BlobPart, Status>> + Send>>;

    async fn create(
        &self,
        request: Request<CreateAgentRequest>,
    ) -> Result<Response<Agent>, Status> {
        let actor = self.actor(request.metadata());
        let request = request.into_inner();
        let agent_id = self.id(&request.client_nonce, "agent")?;
        let asked = request
            .model
            .clone()
            .filter(|model| !model.model.is_empty());
        let (models, models_of_box) = match (request.models.clone(), asked) {
            (Some(models), _) => (models, false),
            (None, Some(main)) => {
                let others = self.identity.current().roles().cloned();
                let main = Some(main);
                let models = ModelRoles {
                    main,
                    ..others.unwrap_or_default()
                };
                (models, false)
            }
            (None, None) => (self.models()?, true),
        };
        let created = AgentCreated {
            agent_id: agent_id.clone(),
            approval: request.approval,
            name: request.name,
            steps_max: request.steps_max,
            models: Some(models),
            models_of_box,
            rules: request.rules,
            ..AgentCreated::default()
        };
        let made = self.agents.create(created, actor).await;
        let made = made.map_err(|error| status::agent_error(&error))?;
        let agent = to_wire(vec![made]).pop();
        agent.map(Response::new).ok_or_else(status::no_such_agent)
    }

    async fn list(
        &self,
        _: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        let all = self.agents.list().await;
        let all = all.map_err(|error| status::agent_error(&error))?;
        let agents = to_wire(all);
        Ok(Response::new(ListAgentsResponse { agents }))
    }

    async fn send(&self, request: Request<SendRequest>) -> Result<Response<SendAccepted>, Status> {
        let actor = self.actor(request.metadata());
        let SendRequest {
            agent_id,
            prompt,
            client_nonce,
            steer,
            images,
        } = request.into_inner();
        let agent_id = or_main(agent_id);
        if agent_id == turn::MAIN {
            self.make_main(&actor).await?;
        }
        self.follow_box(&agent_id).await?;
        let prompt_id = self.id(&client_nonce, &format!("prompt {agent_id}"))?;
        let id = CommandId::derive(prompt_id.as_bytes(), "prompt");
        let images = self.images(&images).await?;
        let mut asked = prompt.clone().into_bytes();
        for image in &images {
            asked.extend_from_slice(image.blob.as_bytes());
        }
        let command = Command::Prompt {
            prompt_id: prompt_id.clone(),
            text: prompt,
            steer,
            images,
        };
        let once = Some((id, asked));
        self.accept(agent_id, prompt_id, command, actor, once).await
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
        self.answer(request.into_inner(), actor).await?;
        Ok(Response::new(()))
    }

    async fn cancel(&self, request: Request<AgentRef>) -> Result<Response<()>, Status> {
        let actor = self.actor(request.metadata());
        let agent_id = or_main(request.into_inner().agent_id);
        let cancelled = self.agents.cancel(&agent_id, actor).await;
        cancelled.map_err(|error| status::agent_error(&error))?;
        Ok(Response::new(()))
    }

    async fn withdraw(&self, request: Request<WithdrawRequest>) -> Result<Response<()>, Status> {
        let actor = self.actor(request.metadata());
        let WithdrawRequest {
            agent_id,
            prompt_id,
        } = request.into_inner();
        let command = Command::Withdraw { prompt_id };
        self.tell(&or_main(agent_id), command, actor).await?;
        Ok(Response::new(()))
    }

    async fn branch(
        &self,
        request: Request<BranchRequest>,
    ) -> Result<Response<SendAccepted>, Status> {
        let actor = self.actor(request.metadata());
        let BranchRequest {
            agent_id,
            prompt_id: before_prompt_id,
            prompt,
            client_nonce,
        } = request.into_inner();
        let agent_id = or_main(agent_id);
        self.follow_box(&agent_id).await?;
        let branch_id = self.id(&client_nonce, &format!("branch {agent_id}"))?;
        let prompt_id = CommandId::derive(branch_id.as_bytes(), "prompt").to_string();
        let id = CommandId::derive(branch_id.as_bytes(), "branch");
        let asked = format!("{before_prompt_id}\n{prompt}").into_bytes();
        let command = Command::Branch {
            branch_id,
            before_prompt_id,
            prompt_id: prompt_id.clone(),
            text: prompt,
        };
        let once = Some((id, asked));
        self.accept(agent_id, prompt_id, command, actor, once).await
    }

    async fn select_branch(
        &self,
        request: Request<SelectBranchRequest>,
    ) -> Result<Response<()>, Status> {
        let actor = self.actor(request.metadata());
        let SelectBranchRequest {
            agent_id,
            branch_id,
        } = request.into_inner();
        let command = Command::SelectBranch { branch_id };
        self.tell(&or_main(agent_id), command, actor).await?;
        Ok(Response::new(()))
    }

    async fn configure(
        &self,
        request: Request<ConfigureRequest>,
    ) -> Result<Response<Agent>, Status> {
        let actor = self.actor(request.metadata());
        let ConfigureRequest {
            agent_id,
            models,
            rules,
            models_of_box,
        } = request.into_inner();
        let agent_id = or_main(agent_id);
        if agent_id == turn::MAIN {
            self.make_main(&actor).await?;
        }
        let command = if models_of_box {
            let models = self.models()?;
            Some(Command::FollowBox { models })
        } else {
            models.map(|models| Command::SetModels { models })
        };
        if let Some(command) = command {
            self.tell(&agent_id, command, actor.clone()).await?;
        }
        if let Some(rules) = rules {
            self.tell(&agent_id, Command::SetRules { rules }, actor)
                .await?;
        }
        Ok(Response::new(self.shown(&agent_id).await?))
    }

    async fn read_blob(
        &self,
        request: Request<ReadBlobRequest>,
    ) -> Result<Response<Self::ReadBlobStream>, Status> {
        let parts = blob::read(self.blobs.clone(), request.into_inner()).await?;
        Ok(Response::new(Box::pin(parts)))
    }
}

fn or_main(agent_id: String) -> String {
    if agent_id.is_empty() {
        turn::MAIN.to_owned()
    } else {
        agent_id
    }
}
