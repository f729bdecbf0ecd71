//! What tools that give input to a display have in common: they ask first whether a person has it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use cocoonbox_events::{Clock, SystemClock};
use cocoonbox_proto::{agent::v1::HandBack, log::v1::DesktopHandedBack};

use super::{Finished, Picture, handed_back};
use crate::{
    blobs::Blobs,
    control::{DISPLAY, Displays, Refused},
};

/// A display that agents act on, unless a person does.
pub(super) struct Driven {
    display: u32,
    displays: Displays,
    /// Which hand-over each agent was told of last; 0 = none, and it was here before.
    told: Mutex<HashMap<String, u64>>,
    /// Where pictures are.
    blobs: Blobs,
}

impl Driven {
    pub(super) fn new(display: u32, displays: Displays, blobs: Blobs) -> Self {
        Self {
            display,
            displays,
            told: Mutex::default(),
            blobs,
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
            Err(refused) => {
                self.was_here(agent_id);
                if self.display == DISPLAY && matches!(refused, Refused::Held { .. }) {
                    self.displays.wanted_by(agent_id);
                }
                return Finished::error(said(&refused));
            }
        };
        if self.display == DISPLAY {
            self.displays.driven_by(agent_id);
        }
        let mut done = tokio::select! {
            done = action => done,
            () = permit.revoked() => Finished::error(
                "a person took control of the display, and the action was cut short; \
                 wait until it is handed back, and look before you go on",
            ),
        };
        let back = permit.handed_back.clone();
        // Whoever takes it over waits for the end of the action, and for nothing else.
        drop(permit);
        match back {
            Some(back) => self.tell(agent_id, &back, &mut done).await,
            None => self.was_here(agent_id),
        }
        done
    }

    /// Says what a person left behind to an agent that goes on, once.
    async fn tell(&self, agent_id: &str, back: &HandBack, done: &mut Finished) {
        let before = self.told().insert(agent_id.to_owned(), back.fence);
        if before == Some(back.fence) {
            return;
        }
        let left = self.displays.left(back.fence).await;
        let mut told = handed_back::said(back, left.as_deref());
        // One that knows nothing of how it was sees by looking how it is.
        if let Some(left) = left.filter(|_| before.is_some()) {
            let shown = self.pictures(&left).await;
            if !shown.is_empty() {
                told.push_str(
                    "\n[pictures: the display when it was taken over, and when it was handed back]",
                );
            }
            done.images.extend(shown);
        }
        done.content = format!("{told}\n{}", done.content);
    }

    /// Before and after, or none.
    async fn pictures(&self, left: &DesktopHandedBack) -> Vec<Picture> {
        let mut pictures = Vec::new();
        for image in [&left.before, &left.after] {
            let Some(image) = image else {
                return Vec::new();
            };
            match self.blobs.whole(&image.blob).await {
                Ok(piece) => pictures.push(Picture { data: piece.data }),
                // It may have been erased.
                Err(error) => {
                    tracing::info!(%error, "a picture of the display is not shown");
                    return Vec::new();
                }
            }
        }
        pictures
    }

    fn was_here(&self, agent_id: &str) {
        self.told().entry(agent_id.to_owned()).or_default();
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
