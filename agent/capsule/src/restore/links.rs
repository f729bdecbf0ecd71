//! Files with several names: the first is written, the others become links to it.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// Where a first name stands, or that it did not come to stand.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// From the base, without a slash before it.
    pub(super) path: Vec<u8>,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// How far a first name is.
#[derive(Debug, Default)]
enum State {
    #[default]
    UnderWay,
    Failed,
    Placed(Placed),
}

/// A first name on its way. Files are taken up in the order in which they are handed out, so whoever waits
/// for one waits for a thread that works.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    change: Condvar,
}

impl Pending {
    pub(super) fn set(&self, placed: Option<Placed>) {
        let state = placed.map_or(State::Failed, State::Placed);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.change.notify_all();
    }

    pub(super) fn wait(&self) -> Option<Placed> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::UnderWay => {}
                State::Failed => return None,
                State::Placed(placed) => return Some(placed.clone()),
            }
            state = self
                .change
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a file is among its names.
pub(super) enum Role {
    Only,
    First(Arc<Pending>),
    Later(Arc<Pending>),
}

/// All files with several names.
#[derive(Default)]
pub(super) struct Links {
    known: Mutex<HashMap<[u8; 16], Arc<Pending>>>,
}

impl Links {
    pub(super) fn role(&self, link: Option<[u8; 16]>) -> Role {
        let Some(link) = link else { return Role::Only };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&link) {
            Some(pending) => Role::Later(pending.clone()),
            None => {
                let pending = Arc::<Pending>::default();
                known.insert(link, pending.clone());
                Role::First(pending)
            }
        }
    }
}
