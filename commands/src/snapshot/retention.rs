//! Which snapshots a rule keeps.
//!
//! ```text
//!  now ◀─ all ─▶◀──── last of each hour ────▶◀─ of each day ─▶◀─ of each week ─▶ none
//! ```
//!
//! A snapshot's own age says which span it is in. Hours lie within days and days within weeks, and what is kept is the
//! last of each: so what one pruning drops no later one would have kept, and pruning often is the same as pruning
//! once. The newest snapshot, pinned ones, and those that somebody waits for are always kept.

use std::collections::BTreeSet;

use super::State;

/// In the event.
pub const REASON: &str = "RETENTION";

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// 1970 began on a Thursday, and weeks begin on Mondays.
const MONDAY_MS: i64 = 3 * DAY_MS;
/// Longer spans are more than a hundred years, and only make sums overflow.
pub const HOURS_MAX: u32 = 24 * DAYS_MAX;
pub const DAYS_MAX: u32 = 36_600;

/// How much is kept, counted back from the time of a pruning. 0 = nothing in that span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// All snapshots of these last hours.
    pub all_hours: u32,
    /// The last one of each hour of these last days.
    pub hourly_days: u32,
    /// The last one of each day, by UTC.
    pub daily_days: u32,
    /// The last one of each week from Monday on.
    pub weekly_days: u32,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            all_hours: 24,
            hourly_days: 7,
            daily_days: 31,
            weekly_days: 366,
        }
    }
}

impl Rule {
    /// Whether the spans are ones that can be counted with.
    pub fn is_sound(&self) -> bool {
        let days = [self.hourly_days, self.daily_days, self.weekly_days];
        self.all_hours <= HOURS_MAX && days.iter().all(|days| *days <= DAYS_MAX)
    }

    /// The length of the spans of which the last snapshot is kept at an age; `None` = none is kept, 1 = all.
    fn span_ms(&self, age_ms: i64) -> Option<i64> {
        let within = |count: u32, unit: i64| age_ms < i64::from(count).saturating_mul(unit);
        if within(self.all_hours, HOUR_MS) {
            Some(1)
        } else if within(self.hourly_days, DAY_MS) {
            Some(HOUR_MS)
        } else if within(self.daily_days, DAY_MS) {
            Some(DAY_MS)
        } else if within(self.weekly_days, DAY_MS) {
            Some(WEEK_MS)
        } else {
            None
        }
    }
}

