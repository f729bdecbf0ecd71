//! Frames that were opened lately, so that neighbours cost nothing.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{error::Error, frame::Opener};

type Slot = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

/// Keeps the frames used last. Two threads that want the same frame open it once.
pub(super) struct FrameCache {
    /// The one used last stands last.
    slots: Mutex<Vec<(u32, Slot)>>,
    keep: usize,
    openers: Mutex<Vec<Opener>>,
}

impl FrameCache {
    pub(super) fn new(keep: usize) -> Self {
        Self {
            slots: Mutex::new(Vec::new()),
            keep,
            openers: Mutex::new(Vec::new()),
        }
    }

    /// A frame from the cache, or as `open` makes it.
    pub(super) fn get(
        &self,
        frame: u32,
        open: impl FnOnce(&mut Opener) -> Result<Vec<u8>, Error>,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let slot = self.slot(frame);
        let mut filled = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plain) = &*filled {
            return Ok(plain.clone());
        }
        let spare = self
            .openers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut opener = match spare {
            Some(opener) => opener,
            None => Opener::new()?,
        };
        let plain = Arc::new(open(&mut opener)?);
        self.openers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(opener);
        *filled = Some(plain.clone());
        Ok(plain)
    }

    fn slot(&self, frame: u32) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match slots.iter().rposition(|(at, _)| *at == frame) {
            Some(at) => slots.remove(at),
            None => {
                if slots.len() >= self.keep {
                    slots.remove(0);
                }
                (frame, Slot::default())
            }
        };
        slots.push(found.clone());
        found.1
    }
}
