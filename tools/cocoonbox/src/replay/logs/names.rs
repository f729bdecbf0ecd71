//! What the system log says of users and the account logs say of boxes.

use std::{collections::BTreeMap, sync::Arc};

use cocoonbox_events::{
    BoxEvent, DirectoryEvent, Kind, LogId, LogKind, Payload, Store, StreamName,
};
use cocoonbox_replay::pages::Pages;

use super::super::failed;
use crate::failure::Failure;

/// The kinds of events that name a log.
const NAMING: [Kind; 3] = [Kind::DirectoryUserAdded, Kind::BoxCreated, Kind::BoxRenamed];

/// Collects the names of logs, the one that is good today first.
pub(super) async fn read(store: &Arc<dyn Store>) -> Result<BTreeMap<LogId, Vec<String>>, Failure> {
    let mut names = Names::default();
    let logs = store.logs();
    for info in logs.iter().filter(|log| log.kind != LogKind::Box) {
        let mut pages = Pages::of_log(store, info.id, 0).map_err(failed("reading the names"))?;
        // A log that is damaged here still has an id, and `verify` says where it is damaged.
        while let Ok(Some(events)) = pages.next().await {
            for event in events {
                let is_naming = NAMING.iter().any(|kind| kind.number() == event.kind);
                if is_naming && let Ok(Some(payload)) = event.payload() {
                    names.take(&event.stream, payload);
                }
            }
        }
    }
    // Parents are named before their branches if they were opened before.
    for info in &logs {
        if let Some(parent) = info.parent
            && !names.logs.contains_key(&info.id)
            && let Some(name) = names.logs.get(&parent.log).and_then(|names| names.first())
        {
            let name = format!("{name}@{}", parent.pos);
            names.logs.insert(info.id, vec![name]);
        }
    }
    Ok(names.logs)
}

#[derive(Default)]
struct Names {
    logs: BTreeMap<LogId, Vec<String>>,
    boxes: BTreeMap<StreamName, LogId>,
}

impl Names {
    fn take(&mut self, stream: &StreamName, payload: Payload) {
        match payload {
            Payload::Directory(DirectoryEvent::UserAdded(user)) => {
                let names = [user.name, user.user_id].map(|name| format!("account:{name}"));
                self.add(&user.account_log, names);
            }
            Payload::Box(BoxEvent::Created(one)) => {
                let names = [one.name, one.box_id].map(|name| format!("box:{name}"));
                self.add(&one.box_log, names);
                if let Some(log) = LogId::from_slice(&one.box_log) {
                    self.boxes.insert(stream.clone(), log);
                }
            }
            Payload::Box(BoxEvent::Renamed(renamed)) => {
                if let Some(names) = self
                    .boxes
                    .get(stream)
                    .and_then(|log| self.logs.get_mut(log))
                {
                    names.insert(0, format!("box:{}", renamed.name));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, log: &[u8], names: [String; 2]) {
        if let Some(log) = LogId::from_slice(log) {
            self.logs.entry(log).or_default().extend(names);
        }
    }
}
