//! The agents of a box.

use cocoonbox_proto::{agent::v1::Agent, json};
use serde_json::{Value, json};

use crate::{context::Context, exit::Exit, failure::Failure, target, text};

pub(super) async fn list(ctx: &mut Context, box_name: &str, all: bool) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, box_name).await?;
    let mut agents = target::agents(&client, &found.id).await?;
    agents.retain(|agent| all || agent.parent_agent_id.is_empty());
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

fn row(agent: &Agent) -> Vec<String> {
    let model = agent.model.clone().unwrap_or_default().model;
    vec![
        agent.name.clone(),
        agent.state.clone(),
        agent.id.clone(),
        model,
    ]
}

pub(super) fn to_json(agent: &Agent) -> Value {
    json::render_message("cocoonbox.agent.v1.Agent", agent).unwrap_or_default()
}
