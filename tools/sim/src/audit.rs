//! The auditor: keeps signed positions elsewhere, and verifies what it is shown.

use std::sync::Arc;

use cocoonbox_events::{Store, checkpoint::Statement};

use crate::{law::Law, ledger::short, scheduler::Sim, world::World};

impl World {
    /// Starts an auditor who comes by now and then.
    pub fn start_audit(self: &Arc<Self>) {
        let life = self.sim.new_life();
        self.sim.spawn(life, Arc::clone(self).audit());
    }

    async fn audit(self: Arc<Self>) {
        while !self.is_calm() {
            let pause = self.sim.draw(|chance| chance.between(800, 3_000));
            self.sim.sleep_ms(pause).await;
            let Some(store) = self.control.store() else {
                continue;
            };
            let logs = store.logs();
            let Some(log) = self.sim.draw(|c| c.pick(&logs).cloned()) else {
                continue;
            };
            let statement = Statement {
                host: self.signer.verifier().name().clone(),
                log: log.id,
                size: log.tail.pos,
                chain: log.tail.chain,
            };
            let note = statement.sign([&self.signer]);
            if store
                .keep_checkpoint(log.id, note.to_checkpoint())
                .await
                .is_ok()
            {
                self.ledger.sign(log.id, log.tail.pos, log.tail.chain);
            }
            self.check_signed(&store, &self.sim).await;
        }
    }

    /// Whatever was signed is still so.
    pub async fn check_signed(&self, store: &dyn Store, sim: &Sim) {
        for (log, pos, chain) in self.ledger.signed() {
            if self.ledger.is_given_up(log, pos) || store.info(log).is_err() {
                continue;
            }
            let found = store.chain_at(log, pos).await;
            if !found.as_ref().is_ok_and(|found| *found == chain) {
                let what = format!(
                    "position {pos} of log {} was signed, and is {found:?} today",
                    short(log)
                );
                sim.fail(Law::Durable, "audit", what);
            }
        }
    }
}
