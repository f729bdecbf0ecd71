//! Erasures in logs that the api writes: account logs and the system log.

use cocoonbox_commands::erasure::own::{Command, State};
use cocoonbox_events::{
    Fold, Husks, LogId, Meta,
    erasure::{self, POSITIONS_MAX, Plan},
};

use super::{EraseError, Eraser, report};

impl Eraser {
    /// Writes down what is to go.
    pub(super) async fn ask_own(
        &self,
        log: LogId,
        plan: &Plan,
        reason: &str,
        meta: &Meta,
    ) -> Result<(), EraseError> {
        let command = Command::Request {
            positions: plan.positions(),
            reason: reason.to_owned(),
            husks: plan.husks.clone(),
        };
        let mut fold = Fold::<State>::new(log, Husks::stream());
        let digest =
            *blake3::hash(format!("{:?} {reason}", plan.positions()).as_bytes()).as_bytes();
        fold.execute(&*self.store, &command, meta, digest).await?;
        Ok(())
    }

    /// Erases what a log says of itself that it owes. Returns whether there was something.
    pub(super) async fn pay_own(&self, log: LogId) -> Result<bool, EraseError> {
        let mut fold = Fold::<State>::new(log, Husks::stream());
        fold.refresh(&*self.store).await?;
        let owed = fold.state.owed();
        for positions in owed.chunks(POSITIONS_MAX) {
            erasure::rows(&*self.store, log, positions).await?;
            let command = Command::Done {
                positions: positions.to_vec(),
            };
            let (meta, digest) = report(&fold, &format!("{command:?}"));
            fold.execute(&*self.store, &command, &meta, digest).await?;
        }
        Ok(!owed.is_empty())
    }
}
