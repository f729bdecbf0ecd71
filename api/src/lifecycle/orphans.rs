//! Machines that no log knows of or wants: what an api that was killed between an effect and its event leaves
//! behind. Removing one removes somebody's files, so whatever is in doubt stays.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use cocoonbox_commands::boxes::{self, Phase};
use cocoonbox_events::{Fold, LogKind, ReadError, Store, limits};
use cocoonbox_machines::{Machine, MachineState};
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::lease;

/// Until every log that another process had made when the machines were listed is known here: three looks of a
/// store without doorbells.
const SETTLE: Duration = Duration::from_secs(4);

/// What becomes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Stopped,
    Removed,
}

/// Looks once through all machines.
pub(super) async fn remove(context: &Context, stop: &CancellationToken) {
    let machines = match context.machines.list().await {
        Ok(machines) => machines,
        Err(error) => {
            tracing::error!(%error, "machines cannot be listed");
            return;
        }
    };
    if machines.is_empty() {
        return;
    }
    if context.owners.are_shared() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SETTLE) => {}
        }
    }
    // What cannot be read is not an orphan: its disks are somebody's.
    let phases = match fold_all(&*context.store).await {
        Ok(phases) => phases,
        Err(error) => {
            tracing::error!(%error, "account logs cannot be read; orphans stay");
            return;
        }
    };
    for machine in machines {
        let phase = phases.get(machine.box_id.as_str());
        if fate(phase, &machine) != Fate::Stays {
            end(context, &machine).await;
        }
    }
}

fn fate(phase: Option<&Option<Phase>>, machine: &Machine) -> Fate {
    match phase {
        None | Some(Some(Phase::Absent | Phase::Deleted)) => Fate::Removed,
        Some(Some(Phase::Hibernated | Phase::Failed { .. }))
            if machine.state == MachineState::Running =>
        {
            Fate::Stopped
        }
        Some(_) => Fate::Stays,
    }
}

/// Ends one, if still nobody wants it once nobody else can drive it.
async fn end(context: &Context, machine: &Machine) {
    let id = &machine.box_id;
    let taken = context.owners.take(&lease::name_of(id.as_str())).await;
    // Else somebody drives it, so it is wanted; or it cannot be told.
    let Ok(Some(tenure)) = taken else { return };
    let outcome = async {
        if context.owners.are_shared() {
            context.machines.claim(id, tenure.fence()).await?;
        }
        let phases = fold_all(&*context.store).await;
        let now = context.machines.get(id).await?;
        let now = now.unwrap_or_else(|| machine.clone());
        let Ok(phases) = phases else {
            return Ok(Fate::Stays);
        };
        let fate = fate(phases.get(id.as_str()), &now);
        match fate {
            Fate::Stays => {}
            Fate::Stopped => context.machines.hibernate(id).await?,
            Fate::Removed => context.machines.delete(id).await?,
        }
        Ok::<_, cocoonbox_machines::Error>(fate)
    };
    match outcome.await {
        Ok(Fate::Stays) => {}
        Ok(_) => tracing::info!(box_id = %id, "orphaned machine removed"),
        Err(error) => tracing::error!(box_id = %id, %error, "orphaned machine stays"),
    }
    tenure.release().await;
}

/// Returns the phase of every box that any account log names; `None` where it cannot be told.
async fn fold_all(store: &dyn Store) -> Result<HashMap<String, Option<Phase>>, ReadError> {
    let mut found = HashMap::new();
    for log in store
        .logs()
        .into_iter()
        .filter(|log| log.kind == LogKind::Account && log.moved_to.is_none())
    {
        let mut after = 0;
        let mut streams = HashSet::new();
        loop {
            let page = store.read(log.id, after, limits::PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            let boxes = page.events.into_iter().map(|event| event.stream);
            streams.extend(boxes.filter(|stream| stream.as_str().starts_with("box/")));
        }
        for stream in streams {
            let id = stream.id().to_owned();
            let mut fold = Fold::<boxes::State>::new(log.id, stream);
            let phase = match fold.refresh(store).await {
                Ok(()) => Some(fold.state.phase),
                Err(error) => {
                    tracing::error!(box_id = id, %error, "box cannot be folded");
                    None
                }
            };
            // Named by two logs: nobody's orphan.
            let twice = found.insert(id.clone(), phase).is_some();
            if twice {
                found.insert(id, None);
            }
        }
    }
    Ok(found)
}
