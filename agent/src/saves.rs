//! Saves of the box's files that its agents wait for: before a call that may destroy them.
//!
//! The api saves, and reads what is asked for from a stream that it keeps open. What is asked while there is none, or is
//! not answered when it ends, is asked on the next one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cocoonbox_proto::agent::v1::{SaveAnswer, SaveAsk, save_answer};
use tokio::sync::{oneshot, watch};

#[cfg(test)]
mod tests;

/// What is waited for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saves(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<Known>,
    /// Changes when something is asked for.
    asked: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    are_first: bool,
    /// The stream whose words count.
    stream: u64,
    open: BTreeMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    ask: SaveAsk,
    /// The stream on which it was asked last.
    asked_on: u64,
    answer: oneshot::Sender<Answer>,
}

/// What became of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Saved,
    /// Nothing waits for saves in this box.
    NotNeeded,
    Failed {
        reason: String,
        detail: String,
    },
}

/// Takes an ask back when nobody waits for it any more.
struct Waiting {
    saves: Saves,
    ask_id: String,
}

impl Saves {
    /// Says whether calls that may destroy files wait for a save. Those that wait already go on if they need not.
    pub(crate) fn set(&self, are_first: bool) {
        let mut known = self.known();
        known.are_first = are_first;
        if !are_first {
            for open in std::mem::take(&mut known.open).into_values() {
                open.answer.send(Answer::NotNeeded).ok();
            }
        }
    }

    /// Asks for a save before a call, and waits for what becomes of it.
    pub(crate) async fn ask(&self, ask_id: String, tool_call_id: String) -> Answer {
        let (answer, answered) = oneshot::channel();
        let _waiting = {
            let mut known = self.known();
            if !known.are_first {
                return Answer::NotNeeded;
            }
            let ask = SaveAsk {
                ask_id: ask_id.clone(),
                tool_call_id,
            };
            let open = Open {
                ask,
                asked_on: 0,
                answer,
            };
            known.open.insert(ask_id.clone(), open);
            Waiting {
                saves: self.clone(),
                ask_id,
            }
        };
        self.0.asked.send_replace(());
        // The sender is kept until it is used. Were it lost, nothing would be known to be saved.
        answered.await.unwrap_or_else(|_| Answer::Failed {
            reason: "LOST".to_owned(),
            detail: "nobody answers".to_owned(),
        })
    }

    /// Begins a stream. From here on only its words count.
    pub(crate) fn begin(&self) -> u64 {
        let mut known = self.known();
        known.stream += 1;
        self.0.asked.send_replace(());
        known.stream
    }

    /// Returns what a stream has to ask for, each time something is asked for; `None`: another one has begun.
    pub(crate) async fn next(&self, stream: u64) -> Option<Vec<SaveAsk>> {
        let mut asked = self.0.asked.subscribe();
        loop {
            asked.mark_unchanged();
            {
                let mut known = self.known();
                if known.stream != stream {
                    return None;
                }
                let new = known
                    .open
                    .values_mut()
                    .filter(|open| open.asked_on != stream);
                let asks: Vec<_> = new
                    .map(|open| {
                        open.asked_on = stream;
                        open.ask.clone()
                    })
                    .collect();
                if !asks.is_empty() {
                    return Some(asks);
                }
            }
            asked.changed().await.ok()?;
        }
    }

    /// Takes a word of a stream in.
    pub(crate) fn take(&self, stream: u64, answer: SaveAnswer) {
        if self.known().stream != stream {
            return;
        }
        let (ask_id, answer) = match answer.answer {
            None => return,
            Some(save_answer::Answer::Setting(setting)) => return self.set(setting.saves_first),
            Some(save_answer::Answer::Saved(saved)) => (saved.ask_id, Answer::Saved),
            Some(save_answer::Answer::NotSaved(not)) if not.is_impossible => {
                (not.ask_id, Answer::NotNeeded)
            }
            Some(save_answer::Answer::NotSaved(not)) => {
                let (reason, detail) = (not.reason, not.detail);
                (not.ask_id, Answer::Failed { reason, detail })
            }
        };
        if let Some(open) = self.known().open.remove(&ask_id) {
            open.answer.send(answer).ok();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.saves.known().open.remove(&self.ask_id);
    }
}
