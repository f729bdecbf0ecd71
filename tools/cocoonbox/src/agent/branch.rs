//! Going back in a conversation.

use cocoonbox_proto::agent::v1::{BranchRequest, SelectBranchRequest};
use serde_json::json;

use crate::{
    cli::agent::{Branch, Branches},
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    send, target, text,
};

/// What people call the branch with the empty id.
const FIRST: &str = "first";

pub(super) async fn branch(ctx: &mut Context, args: Branch) -> Result<Exit, Failure> {
    let prompt = send::read_prompt(&args.prompt)?;
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.to.target.box_name).await?;
    let (_, agent) = super::one(&client, &args.to).await?;
    let call = BranchRequest {
        agent_id: agent.id,
        prompt_id: args.at,
        prompt,
        client_nonce: uuid::Uuid::new_v4().to_string(),
    };
    let agents = client.agents(&found.id)?;
    let accepted = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(call.clone()));
        async move { agents.branch(call).await }
    })
    .await?;
    let watched = send::Watched {
        box_id: found.id,
        box_name: found.name,
        verbose: false,
        no_follow: args.no_follow,
    };
    send::watch(ctx, &client, watched, &accepted).await
}

pub(super) async fn branches(ctx: &mut Context, args: Branches) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    if let Some(name) = args.select {
        let found = target::awake(ctx, &client, &args.to.target.box_name).await?;
        let (_, agent) = super::one(&client, &args.to).await?;
        let branch_id = if name == FIRST { String::new() } else { name };
        let call = SelectBranchRequest {
            agent_id: agent.id,
            branch_id: branch_id.clone(),
        };
        let agents = client.agents(&found.id)?;
        repeat(|| {
            let (mut agents, call) = (agents.clone(), request(call.clone()));
            async move { agents.select_branch(call).await }
        })
        .await?;
        let line = format!("goes on in branch {}", shown(&branch_id));
        ctx.out.answer(&json!({"branch_id": branch_id}), line)?;
        return Ok(Exit::Ok);
    }
    let (_, agent) = super::one(&client, &args.to).await?;
    if ctx.out.json {
        let value = json!({"branch_id": agent.branch_id, "branch_ids": agent.branch_ids});
        ctx.out.value(&value)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = agent
        .branch_ids
        .iter()
        .map(|id| {
            let mark = if *id == agent.branch_id { "here" } else { "" };
            vec![shown(id).to_owned(), mark.to_owned()]
        })
        .collect();
    ctx.out.line(text::table(&["BRANCH", ""], &rows))?;
    Ok(Exit::Ok)
}

fn shown(branch_id: &str) -> &str {
    if branch_id.is_empty() {
        FIRST
    } else {
        branch_id
    }
}
