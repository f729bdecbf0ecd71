//! Ids that were used. A copy of the state is taken to see what comes of several commands, and they grow for as long as
//! a conversation does: so most of them are shared.

use std::{collections::BTreeSet, sync::Arc};

/// So many are copied at most, as long as nobody keeps a copy.
const NEW_MAX: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    old: Arc<BTreeSet<String>>,
    new: BTreeSet<String>,
}

impl Ids {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.new.contains(id) || self.old.contains(id)
    }

    /// Returns whether it was not there.
    pub(super) fn insert(&mut self, id: String) -> bool {
        let is_fresh = !self.old.contains(&id) && self.new.insert(id);
        // Where a copy is looked at, sharing goes on.
        if self.new.len() >= NEW_MAX
            && let Some(old) = Arc::get_mut(&mut self.old)
        {
            old.append(&mut self.new);
        }
        is_fresh
    }

    fn len(&self) -> usize {
        self.old.len() + self.new.len()
    }
}

impl PartialEq for Ids {
    fn eq(&self, other: &Self) -> bool {
        let mut all = self.old.iter().chain(&self.new);
        self.len() == other.len() && all.all(|id| other.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It is a set, whoever keeps a copy for however long.
        #[test]
        fn is_a_set(inserts in prop::collection::vec((0..200_u8, any::<bool>()), 0..400)) {
            let (mut ids, mut set, mut copy) = (Ids::default(), BTreeSet::new(), None);
            for (number, keeps) in inserts {
                let id = number.to_string();
                copy = keeps.then(|| ids.clone()).or(copy);
                prop_assert_eq!(ids.insert(id.clone()), set.insert(id));
            }
            prop_assert_eq!(ids.len(), set.len());
            for number in 0..200_u8 {
                let id = number.to_string();
                prop_assert_eq!(ids.contains(&id), set.contains(&id));
            }
            let mut again = Ids::default();
            set.into_iter().rev().for_each(|id| assert!(again.insert(id)));
            prop_assert_eq!(&again, &ids);
            prop_assert!(copy.is_none_or(|copy| copy.len() <= ids.len()));
        }
    }
}
