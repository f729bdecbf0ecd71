//! The text of one reply while it arrives.

use std::collections::BTreeMap;

/// Text blocks by index, each as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    blocks: BTreeMap<u32, Streamed>,
    /// A chunk of some block is lost: no further one is of use until the whole.
    is_held: bool,
}

#[derive(Clone, Debug, Default)]
struct Streamed {
    text: String,
    /// Something is missing behind `text`; what came later waits for the whole.
    has_gap: bool,
}

impl Reply {
    /// Takes a chunk that stands at byte `offset` of its block. A chunk may come again, and may
    /// overlap with what is there.
    pub fn chunk(&mut self, block: u32, offset: u64, text: &str) {
        if self.is_held {
            return;
        }
        let streamed = self.blocks.entry(block).or_default();
        let known = streamed.text.len();
        let Ok(offset) = usize::try_from(offset) else {
            streamed.has_gap = true;
            return;
        };
        match known.checked_sub(offset) {
            None => streamed.has_gap = true,
            // Chunks are whole characters, so what is known ends on one in `text` too; else it is
            // another text, and the whole will tell.
            Some(seen) if seen < text.len() => match text.get(seen..) {
                Some(rest) if !streamed.has_gap => streamed.text.push_str(rest),
                _ => streamed.has_gap = true,
            },
            Some(_) => {}
        }
    }

    /// Takes no more chunks: one was lost, and nobody knows of which block.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Takes a block as it ended up.
    pub fn whole(&mut self, block: u32, text: String) {
        self.blocks.insert(
            block,
            Streamed {
                text,
                has_gap: false,
            },
        );
    }

    /// Returns the text up to the first gap.
    pub fn visible(&self) -> String {
        let mut visible = String::new();
        for streamed in self.blocks.values() {
            visible.push_str(&streamed.text);
            if streamed.has_gap {
                break;
            }
        }
        visible
    }
}
