//! Who has how much, and who should have less.

use std::collections::HashMap;

use cocoonbox_installation::{Holder, Lease};

use super::PROCESS;

/// Before a box's id in the name of its lease.
const BOX: &str = "box/";

/// The leases that held at one moment.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) live: HashMap<String, Lease>,
    /// Boxes by process. Processes without any are in it too.
    boxes: HashMap<Holder, usize>,
}

/// The name of a box's lease.
pub fn name_of(box_id: &str) -> String {
    format!("{BOX}{box_id}")
}

pub(super) fn is_box(name: &str) -> bool {
    name.starts_with(BOX)
}

impl Census {
    pub(super) fn new(live: Vec<Lease>) -> Self {
        let mut boxes: HashMap<Holder, usize> = HashMap::new();
        for lease in &live {
            if lease.name.starts_with(PROCESS) {
                boxes.entry(lease.holder.clone()).or_default();
            }
        }
        // Of a process that has not renewed its own lease nothing can be expected.
        for lease in live.iter().filter(|lease| is_box(&lease.name)) {
            if let Some(count) = boxes.get_mut(&lease.holder) {
                *count += 1;
            }
        }
        let by_name = |lease: Lease| (lease.name.clone(), lease);
        Self {
            live: live.into_iter().map(by_name).collect(),
            boxes,
        }
    }

    /// Whether a process that could do the same work has less of it.
    pub(super) fn others_have_fewer(&self, me: &Holder) -> bool {
        let mine = self.boxes.get(me).copied().unwrap_or(0);
        self.fewest(me).is_some_and(|fewest| fewest < mine)
    }

    /// How many boxes to give away at once. Never so many that they would come back, and not all at once, so that
    /// what goes wrong with a new process goes wrong for few.
    pub(super) fn excess(&self, me: &Holder) -> usize {
        let mine = self.boxes.get(me).copied().unwrap_or(0);
        let Some(fewest) = self.fewest(me) else {
            return 0;
        };
        match mine.saturating_sub(fewest) {
            0 | 1 => 0,
            difference => (difference / 4).max(1),
        }
    }

    fn fewest(&self, me: &Holder) -> Option<usize> {
        let others = self.boxes.iter();
        let others = others.filter(|(other, _)| *other != me && other.place == me.place);
        others.map(|(_, count)| *count).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: &str, place: &str) -> Holder {
        Holder {
            id: id.into(),
            address: "127.0.0.1:1".into(),
            place: place.into(),
        }
    }

    fn lease(name: String, holder: &Holder) -> Lease {
        Lease {
            name,
            holder: holder.clone(),
            fence: 1,
            is_live: true,
        }
    }

    fn census(processes: &[(&Holder, usize)]) -> Census {
        let mut live = Vec::new();
        for (holder, count) in processes {
            live.push(lease(format!("{PROCESS}{}", holder.id), holder));
            let boxes = (0..*count).map(|n| name_of(&format!("{}-{n}", holder.id)));
            live.extend(boxes.map(|name| lease(name, holder)));
        }
        Census::new(live)
    }

    #[test]
    fn a_new_process_gets_its_share_and_no_more() {
        let (old, new) = (process("old", "here"), process("new", "here"));
        let (mut olds, mut news) = (100, 0);
        for _ in 0..40 {
            let excess = census(&[(&old, olds), (&new, news)]).excess(&old);
            (olds, news) = (olds - excess, news + excess);
            assert_eq!(census(&[(&old, olds), (&new, news)]).excess(&new), 0);
        }
        assert!(olds.abs_diff(news) <= 1, "{olds} and {news}");
    }

    #[test]
    fn a_process_elsewhere_or_gone_gets_nothing() {
        let (me, away, gone) = (
            process("me", "here"),
            process("away", "there"),
            process("gone", "here"),
        );
        let found = census(&[(&me, 9), (&away, 0)]);
        assert_eq!(
            (found.excess(&me), found.others_have_fewer(&me)),
            (0, false)
        );
        // Its own lease has run out, those of its boxes have not yet.
        let mut live: Vec<Lease> = census(&[(&me, 9), (&gone, 1)]).live.into_values().collect();
        live.retain(|lease| lease.name != format!("{PROCESS}gone"));
        assert_eq!(Census::new(live).excess(&me), 0);
    }

    #[test]
    fn who_has_most_lets_the_others_go_first() {
        let (one, two) = (process("one", "here"), process("two", "here"));
        let found = census(&[(&one, 2), (&two, 1)]);
        assert!(found.others_have_fewer(&one) && !found.others_have_fewer(&two));
        assert_eq!(found.excess(&one), 0, "one more is as fair as it gets");
    }
}
