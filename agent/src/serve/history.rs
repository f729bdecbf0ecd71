//! What an earlier process left: execs that nobody watches any more, and turns to go on with.

use std::collections::BTreeSet;

use cocoonbox_events::{Kind, ReadError, limits::PAGE_EVENTS_MAX};

use crate::{
    erase,
    exec::{Execs, StartError},
    journal::Journal,
    turn::Agents,
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading the log")]
    Read(#[source] ReadError),
    #[error("finishing an erasure")]
    Erasure(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("ending exec `{exec_id}`")]
    Exec {
        exec_id: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Ends the execs and takes up the agents, in this order: an agent whose tool was interrupted finds
/// its exec ended. With `ends_turns`, turns that were under way are ended and not gone on with: whoever makes
/// a box out of a moment of another wants to say what happens next.
pub(crate) async fn take_up(
    journal: &Journal,
    execs: &Execs,
    agents: &Agents,
    ends_turns: bool,
) -> Result<(), Error> {
    let finished = erase::finish(journal).await;
    finished.map_err(|error| Error::Erasure(error.into()))?;
    let mut running = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = journal
            .store()
            .read(journal.log(), after, PAGE_EVENTS_MAX)
            .await;
        let page = page.map_err(Error::Read)?;
        let Some(last) = page.events.last() else {
            break;
        };
        after = last.pos;
        for event in &page.events {
            let id = event.stream.id().to_owned();
            match Kind::from_number(event.kind) {
                Some(Kind::ExecStarted) => drop(running.insert(id)),
                Some(Kind::ExecExited) => drop(running.remove(&id)),
                Some(Kind::AgentCreated) => drop(known.insert(id)),
                _ => {}
            }
        }
    }
    for exec_id in running {
        let buried = execs.bury(&exec_id).await;
        buried.map_err(|source: StartError| Error::Exec {
            exec_id,
            source: source.into(),
        })?;
    }
    let mut busy = Vec::new();
    for agent_id in known {
        let resumed = if ends_turns {
            agents.resume_at_rest(&agent_id).await
        } else {
            agents.resume(&agent_id).await
        };
        match resumed {
            Ok(true) => busy.push(agent_id),
            Ok(false) => {}
            // One agent that cannot be read must not take the box with it.
            Err(error) => tracing::error!(%error, agent = agent_id, "agent not taken up"),
        }
    }
    for agent_id in busy {
        agents.wake(&agent_id);
    }
    Ok(())
}
