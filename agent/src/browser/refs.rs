//! Names for what an outline shows: `e12` is the same element as long as its document lives, and nothing
//! else ever after.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::outline::Line;

/// Refs that are remembered, those of elements that are gone included: so it can be said what they were.
const KEPT_MAX: usize = 40_000;

/// All refs of a browser.
#[derive(Debug, Default)]
pub(super) struct Refs {
    last: u32,
    by_node: HashMap<(String, i64), u32>,
    entries: BTreeMap<u32, Entry>,
}

/// What a ref stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) tab: u32,
    pub(super) place: Place,
    pub(super) backend: i64,
    /// As it was told last.
    pub(super) role: String,
    pub(super) name: String,
}

/// Where a document is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session: String,
    pub(super) frame_id: String,
    pub(super) loader_id: String,
}

impl Refs {
    /// Numbers the lines of a tab's outline. `places` are those of its documents.
    pub(super) fn number(
        &mut self,
        tab: u32,
        places: &[Place],
        lines: &[Line],
    ) -> Vec<Option<u32>> {
        let numbers: Vec<Option<u32>> = lines
            .iter()
            .map(|line| {
                let (document, backend) = line.target?;
                let place = places.get(document)?;
                let key = (place.loader_id.clone(), backend);
                let number = *self.by_node.entry(key).or_insert_with(|| {
                    self.last += 1;
                    self.last
                });
                let entry = Entry {
                    tab,
                    place: place.clone(),
                    backend,
                    role: line.role.clone(),
                    name: line.name.clone(),
                };
                self.entries.insert(number, entry);
                Some(number)
            })
            .collect();
        if self.entries.len() > KEPT_MAX {
            self.prune(&numbers);
        }
        numbers
    }

    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// Notes how an element is called by now.
    pub(super) fn rename(&mut self, number: u32, role: &str, name: &str) {
        if let Some(entry) = self.entries.get_mut(&number) {
            role.clone_into(&mut entry.role);
            name.clone_into(&mut entry.name);
        }
    }

    pub(super) fn forget_tab(&mut self, tab: u32) {
        self.entries.retain(|_, entry| entry.tab != tab);
        let entries = &self.entries;
        self.by_node
            .retain(|_, number| entries.contains_key(number));
    }

    /// Whether a ref was ever given out.
    pub(super) fn was_given(&self, number: u32) -> bool {
        (1..=self.last).contains(&number)
    }

    fn prune(&mut self, shown: &[Option<u32>]) {
        let shown: HashSet<u32> = shown.iter().flatten().copied().collect();
        let excess = self.entries.len().saturating_sub(KEPT_MAX / 2);
        let old: HashSet<u32> = self
            .entries
            .keys()
            .filter(|number| !shown.contains(number))
            .take(excess)
            .copied()
            .collect();
        self.entries.retain(|number, _| !old.contains(number));
        self.by_node.retain(|_, number| !old.contains(number));
    }
}

/// Reads a ref as a model writes it: `e12`, also in brackets.
pub(super) fn parse(text: &str) -> Option<u32> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let text = text.strip_prefix("ref=").unwrap_or(text);
    text.strip_prefix('e')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: Option<(usize, i64)>) -> Line {
        Line {
            role: "button".to_owned(),
            target,
            ..Line::default()
        }
    }

    fn place(loader: &str) -> Place {
        Place {
            loader_id: loader.to_owned(),
            ..Place::default()
        }
    }

    #[test]
    fn a_ref_stays_with_its_element_and_is_never_given_to_another() {
        let mut refs = Refs::default();
        let lines = [line(Some((0, 7))), line(None), line(Some((1, 7)))];
        let places = [place("a"), place("b")];
        let first = refs.number(1, &places, &lines);
        assert_eq!(first, [Some(1), None, Some(2)]);
        assert_eq!(refs.number(1, &places, &lines), first);
        // The same node number in the page that came in its place.
        let next = refs.number(1, &[place("c"), place("b")], &lines);
        assert_eq!(next, [Some(3), None, Some(2)]);
        assert_eq!(
            refs.get(1).map(|entry| entry.place.loader_id.as_str()),
            Some("a")
        );
        refs.forget_tab(1);
        assert!(refs.get(1).is_none() && refs.was_given(3) && !refs.was_given(4));
        assert_eq!(refs.number(2, &places, &lines)[0], Some(4));
    }

    #[test]
    fn old_ones_are_forgotten_and_shown_ones_are_not() {
        let mut refs = Refs::default();
        let shown = [line(Some((0, -1)))];
        let kept = refs.number(1, &[place("a")], &shown)[0].unwrap();
        let many: Vec<Line> = (0_i64..)
            .take(KEPT_MAX)
            .map(|node| line(Some((0, node))))
            .collect();
        refs.number(1, &[place("a")], &many);
        assert!(refs.entries.len() <= KEPT_MAX);
        assert!(refs.get(kept).is_none());
        assert_eq!(refs.number(1, &[place("a")], &many)[0], Some(2));
    }

    #[test]
    fn refs_are_read_as_models_write_them() {
        assert_eq!(parse("e12"), Some(12));
        assert_eq!(parse(" [ref=e3] "), Some(3));
        assert_eq!(
            (parse("12"), parse("e-1"), parse("e99999999999")),
            (None, None, None)
        );
    }
}
