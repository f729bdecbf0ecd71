//! Files are saved before a call that may destroy them.

use std::time::Duration;

use cocoonbox_commands::agent::Command;
use tokio::time::timeout;

use super::{End, TurnLoop};
use crate::{journal, saves::Answer};

/// A first save of a large box takes minutes. Who waits longer is told, and may cancel before.
const SAVED_WITHIN: Duration = Duration::from_mins(10);

impl TurnLoop {
    /// Has the box saved, if the step that is due begins a call that may destroy files. Whether that step may be
    /// written: the call is not in the log before the save is, so whoever is killed in between makes it once.
    pub(super) async fn save_first(&mut self) -> Result<bool, End> {
        let Some(call) = self.destroys_next() else {
            return Ok(true);
        };
        let (saves, wake) = (self.shared.saves.clone(), self.wake.clone());
        let asking = saves.ask(self.shared.journal.draw(), call.clone());
        let asking = timeout(SAVED_WITHIN, asking);
        tokio::pin!(asking);
        let stop = self.shared.stop.clone();
        let answer = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(End::Stopped),
                // A cancel must not wait, nor a rule that forbids it.
                () = wake.notified() => {
                    self.refresh().await?;
                    if self.destroys_next().as_ref() != Some(&call) {
                        return Ok(false);
                    }
                }
                answer = &mut asking => break answer,
            }
        };
        let why = match answer {
            Ok(Answer::Saved | Answer::NotNeeded) => {
                self.refresh().await?;
                return Ok(self.destroys_next().is_some_and(|next| next == call));
            }
            Ok(Answer::Failed { reason, detail }) => format!("{reason}: {detail}"),
            Err(_) => format!(
                "that took longer than {} minutes",
                SAVED_WITHIN.as_secs() / 60
            ),
        };
        tracing::warn!(agent = self.agent_id, why, "call not made: files not saved");
        let content = format!(
            "not run: this may destroy files, so they are saved before it, and that failed ({why}). Nothing was \
             changed. Tell the user, who can make room for saves, switch them off before such calls, or do it \
             themselves; or find a way that destroys nothing."
        );
        let not_run = Command::NotRun {
            tool_call_id: call,
            content,
        };
        match self.execute(&not_run).await {
            Err(End::Journal(journal::Error::Rejected(_))) | Ok(()) => Ok(false),
            Err(end) => Err(end),
        }
    }

    fn destroys_next(&self) -> Option<String> {
        let next = self.fold.state.destroys_next();
        next.map(|tool| tool.tool_call_id.clone())
    }
}
