//! `task`: a subagent with its own conversation and its own budget.
//!
//! Its id follows from the call, so that a call which is made again after a crash goes on with the
//! subagent that it has. It is the call's: it is cancelled with it, and asks what the agent would have to
//! ask itself.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use cocoonbox_commands::agent::{Command, Entry, State, tools::TASK};
use cocoonbox_events::CommandId;
use cocoonbox_proto::log::v1::{
    Actor, AgentCreated, AgentTurnEnded, ApprovalRules, Effect, ModelRole, Risk, RiskRule, actor,
    agent_tool_finished::Outcome, agent_turn_ended, block,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    Asker, Context, Finished, Tool,
    args::typed,
    schema::{number, object, text},
};
use crate::{
    prefix::prefix,
    turn::{Agents, Fault},
    wire::ToolSpec,
};

/// Subagents of the box that work at one time; others wait. Each has a model call of its own out.
const CHILDREN_MAX: usize = 8;
/// Model calls of a subagent in its turn.
const STEPS_MAX: u32 = 60;
/// Tokens of a subagent where nobody says otherwise, and at most.
const TOKENS_DEFAULT: u64 = 2_000_000;
const TOKENS_MAX: u64 = 20_000_000;
const TOKENS_MIN: u64 = 10_000;
/// Longest name of one.
const NAME_BYTES_MAX: usize = 60;

/// `task`.
pub(crate) struct TaskTool {
    /// Set once, when the agents are there: they hold the tools.
    agents: Arc<OnceLock<Agents>>,
    room: Semaphore,
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    description: String,
    prompt: String,
    #[serde(default)]
    role: Role,
    tokens_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    #[default]
    Main,
    Computer,
}

impl TaskTool {
    pub(crate) fn new(agents: Arc<OnceLock<Agents>>) -> Self {
        let spec = ToolSpec {
            name: TASK.into(),
            description: "Gives a task to a helper: another agent in this box with its own \
                conversation, which works until it is done and gives back its last reply. It knows \
                nothing of your conversation. Calls beside each other in one reply run at one time, at \
                most 8. Helpers share the files with you: do not let two change the same ones."
                .into(),
            parameters: object(
                json!({
                    "description": text("What it is about, in a few words, for the owner."),
                    "prompt": text("The task: all that the helper needs to know, what to do, and \
                        what to answer."),
                    "role": {
                        "type": "string",
                        "enum": ["main", "computer"],
                        "description": "`computer` for work in programs with windows: it alone sees the screen and \
                            clicks and types there. Say what is to be done, not where to click. Default `main`.",
                    },
                    "tokens_max": number("Tokens that it may use in all. Default 2000000.",
                        TOKENS_MIN, TOKENS_MAX),
                }),
                &["description", "prompt"],
            ),
        };
        Self {
            agents,
            room: Semaphore::new(CHILDREN_MAX),
            spec,
        }
    }

    /// Makes the subagent, unless it is there, and gives it its prompt.
    async fn start(
        &self,
        agents: &Agents,
        context: &Context<'_>,
        task: &Task,
    ) -> Result<(), Fault> {
        let parent = agents.get(context.agent_id).await?;
        let child_id = child_id(context);
        let name = prefix(task.description.trim(), NAME_BYTES_MAX).trim();
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let created = AgentCreated {
            agent_id: child_id.clone(),
            name: if name.is_empty() {
                TASK.to_owned()
            } else {
                name
            },
            steps_max: STEPS_MAX,
            models: Some(parent.models.clone()),
            rules: Some(rules_of(&parent)),
            parent_agent_id: context.agent_id.to_owned(),
            parent_tool_call_id: context.call.tool_call_id.clone(),
            role: match task.role {
                Role::Main => ModelRole::Main,
                Role::Computer => ModelRole::Computer,
            }
            .into(),
            tokens_max: task.tokens_max.map_or(TOKENS_DEFAULT, |tokens| {
                tokens.clamp(TOKENS_MIN, TOKENS_MAX)
            }),
            ..AgentCreated::default()
        };
        agents.create(created, actor(context)).await?;
        let prompt_id = format!("{child_id}-1");
        let command = Command::Prompt {
            prompt_id: prompt_id.clone(),
            text: task.prompt.clone(),
            steer: false,
            images: Vec::new(),
        };
        let id = CommandId::derive(prompt_id.as_bytes(), "prompt");
        let asked = task.prompt.clone().into_bytes();
        agents
            .tell(&child_id, command, actor(context), Some((id, asked)))
            .await?;
        Ok(())
    }

