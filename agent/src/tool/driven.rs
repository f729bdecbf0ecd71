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
    control::{Displays, Refused},
};

/// Displays that agents act on, unless a person does.
pub(super) struct Driven {
    displays: Displays,
    /// Which hand-over of a display each agent was told of last; 0 = none, and it was here before.
    told: Mutex<HashMap<(u32, String), u64>>,
    /// Where pictures are.
    blobs: Blobs,
}

impl Driven {
    pub(super) fn new(displays: Displays, blobs: Blobs) -> Self {
        Self {
            displays,
            told: Mutex::default(),
            blobs,
        }
    }

    /// Carries an action out, unless a person has control, and for as long as none takes it.
    pub(super) async fn act(
        &self,
        display: u32,
        agent_id: &str,
        action: impl Future<Output = Finished>,
    ) -> Finished {
        let permit = match self.displays.enter(display) {
            Ok(permit) => permit,
            Err(refused) => {
                self.was_here(display, agent_id);
                if matches!(refused, Refused::Held { .. }) {
                    self.displays.wanted_by(display, agent_id);
                }
                return Finished::error(said(&refused));
            }
        };
        self.displays.driven_by(display, agent_id);
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
            None => self.was_here(display, agent_id),
        }
        done
    }

    /// Takes note that an agent begins at a display that nobody was at before, whose number people had up to a fence.
    pub(super) fn begins(&self, display: u32, agent_id: &str, fence: u64) {
        // What people did at an earlier one of this number is no news of this one.
        self.told().insert((display, agent_id.to_owned()), fence);
    }

    /// Forgets an agent that comes no more.
    pub(super) fn forget(&self, agent_id: &str) {
        self.told().retain(|(_, known), _| known != agent_id);
    }

    /// Says what a person left behind to an agent that goes on, once.
    async fn tell(&self, agent_id: &str, back: &HandBack, done: &mut Finished) {
        let seat = (back.display, agent_id.to_owned());
        let before = self.told().insert(seat, back.fence);
        if before == Some(back.fence) {
            return;
        }
        let left = self.displays.left(back.display, back.fence).await;
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

    fn was_here(&self, display: u32, agent_id: &str) {
        let seat = (display, agent_id.to_owned());
        self.told().entry(seat).or_default();
    }

    fn told(&self) -> MutexGuard<'_, HashMap<(u32, String), u64>> {
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
