//! From what a person calls a box or an agent to its id.

use cocoonbox_proto::{
    agent::v1::{Agent, ListAgentsRequest},
    control::v1::{self as control, ListBoxesRequest, State},
};

use crate::{
    boxes,
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
};

/// What an agent is called when nobody says otherwise; the box makes it when absent.
const DEFAULT_AGENT: &str = "main";

/// Finds a box by id or name.
pub async fn find(client: &Client, name: &str) -> Result<control::Box, Failure> {
    let list = repeat(|| {
        let mut boxes = client.boxes();
        async move { boxes.list(request(ListBoxesRequest::default())).await }
    })
    .await?;
    pick(list.boxes, name).ok_or_else(|| {
        let advice = if name == "main" {
            "ensure".to_owned()
        } else {
            format!("ensure {name}")
        };
        let mut failure = Failure::new(Exit::NotFound, format!("there is no box `{name}`")).advise(
            format!("`cocoonbox {advice}` makes it, `cocoonbox boxes` lists those there are"),
        );
        failure.reason = Some("NO_SUCH_BOX".to_owned());
        failure
    })
}

/// Finds a box and wakes it if it sleeps.
pub async fn awake(
    ctx: &mut Context,
    client: &Client,
    name: &str,
) -> Result<control::Box, Failure> {
    let found = find(client, name).await?;
    match found.state() {
        State::Hibernated | State::Hibernating | State::Starting => {
            boxes::bring_up(ctx, client, &found.name).await
        }
        State::Absent | State::Running | State::Failed | State::Deleting => Ok(found),
    }
}

/// Finds an agent's id by id or name. The default agent is named by an empty id, so that the box
/// makes it when there is none.
pub async fn agent_id(client: &Client, box_id: &str, name: &str) -> Result<String, Failure> {
    let agents = agents(client, box_id).await?;
    let by_id = agents.iter().find(|agent| agent.id == name);
    let found = by_id.or_else(|| agents.iter().find(|agent| agent.name == name));
    match found {
        Some(agent) => Ok(agent.id.clone()),
        None if name == DEFAULT_AGENT => Ok(String::new()),
        None => Err(Failure::new(
            Exit::NotFound,
            format!("there is no agent `{name}` in this box"),
        )
        .advise("`cocoonbox agent list` lists them, `cocoonbox agent create NAME` makes one")),
    }
}

pub async fn agents(client: &Client, box_id: &str) -> Result<Vec<Agent>, Failure> {
    let agents = client.agents(box_id)?;
    let answer = repeat(|| {
        let mut agents = agents.clone();
        async move { agents.list(request(ListAgentsRequest {})).await }
    })
    .await?;
    Ok(answer.agents)
}

/// An id beats a name, a box that is there beats one that is gone.
fn pick(boxes: Vec<control::Box>, name: &str) -> Option<control::Box> {
    let mut found: Vec<control::Box> = boxes
        .into_iter()
        .filter(|found| found.id == name || found.name == name)
        .collect();
    found.sort_by_key(|found| {
        let gone = matches!(found.state(), State::Absent | State::Deleting);
        (found.id != name, gone)
    });
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_beats_a_name_and_the_living_beat_the_gone() {
        let named = |id: &str, name: &str, state: State| control::Box {
            id: id.into(),
            name: name.into(),
            state: state.into(),
            ..control::Box::default()
        };
        let boxes = vec![
            named("b1", "main", State::Deleting),
            named("b2", "main", State::Running),
            named("b3", "b1", State::Running),
        ];
        let picked = |name: &str| pick(boxes.clone(), name).map(|found| found.id);
        assert_eq!(picked("main").as_deref(), Some("b2"));
        assert_eq!(picked("b1").as_deref(), Some("b1"));
        assert_eq!(picked("none"), None);
    }
}