    async fn carry_out(
        &self,
        agents: &Agents,
        context: &Context<'_>,
        task: &Task,
        cancel: &CancellationToken,
    ) -> Result<Finished, Fault> {
        let child_id = child_id(context);
        let work = async {
            // The semaphore is never closed.
            let _room = self.room.acquire().await;
            self.start(agents, context, task).await?;
            let rested = agents.rested(&child_id).await?;
            let ended = agents.ending(&child_id).await?;
            Ok(told(&rested, ended))
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            finished = work => return finished,
        }
        // It may be one that an earlier process started.
        if agents.exists(&child_id) {
            let command = Command::Cancel {
                turn_id: agents.draw(),
            };
            agents
                .tell(&child_id, command, actor(context), None)
                .await?;
            agents.rested(&child_id).await?;
        }
        Ok(Finished::cancelled())
    }
}

fn actor(context: &Context<'_>) -> Actor {
    Actor {
        kind: actor::Kind::Agent.into(),
        id: context.agent_id.to_owned(),
    }
}

#[async_trait]
impl Tool for TaskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_for(&self, asker: Asker) -> bool {
        !asker.is_child
    }

    fn stops(&self) -> bool {
        true
    }

    async fn run(
        &self,
        context: &Context<'_>,
        args: Value,
        cancel: &CancellationToken,
    ) -> Option<Finished> {
        let task: Task = match typed(args) {
            Ok(task) => task,
            Err(finished) => return Some(finished),
        };
        if task.prompt.trim().is_empty() {
            return Some(Finished::error("nothing was run: `prompt` is empty"));
        }
        let agents = self.agents.get()?;
        match self.carry_out(agents, context, &task, cancel).await {
            Ok(finished) => Some(finished),
            Err(fault) if fault.is_ending() => None,
            Err(fault) => Some(Finished::error(format!(
                "the helper did not start: {fault}"
            ))),
        }
    }
}

/// The same call is the same subagent, in whatever process it is made.
fn child_id(context: &Context<'_>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(context.agent_id.as_bytes());
    hasher.update(&[0]);
    hasher.update(context.call.tool_call_id.as_bytes());
    let hash = hex::encode(&hasher.finalize().as_bytes()[..8]);
    format!("{}.{hash}", context.agent_id)
}

/// What the agent is told of a subagent that has come to rest.
fn told(child: &State, ended: Option<AgentTurnEnded>) -> Finished {
    use agent_turn_ended::Outcome as Ended;
    let said = last_words(child);
    let said = if said.is_empty() {
        "[it said nothing]".to_owned()
    } else {
        said
    };
    let Some(ended) = ended else {
        return Finished::error("the helper did not begin");
    };
    let why = match ended.outcome() {
        Ended::Done => return Finished::ok(said),
        Ended::Cancelled => return Finished::new(Outcome::Cancelled, "the helper was cancelled"),
        Ended::Failed | Ended::Unspecified => "its model failed",
        Ended::Refused => "its model refused",
        Ended::StepLimit => "it reached its limit of model calls",
        Ended::TokenLimit => "its tokens are used up",
        Ended::OutputLimit => "its reply was cut at the output limit",
        Ended::Loop => "it went in circles",
    };
    let detail = match ended.detail.as_str() {
        "" => String::new(),
        detail => format!(" ({detail})"),
    };
    Finished::error(format!(
        "the helper did not finish: {why}{detail}. It said last:\n{said}"
    ))
}

/// The rules of an agent, spelled out: its subagent must not be asked less.
fn rules_of(parent: &State) -> ApprovalRules {
    let risks = [
        Risk::Read,
        Risk::WriteWorkspace,
        Risk::WriteOutside,
        Risk::NetworkWrite,
        Risk::Destructive,
        Risk::Money,
    ];
    let rule = |risk: Risk| {
        let effect = match risk {
            Risk::Read => Effect::ReadOnly,
            _ => Effect::SideEffect,
        };
        RiskRule {
            risk: risk.into(),
            verdict: parent.rules.verdict(risk, effect).into(),
        }
    };
    ApprovalRules {
        rules: risks.into_iter().map(rule).collect(),
        ttl_s: u32::try_from(parent.rules.ttl_us() / 1_000_000).unwrap_or(u32::MAX),
    }
}

fn last_words(child: &State) -> String {
    let conversation = child.conversation();
    let blocks = conversation.iter().rev().find_map(|entry| match &**entry {
        Entry::Assistant { blocks } => Some(blocks),
        Entry::User { .. } | Entry::ToolResults(_) => None,
    });
    let texts = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| match &block.block {
            Some(block::Block::Text(text)) => Some(text.text.as_str()),
            _ => None,
        });
    texts.collect::<Vec<_>>().join("\n").trim().to_owned()
}