/// The snapshots that a rule does not keep, oldest first. `held` are kept besides: somebody waits for them.
pub fn dropped(state: &State, rule: &Rule, now_ms: i64, held: &BTreeSet<String>) -> Vec<String> {
    let is_waited =
        |id: &String| held.contains(id) || state.restores.iter().any(|restore| restore.needs(id));
    // By time, whatever clocks and ids say: a clock that was put back must not decide what the newest is.
    let mut all: Vec<_> = state.kept.iter().collect();
    all.sort_by_key(|(id, kept)| (kept.started_ms, *id));
    let newest = state.kept.keys().next_back();
    let mut dropped = Vec::new();
    for (at, (id, kept)) in all.iter().enumerate() {
        if kept.is_pinned || is_waited(id) || Some(*id) == newest || at + 1 == all.len() {
            continue;
        }
        let is_last_of = |span_ms: i64| {
            let span = |started_ms: i64| (started_ms + MONDAY_MS).div_euclid(span_ms);
            let next = all.get(at + 1).map(|(_, next)| span(next.started_ms));
            span_ms == 1 || next != Some(span(kept.started_ms))
        };
        let age_ms = now_ms.saturating_sub(kept.started_ms);
        if !rule.span_ms(age_ms).is_some_and(is_last_of) {
            dropped.push((*id).clone());
        }
    }
    dropped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Kept, *};

    /// A Wednesday, 12:30.
    const NOW: i64 = 1_795_609_800_000;
    const MINUTE_MS: i64 = 60_000;

    fn state(ages_ms: impl IntoIterator<Item = i64>) -> State {
        let mut state = State::default();
        for age in ages_ms {
            let started_ms = NOW - age;
            let kept = Kept {
                at: None,
                started_ms,
                is_pinned: false,
            };
            state.kept.insert(format!("{started_ms:016x}"), kept);
        }
        state
    }

    fn keep(state: &mut State, rule: &Rule, now_ms: i64) {
        for id in dropped(state, rule, now_ms, &BTreeSet::new()) {
            state.kept.remove(&id);
        }
    }

    fn ages(state: &State) -> Vec<i64> {
        state
            .kept
            .values()
            .map(|kept| NOW - kept.started_ms)
            .collect()
    }

    #[test]
    fn the_default_thins_out_with_age() {
        // Each quarter of an hour for 400 days.
        let quarters = (0..400 * 96).map(|n| n * 15 * MINUTE_MS);
        let mut state = state(quarters);
        keep(&mut state, &Rule::default(), NOW);
        let ages = ages(&state);
        let within =
            |from: i64, to: i64| ages.iter().filter(|age| (from..to).contains(*age)).count();
        assert_eq!(within(0, DAY_MS), 96);
        assert_eq!(within(DAY_MS, 7 * DAY_MS), 6 * 24);
        assert_eq!(within(7 * DAY_MS, 31 * DAY_MS), 24);
        assert_eq!(within(31 * DAY_MS, 366 * DAY_MS), 47);
        assert_eq!(within(366 * DAY_MS, i64::MAX), 0);
        let one = state.kept.values().nth(60).unwrap().started_ms;
        assert_eq!(
            one.rem_euclid(DAY_MS),
            DAY_MS - 15 * MINUTE_MS,
            "the last of its day"
        );
    }

    #[test]
    fn the_newest_the_pinned_and_the_waited_for_stay() {
        let none = Rule {
            all_hours: 0,
            hourly_days: 0,
            daily_days: 0,
            weekly_days: 0,
        };
        let mut kept = state([900 * DAY_MS, 800 * DAY_MS, 700 * DAY_MS, 600 * DAY_MS]);
        let ids: Vec<String> = kept.kept.keys().cloned().collect();
        kept.kept.get_mut(&ids[0]).unwrap().is_pinned = true;
        let held = BTreeSet::from([ids[1].clone()]);
        assert_eq!(dropped(&kept, &none, NOW, &held), [ids[2].clone()]);
        kept.kept.get_mut(&ids[0]).unwrap().is_pinned = false;
        keep(&mut kept, &none, NOW);
        assert_eq!(kept.kept.keys().collect::<Vec<_>>(), [&ids[3]]);
    }

    #[test]
    fn a_clock_that_was_put_back_drops_nothing_of_the_future() {
        let mut kept = state([-3 * DAY_MS, -2 * DAY_MS, 30 * MINUTE_MS]);
        keep(&mut kept, &Rule::default(), NOW);
        assert_eq!(kept.kept.len(), 3);
    }

    proptest! {
        /// Pruning on the way drops nothing that one pruning at the end keeps, and keeps nothing more.
        #[test]
        fn pruning_often_is_pruning_once(
            mut ages in proptest::collection::vec(0..500 * 24 * 60_i64, 1..80),
            mut looks in proptest::collection::vec(0..300 * 24 * 60_i64, 0..6),
            spans in (0..50_u32, 0..20_u32, 0..60_u32, 0..400_u32),
        ) {
            let rule = Rule { all_hours: spans.0, hourly_days: spans.1, daily_days: spans.2, weekly_days: spans.3 };
            ages.sort_unstable();
            let minutes = ages.into_iter().map(|age| age * MINUTE_MS);
            let first = state(minutes);
            // The newest of now is the newest of later: nothing is saved in between.
            let (mut often, mut once) = (first.clone(), first);
            looks.sort_unstable();
            let end = NOW + looks.last().copied().unwrap_or(0) * MINUTE_MS;
            for look in looks {
                keep(&mut often, &rule, NOW + look * MINUTE_MS);
            }
            keep(&mut often, &rule, end);
            keep(&mut once, &rule, end);
            prop_assert_eq!(often, once);
        }
    }
}
