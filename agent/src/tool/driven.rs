//! What tools that give input to a display have in common: they ask first whether a person has it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use cocoonbox_events::{Clock, SystemClock};

use super::Finished;
use crate::control::{Displays, Permit, Refused};

/// A display that agents act on, unless a person does.
pub(super) struct Driven {
    display: u32,
    displays: Displays,
    /// Which hand-over each agent was told of last.
    told: Mutex<HashMap<String, u64>>,
}

impl Driven {
    pub(super) fn new(display: u32, displays: Displays) -> Self {
        Self {
            display,
            displays,
            told: Mutex::default(),
        }
    }

    /// Carries an action out, unless a person has control, and for as long as none takes it.
    pub(super) async fn act(
        &self,
        agent_id: &str,
        action: impl Future<Output = Finished>,
    ) -> Finished {
        let permit = match self.displays.enter(self.display) {
            Ok(permit) => permit,
            Err(refused) => return Finished::error(said(&refused)),
        };
        let mut done = tokio::select! {
            done = action => done,
            () = permit.revoked() => Finished::error(
                "a person took control of the display, and the action was cut short; \
                 wait until it is handed back, and look before you go on",
            ),
        };
        if let Some(told) = self.handed_back(agent_id, &permit) {
            done.content = format!("{told}\n{}", done.content);
        }
        done
    }

    /// What a person left behind, for an agent that goes on; once.
    fn handed_back(&self, agent_id: &str, permit: &Permit) -> Option<String> {
        let back = permit.handed_back.as_ref()?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(agent_id.to_owned(), back.fence) == Some(back.fence) {
            return None;
        }
        let note = if back.note.is_empty() {
            String::new()
        } else {
            format!(" and says: {}", back.note)
        };
        Some(format!(
            "[{} had control of this display before{note}; what it shows may have changed]",
            back.label
        ))
    }
}

fn said(refused: &Refused) -> String {
    match refused {
        Refused::Held { until_ms, .. } => {
            let left_s = (until_ms - SystemClock.now_us() / 1_000).max(0) / 1_000;
            format!("nothing was done: {refused} (it ends in {left_s} s unless there is input)")
        }
        Refused::Unknown => format!("nothing was done: {refused}"),
    }
}
