//! Who sits where. Nothing is waited for here.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use cocoonbox_commands::desktop::SHARED_DISPLAY;
use tokio::sync::OnceCell;

use super::{NoSeat, Opened};
use crate::lines::quoted;

/// The displays of a box, and whose they are.
#[derive(Debug)]
pub(super) struct Table {
    /// Displays that can be had, the shared one among them.
    count: u32,
    taken: BTreeMap<u32, Taken>,
    /// When each was given last. What programs of its last agent go on to start must not soon show at another's.
    given: HashMap<u32, u64>,
    now: u64,
}

#[derive(Debug)]
struct Taken {
    agent_id: String,
    up: Up,
    is_told: bool,
    is_leaving: bool,
}

/// Set once the display is up.
pub(super) type Up = Arc<OnceCell<Opened>>;

impl Table {
    pub(super) fn new(count: u32) -> Self {
        Self {
            count,
            taken: BTreeMap::new(),
            given: HashMap::new(),
            now: 0,
        }
    }

    /// Finds the agent's display, or gives it the one that nobody has had for longest: the shared one first.
    pub(super) fn sit(&mut self, agent_id: &str) -> Result<(u32, Up), NoSeat> {
        if let Some((display, one)) = self.of(agent_id) {
            return Ok((display, Arc::clone(&one.up)));
        }
        match self.count {
            0 => return Err(NoSeat::None),
            // There is no other: it is shared by all, and whose it is does not matter.
            1 => return Ok((SHARED_DISPLAY, Up::default())),
            _ => {}
        }
        let free = (0..self.count).filter(|display| !self.taken.contains_key(display));
        let given = |display: &u32| self.given.get(display).copied();
        let display = free.min_by_key(|display| (*display != SHARED_DISPLAY, given(display)));
        let Some(display) = display else {
            let holders = self.taken.values().map(|one| quoted(&one.agent_id));
            let holders = holders.collect::<Vec<_>>().join(", ");
            return Err(NoSeat::Taken { holders });
        };
        self.now += 1;
        self.given.insert(display, self.now);
        let up = Up::default();
        self.take(display, agent_id, &up, false);
        Ok((display, up))
    }

    /// A display that an earlier process gave to an agent, and that has to be ended.
    pub(super) fn leave_over(&mut self, display: u32, agent_id: &str) {
        self.take(display, agent_id, &Up::default(), true);
    }

    /// Says whether the agent is still to be told which display it has, once.
    pub(super) fn tell(&mut self, display: u32) -> bool {
        let one = self.taken.get_mut(&display);
        one.is_some_and(|one| !std::mem::replace(&mut one.is_told, true))
    }

    /// Takes an agent's display from it. Returns the number of one that has to be ended.
    pub(super) fn leave(&mut self, agent_id: &str) -> Option<u32> {
        let (display, _) = self.of(agent_id)?;
        if display == SHARED_DISPLAY {
            self.taken.remove(&display);
            return None;
        }
        self.taken.get_mut(&display)?.is_leaving = true;
        Some(display)
    }

    /// Whose display it is, or was until it left.
    pub(super) fn agent(&self, display: u32) -> Option<&str> {
        Some(self.taken.get(&display)?.agent_id.as_str())
    }

    /// Whether the agent that had a display has left it.
    pub(super) fn is_left(&self, display: u32) -> bool {
        self.taken.get(&display).is_none_or(|one| one.is_leaving)
    }

    /// A display has ended under its agent, which gets another of the same number.
    pub(super) fn lose(&mut self, display: u32) {
        if let Some(one) = self.taken.get_mut(&display) {
            (one.up, one.is_told) = (Up::default(), false);
        }
    }

    /// A display that was left can be given to others.
    pub(super) fn free(&mut self, display: u32) {
        self.taken.remove(&display);
    }

    fn of(&self, agent_id: &str) -> Option<(u32, &Taken)> {
        let is_its = |one: &Taken| one.agent_id == agent_id && !one.is_leaving;
        let mut all = self.taken.iter();
        all.find_map(|(display, one)| is_its(one).then_some((*display, one)))
    }

    fn take(&mut self, display: u32, agent_id: &str, up: &Up, is_leaving: bool) {
        let one = Taken {
            agent_id: agent_id.to_owned(),
            up: Arc::clone(up),
            is_told: display == SHARED_DISPLAY,
            is_leaving,
        };
        self.taken.insert(display, one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Table {
        fn sat(&mut self, agent_id: &str) -> u32 {
            self.sit(agent_id).expect("there is one").0
        }

        fn left(&mut self, agent_id: &str) {
            let display = self.leave(agent_id).expect("it has one of its own");
            self.free(display);
        }
    }

    #[test]
    fn the_first_is_at_the_shared_one_and_later_ones_have_their_own() {
        let mut table = Table::new(3);
        assert_eq!((table.sat("a"), table.sat("b"), table.sat("c")), (0, 1, 2));
        assert_eq!((table.sat("b"), table.sat("a")), (1, 0));
        assert!(!table.tell(0), "nothing is new about the shared one");
        assert!(table.tell(1));
        assert!(!table.tell(1), "it was told");
        let refused = table.sit("d").unwrap_err().to_string();
        assert!(refused.contains("\"a\", \"b\", \"c\""), "{refused}");
        assert_eq!(table.leave("a"), None);
        assert_eq!(table.sat("d"), 0);
        assert_eq!(table.leave("nobody"), None);
    }

    #[test]
    fn one_that_is_left_is_nobodys_until_it_is_free() {
        let mut table = Table::new(3);
        table.sat("a");
        table.sat("b");
        assert!(!table.is_left(1));
        assert_eq!(table.leave("b"), Some(1));
        assert_eq!(table.leave("b"), None);
        assert!(table.is_left(1));
        assert_eq!(table.agent(1), Some("b"));
        // Its agent comes again before that.
        assert_eq!(table.sat("b"), 2);
        assert!(table.sit("c").is_err());
        table.free(1);
        assert_eq!(table.sat("c"), 1);
        table.leave_over(2, "of an earlier process");
        assert!(table.is_left(2));
    }

    #[test]
    fn a_number_is_given_again_as_late_as_can_be() {
        let mut table = Table::new(4);
        table.sat("at the shared one");
        for (agent_id, display) in [("a", 1), ("b", 2), ("c", 3), ("d", 1), ("e", 2)] {
            assert_eq!(table.sat(agent_id), display);
            table.left(agent_id);
        }
    }

    #[test]
    fn one_that_has_ended_under_its_agent_is_told_anew() {
        let mut table = Table::new(2);
        table.sat("a");
        let (display, up) = table.sit("b").unwrap();
        assert!(table.tell(display));
        table.lose(display);
        let (same, other) = table.sit("b").unwrap();
        assert_eq!(same, display);
        assert!(!Arc::ptr_eq(&up, &other));
        assert!(table.tell(display));
        table.lose(7);
    }

    #[test]
    fn where_there_is_one_display_all_are_at_it() {
        let mut table = Table::new(1);
        assert_eq!((table.sat("a"), table.sat("b")), (0, 0));
        assert!(matches!(Table::new(0).sit("a"), Err(NoSeat::None)));
    }
}
