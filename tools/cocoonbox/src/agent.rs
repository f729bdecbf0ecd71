//! Agents: listing, making, setting up, answering and cancelling.

mod blob;
mod branch;
mod configure;
mod create;
mod list;
mod memory;
mod show;

use cocoonbox_proto::agent::v1::{Agent as Known, AgentRef, RespondRequest, WithdrawRequest};
use serde_json::json;

use crate::{
    cli::{agent::Agent, talk::OneAgent},
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target,
};

pub async fn agent(ctx: &mut Context, command: Agent) -> Result<Exit, Failure> {
    match command {
        Agent::List(args) => list::list(ctx, &args.target.box_name, args.all).await,
        Agent::Show(args) => show::show(ctx, args).await,
        Agent::Create(args) => create::create(ctx, args).await,
        Agent::Configure(args) => configure::configure(ctx, args).await,
        Agent::Branch(args) => branch::branch(ctx, args).await,
        Agent::Branches(args) => branch::branches(ctx, args).await,
        Agent::Withdraw { to, prompt_id } => withdraw(ctx, to, prompt_id).await,
        Agent::Approve {
            to,
            approval_id,
            for_conversation,
            comment,
        } => {
            let answer = RespondRequest {
                approval_id,
                allow: true,
                comment,
                for_conversation,
                ..RespondRequest::default()
            };
            respond(ctx, to, answer).await
        }
        Agent::Deny {
            to,
            approval_id,
            comment,
        } => {
            let answer = RespondRequest {
                approval_id,
                comment,
                ..RespondRequest::default()
            };
            respond(ctx, to, answer).await
        }
        Agent::Answer {
            to,
            question_id,
            answer,
        } => {
            let answer = RespondRequest {
                question_id,
                answer: answer.join(" "),
                ..RespondRequest::default()
            };
            respond(ctx, to, answer).await
        }
        Agent::Memory(args) => memory::memory(ctx, args).await,
        Agent::Blob(args) => blob::blob(ctx, args).await,
    }
}

/// Answers an approval or a question, whichever agent of the box asks it.
async fn respond(ctx: &mut Context, to: OneAgent, answer: RespondRequest) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &to.target.box_name).await?;
    let known = target::agents(&client, &found.id).await?;
    let agent_id = match who_asks(&known, &answer) {
        Some(agent_id) => agent_id,
        None => target::agent_id(&client, &found.id, &to.agent).await?,
    };
    let call = RespondRequest {
        agent_id,
        ..answer.clone()
    };
    client.agents(&found.id)?.respond(request(call)).await?;
    let (value, line) = if answer.question_id.is_empty() {
        let id = &answer.approval_id;
        let word = if answer.allow { "allowed" } else { "denied" };
        let value = json!({"approval_id": id, "allowed": answer.allow});
        (value, format!("{word} {id}"))
    } else {
        let id = &answer.question_id;
        let value = json!({"question_id": id, "answered": true});
        (value, format!("answered {id}"))
    };
    ctx.out.answer(&value, line)?;
    Ok(Exit::Ok)
}

/// Subagents ask, too; their questions are listed with the agent that they work for.
fn who_asks(known: &[Known], answer: &RespondRequest) -> Option<String> {
    known.iter().find_map(|agent| {
        let approvals = agent
            .approvals
            .iter()
            .map(|a| (&a.approval_id, &a.agent_id));
        let questions = agent
            .questions
            .iter()
            .map(|q| (&q.question_id, &q.agent_id));
        let wanted = |(id, _): &(&String, &String)| {
            !id.is_empty() && (**id == answer.approval_id || **id == answer.question_id)
        };
        let (_, agent_id) = approvals.chain(questions).find(wanted)?;
        let is_named = !agent_id.is_empty();
        Some(if is_named { agent_id } else { &agent.id }.clone())
    })
}

async fn withdraw(ctx: &mut Context, to: OneAgent, prompt_id: String) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let (box_id, agent) = one(&client, &to).await?;
    let call = WithdrawRequest {
        agent_id: agent.id,
        prompt_id: prompt_id.clone(),
    };
    let agents = client.agents(&box_id)?;
    repeat(|| {
        let (mut agents, call) = (agents.clone(), request(call.clone()));
        async move { agents.withdraw(call).await }
    })
    .await?;
    let value = json!({"prompt_id": prompt_id, "withdrawn": true});
    ctx.out.answer(&value, format!("took back {prompt_id}"))?;
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

/// Finds the box and the agent in it.
async fn one(client: &Client, to: &OneAgent) -> Result<(String, Known), Failure> {
    let found = target::find(client, &to.target.box_name).await?;
    let known = target::agents(client, &found.id).await?;
    let by_id = known.iter().position(|agent| agent.id == to.agent);
    let at = by_id.or_else(|| known.iter().position(|agent| agent.name == to.agent));
    match at.and_then(|at| known.into_iter().nth(at)) {
        Some(agent) => Ok((found.id, agent)),
        None => Err(Failure::new(
            Exit::NotFound,
            format!("there is no agent `{}` in this box", to.agent),
        )
        .advise("`cocoonbox agent list` lists them; the first `cocoonbox send` makes `main`")),
    }
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::agent::v1::{PendingApproval, PendingQuestion};

    use super::*;

    #[test]
    fn an_answer_goes_to_whoever_asks() {
        let known = [Known {
            id: "main".into(),
            approvals: vec![PendingApproval {
                approval_id: "a1".into(),
                agent_id: "main.7".into(),
                ..PendingApproval::default()
            }],
            questions: vec![PendingQuestion {
                question_id: "q1".into(),
                ..PendingQuestion::default()
            }],
            ..Known::default()
        }];
        let asks = |approval: &str, question: &str| {
            let answer = RespondRequest {
                approval_id: approval.into(),
                question_id: question.into(),
                ..RespondRequest::default()
            };
            who_asks(&known, &answer)
        };
        assert_eq!(asks("a1", "").as_deref(), Some("main.7"));
        assert_eq!(asks("", "q1").as_deref(), Some("main"));
        assert_eq!(asks("a2", ""), None);
    }
}
