//! Agents: listing, making, answering and cancelling.

use cocoonbox_proto::{
    agent::v1::{Agent, AgentRef, CreateAgentRequest, RespondRequest},
    json,
    log::v1::{self as log, ApprovalPolicy, ModelChoice},
};
use serde_json::{Value, json};

use crate::{
    cli::talk::{Agents, AgentsCommand, OneAgent, Respond, Wire},
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target, text,
};

pub async fn agents(ctx: &mut Context, args: Agents) -> Result<Exit, Failure> {
    let (name, create) = match args.command {
        None => (args.target.box_name, None),
        Some(AgentsCommand::List(target)) => (target.box_name, None),
        Some(AgentsCommand::Create {
            target,
            name,
            model,
            wire,
            output_tokens_max,
            ask,
            steps_max,
        }) => {
            let model = model.map(|model| ModelChoice {
                wire: wire.map_or(log::Wire::Unspecified, proto_wire).into(),
                model,
                output_tokens_max,
            });
            let approval = if ask {
                ApprovalPolicy::AskBeforeEffects
            } else {
                ApprovalPolicy::ApproveAll
            };
            let create = CreateAgentRequest {
                name,
                model,
                approval: approval.into(),
                client_nonce: uuid::Uuid::new_v4().to_string(),
                steps_max,
            };
            (target.box_name, Some(create))
        }
    };
    match create {
        Some(create) => make(ctx, &name, create).await,
        None => list(ctx, &name).await,
    }
}

async fn list(ctx: &mut Context, box_name: &str) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, box_name).await?;
    let agents = target::agents(&client, &found.id).await?;
    if ctx.out.json {
        let agents: Vec<Value> = agents.iter().map(to_json).collect();
        ctx.out.value(&json!({"agents": agents}))?;
    } else if agents.is_empty() {
        ctx.out
            .note("no agents yet; the first `cocoonbox send` makes `main`");
    } else {
        let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
        ctx.out
            .line(text::table(&["NAME", "STATE", "ID", "MODEL"], &rows))?;
    }
    Ok(Exit::Ok)
}

async fn make(
    ctx: &mut Context,
    box_name: &str,
    create: CreateAgentRequest,
) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, box_name).await?;
    let agents = client.agents(&found.id)?;
    let agent = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(create.clone()));
        async move { agents.create(call).await }
    })
    .await?;
    ctx.out.answer(&to_json(&agent), &agent.id)?;
    Ok(Exit::Ok)
}

pub async fn respond(ctx: &mut Context, args: Respond) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.to.target.box_name).await?;
    let agent_id = target::agent_id(&client, &found.id, &args.to.agent).await?;
    let approval_id = args.approval.clone();
    let call = RespondRequest {
        agent_id,
        approval_id,
        allow: args.allow,
        comment: args.comment,
    };
    client.agents(&found.id)?.respond(request(call)).await?;
    let word = if args.allow { "allowed" } else { "denied" };
    let value = json!({"approval_id": args.approval, "allowed": args.allow});
    ctx.out
        .answer(&value, format!("{word} {}", args.approval))?;
    Ok(Exit::Ok)
}

pub async fn cancel(ctx: &mut Context, args: OneAgent) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.box_name).await?;
    let agent_id = target::agent_id(&client, &found.id, &args.agent).await?;
    let agents = client.agents(&found.id)?;
    repeat(|| {
        let mut agents = agents.clone();
        let call = request(AgentRef {
            agent_id: agent_id.clone(),
        });
        async move { agents.cancel(call).await }
    })
    .await?;
    ctx.out.answer(
        &json!({"cancelled": true}),
        format!("{} was asked to stop", args.agent),
    )?;
    Ok(Exit::Ok)
}

fn row(agent: &Agent) -> Vec<String> {
    let model = agent.model.clone().unwrap_or_default().model;
    vec![
        agent.name.clone(),
        agent.state.clone(),
        agent.id.clone(),
        model,
    ]
}

fn to_json(agent: &Agent) -> Value {
    json::render_message("cocoonbox.agent.v1.Agent", agent).unwrap_or_default()
}

fn proto_wire(wire: Wire) -> log::Wire {
    match wire {
        Wire::Anthropic => log::Wire::AnthropicMessages,
        Wire::Openai => log::Wire::OpenaiChat,
    }
}
