//! Commands that happened once, prompts that were typed once, and what is erased.

use std::collections::BTreeMap;

use cocoonbox_events::{AgentEvent, Kind, LogEvent, Payload, Store, replica};

use super::read_all;
use crate::{law::Law, ledger::short, store::SimStore, world::World};

impl World {
    pub(super) fn check_histories(&self, store: &SimStore) {
        for log in store.logs() {
            if log.moved_to.is_some() {
                continue;
            }
            let name = short(log.id);
            let Ok(events) = read_all(store, log.id) else {
                self.sim
                    .fail(Law::Durable, &name, "the log cannot be read".to_owned());
                continue;
            };
            let mut commands: BTreeMap<[u8; 16], u64> = BTreeMap::new();
            let mut prompts: BTreeMap<String, u64> = BTreeMap::new();
            for event in &events {
                self.ledger.saw(&name, event);
                if let Some(command) = replica::command_of(event) {
                    let last = commands.insert(*command.as_bytes(), event.pos);
                    if last.is_some_and(|last| last + 1 != event.pos) {
                        let what = format!("command of event {} happened before", event.pos);
                        self.sim.fail(Law::Once, &name, what);
                    }
                }
                if let Ok(Some(Payload::Agent(AgentEvent::PromptReceived(prompt)))) =
                    event.payload()
                    && let Some(first) = prompts.insert(prompt.text.clone(), event.pos)
                {
                    let (text, pos) = (prompt.text, event.pos);
                    let what = format!("`{text}` is taken at {first} and at {pos}");
                    self.sim.fail(Law::Once, &name, what);
                }
            }
        }
    }

    /// What a log says is erased is gone, from the copy and from its disk.
    pub(super) fn check_erased(&self, store: &SimStore) {
        let bodies = self.ledger.erased_bodies();
        let disk = self.control.disk();
        for log in store.logs() {
            let events = read_all(store, log.id).unwrap_or_default();
            let own: Vec<_> = events.iter().filter(|e| e.log == log.id).collect();
            for said in &own {
                if said.kind != Kind::LogErasureDone.number() {
                    continue;
                }
                let Ok(Some(Payload::Log(LogEvent::ErasureDone(done)))) = said.payload() else {
                    continue;
                };
                for pos in done.positions {
                    let held = own.iter().any(|e| e.pos == pos && e.body.is_some());
                    let on_disk = bodies
                        .get(&(log.id, pos))
                        .is_some_and(|body| disk.holds(body));
                    if held || on_disk {
                        let what = format!(
                            "event {pos} is said to be erased at {}; in the copy: {held}, on its disk: {on_disk}",
                            said.pos
                        );
                        self.sim.fail(Law::Erased, &short(log.id), what);
                    }
                }
            }
        }
    }
}
