//! What an agent is, does, asks and plans.

use cocoonbox_proto::agent::v1::Agent;

use super::configure::{risk_word, verdict_word};
use crate::{
    cli::talk::OneAgent, context::Context, exit::Exit, failure::Failure, models, text, turn,
};

pub(super) async fn show(ctx: &mut Context, args: OneAgent) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let (_, agent) = super::one(&client, &args).await?;
    let mut lines = vec![format!("{} ({}): {}", agent.name, agent.id, agent.state)];
    lines.extend(setup(&agent));
    lines.extend(asks(&agent));
    lines.extend(plans(&agent));
    ctx.out
        .answer(&super::list::to_json(&agent), lines.join("\n"))?;
    Ok(Exit::Ok)
}

/// Its models and rules.
pub(super) fn setup(agent: &Agent) -> Vec<String> {
    let mut roles = agent.models.clone().unwrap_or_default();
    roles.main = roles.main.or_else(|| agent.model.clone());
    let whose = if agent.models_of_box {
        " (the box's)"
    } else {
        ""
    };
    let mut lines = models::lines(&roles, |_| whose);
    if let Some(rules) = &agent.rules {
        let words: Vec<String> = rules
            .rules
            .iter()
            .map(|rule| {
                format!(
                    "{}={}",
                    risk_word(rule.risk()),
                    verdict_word(rule.verdict())
                )
            })
            .collect();
        let ttl = match rules.ttl_s {
            0 => "1 h".to_owned(),
            seconds => format!("{seconds} s"),
        };
        lines.push(format!(
            "rules: {} (an approval waits {ttl})",
            if words.is_empty() {
                "ask before everything but reading".to_owned()
            } else {
                words.join(" ")
            }
        ));
    }
    lines
}

fn asks(agent: &Agent) -> Vec<String> {
    let mut lines = Vec::new();
    for asked in &agent.approvals {
        let until = match asked.expires_at_ms {
            0 => String::new(),
            at_ms => format!(", until {}", text::moment(at_ms)),
        };
        lines.push(format!(
            "approval {}: {} ({}{until})",
            asked.approval_id,
            turn::call_line(&asked.tool_name, &asked.args_json),
            risk_word(asked.risk()),
        ));
    }
    for asked in &agent.questions {
        lines.push(format!(
            "question {}: {}",
            asked.question_id, asked.question
        ));
        lines.extend(asked.choices.iter().map(|choice| format!("  - {choice}")));
    }
    lines
}

fn plans(agent: &Agent) -> Vec<String> {
    let mut lines: Vec<String> = agent.todo.iter().map(turn::todo_line).collect();
    let queued = agent.queued_prompt_ids.iter();
    lines.extend(queued.map(|id| format!("prompt {id} waits")));
    if agent.branch_ids.len() > 1 {
        lines.push(format!(
            "{} branches; `cocoonbox agent branches` lists them",
            agent.branch_ids.len()
        ));
    }
    lines
}
