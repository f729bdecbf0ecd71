//! How far the desktop of each box is, as its last event left it.
//!
//! Box logs are written in boxes, and a box may lie: nothing here fails on an odd sequence.

use std::collections::BTreeMap;

use cocoonbox_events::{DesktopEvent, Kind, LogInfo, LogKind, Payload, Recorded};
use cocoonbox_proto::{
    control::v1::{self as control, AgentDisplay, desktop::State},
    log::v1::{DesktopPart, Image},
};
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};

/// As many as a desktop may have.
const FAILING_MAX: usize = 32;
/// The highest number of one that agents have, as the box's own decider has it.
const DISPLAY_MAX: u32 = 7;
/// Of the ids of agents that have a display: a box may say anything.
const AGENT_ID_BYTES_MAX: usize = 200;

pub struct Desktops;

/// The desktop of one box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopRow {
    /// The wake that it belongs to. A box that was started again since has told nothing yet.
    pub wake_id: String,
    /// Every part answers.
    pub is_ready: bool,
    /// How long the start took until every part answered; 0 until then.
    pub ready_ms: u64,
    /// Parts that failed and are not back.
    pub failing: Vec<String>,
    /// What the display showed when the box last went to sleep.
    pub picture: Option<PictureRow>,
    /// Parts that nothing waits for.
    pub on_demand: Vec<String>,
    /// Agents that have a display for themselves, by its number.
    pub displays: BTreeMap<u32, String>,
}

/// A picture in the box's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureRow {
    pub blob: String,
    pub media_type: String,
    pub width_px: u32,
    pub height_px: u32,
    pub size_bytes: u64,
    /// Milliseconds since 1970.
    pub taken_at_ms: i64,
}

impl From<DesktopRow> for control::Desktop {
    fn from(row: DesktopRow) -> Self {
        let state = match (row.is_ready, row.failing.is_empty()) {
            (true, _) => State::Ready,
            (false, true) => State::Starting,
            (false, false) => State::Failing,
        };
        Self {
            state: state.into(),
            failing: row.failing,
            ready_ms: row.ready_ms,
            last_picture: row.picture.map(Into::into),
            displays: row
                .displays
                .into_iter()
                .map(|(display, agent_id)| AgentDisplay { display, agent_id })
                .collect(),
        }
    }
}

impl From<PictureRow> for control::LastPicture {
    fn from(row: PictureRow) -> Self {
        Self {
            image: Some(Image {
                blob: row.blob,
                media_type: row.media_type,
                width_px: row.width_px,
                height_px: row.height_px,
                size_bytes: row.size_bytes,
            }),
            taken_at_ms: row.taken_at_ms,
        }
    }
}

impl Projection for Desktops {
    fn name(&self) -> &'static str {
        "desktops"
    }

    fn version(&self) -> u32 {
        3
    }

    fn views(&self) -> &'static [View] {
        &[View::Desktops]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Box
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        // What others make of the box's other events is not this view's to fail on.
        if !is_of_desktop(event) {
            return Ok(());
        }
        let Some(Seen {
            payload: Payload::Desktop(payload),
            ..
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let key = key(log);
        let mut row: DesktopRow = rows::get(rows, View::Desktops, &key)?.unwrap_or_default();
        step(&mut row, payload, event.recorded_us / 1_000);
        rows::put(rows, View::Desktops, &key, &row)?;
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, event: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        // What can be erased of it, a part's output, is in no row.
        Ok(is_of_desktop(event))
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete(View::Desktops, &key(log))
    }
}

fn is_of_desktop(event: &Recorded) -> bool {
    Kind::from_number(event.kind).is_some_and(|kind| kind.name().starts_with("desktop."))
}

/// Key of the only row of a box log.
fn key(log: &LogInfo) -> String {
    row_key::key(&[&row_key::log(log.id)])
}

fn step(row: &mut DesktopRow, event: DesktopEvent, taken_at_ms: i64) {
    match event {
        DesktopEvent::Started(started) => {
            if row.wake_id != started.wake_id {
                row.displays.clear();
            }
            *row = DesktopRow {
                wake_id: started.wake_id,
                displays: std::mem::take(&mut row.displays),
                on_demand: on_demand(&started.parts),
                picture: row.picture.take(),
                ..DesktopRow::default()
            };
        }
        DesktopEvent::PartStarted(started) => row.failing.retain(|part| *part != started.part),
        // Whoever asked for it hears of that.
        DesktopEvent::PartFailed(failed) if row.on_demand.contains(&failed.part) => {}
        DesktopEvent::PartFailed(failed) => {
            row.is_ready = false;
            if row.failing.len() < FAILING_MAX && !row.failing.contains(&failed.part) {
                row.failing.push(failed.part);
            }
        }
        DesktopEvent::Ready(ready) => {
            row.is_ready = true;
            row.failing.clear();
            if row.ready_ms == 0 {
                row.ready_ms = ready.since_ms.max(1);
            }
        }
        // What agents are told of it is theirs; who had the display is in the account's log.
        DesktopEvent::HandedBack(_) => {}
        DesktopEvent::DisplayOpened(opened) => {
            let is_sane = (1..=DISPLAY_MAX).contains(&opened.display)
                && opened.agent_id.len() <= AGENT_ID_BYTES_MAX;
            if is_sane {
                row.displays.insert(opened.display, opened.agent_id);
            }
        }
        DesktopEvent::DisplayClosed(closed) => {
            row.displays.remove(&closed.display);
        }
        DesktopEvent::Pictured(pictured) => {
            row.picture = pictured.image.map(|image| PictureRow {
                blob: image.blob,
                media_type: image.media_type,
                width_px: image.width_px,
                height_px: image.height_px,
                size_bytes: image.size_bytes,
                taken_at_ms,
            });
        }
    }
}

fn on_demand(parts: &[DesktopPart]) -> Vec<String> {
    let on_demand = parts.iter().filter(|part| part.on_demand);
    on_demand
        .take(FAILING_MAX)
        .map(|part| part.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::log::v1::{
        DesktopDisplayClosed, DesktopDisplayOpened, DesktopPartFailed, DesktopPartStarted,
        DesktopReady, DesktopStarted,
    };

    use super::*;

    fn told(row: &DesktopRow) -> (State, Vec<String>, u64) {
        let told = control::Desktop::from(row.clone());
        (told.state(), told.failing, told.ready_ms)
    }

    #[test]
    fn what_runs_on_demand_may_fail_and_what_is_said_of_displays_is_bounded() {
        let mut row = DesktopRow::default();
        let part = |name: &str, on_demand| DesktopPart {
            name: name.to_owned(),
            on_demand,
            ..DesktopPart::default()
        };
        let begun = |wake_id: &str| {
            DesktopEvent::Started(DesktopStarted {
                wake_id: wake_id.to_owned(),
                parts: vec![part("screen", false), part("display-1", true)],
                ..DesktopStarted::default()
            })
        };
        step(&mut row, begun("w1"), 7);
        let ready = DesktopReady { since_ms: 70 };
        step(&mut row, DesktopEvent::Ready(ready), 7);
        let failed = DesktopEvent::PartFailed(DesktopPartFailed {
            part: "display-1".to_owned(),
            ..DesktopPartFailed::default()
        });
        step(&mut row, failed, 7);
        assert_eq!(told(&row), (State::Ready, vec![], 70));

        let opened = |display, agent_id: &str| {
            DesktopEvent::DisplayOpened(DesktopDisplayOpened {
                display,
                agent_id: agent_id.to_owned(),
            })
        };
        let long = "a".repeat(AGENT_ID_BYTES_MAX + 1);
        for (display, agent_id) in [(0, "a"), (DISPLAY_MAX + 1, "a"), (1, &long), (2, "b")] {
            step(&mut row, opened(display, agent_id), 7);
        }
        let displays = |row: &DesktopRow| Vec::from_iter(row.displays.clone());
        assert_eq!(displays(&row), [(2, "b".to_owned())]);
        step(&mut row, begun("w1"), 7);
        assert_eq!(displays(&row).len(), 1);
        let closed = DesktopDisplayClosed { display: 2 };
        step(&mut row, DesktopEvent::DisplayClosed(closed), 7);
        assert_eq!(displays(&row), []);
        step(&mut row, opened(3, "c"), 7);
        step(&mut row, begun("w2"), 7);
        assert_eq!(displays(&row), [], "they end with the wake");
    }

    #[test]
    fn it_is_ready_failing_and_ready_again() {
        let mut row = DesktopRow::default();
        let begun = DesktopStarted {
            wake_id: "w1".to_owned(),
            ..DesktopStarted::default()
        };
        let started = DesktopEvent::PartStarted(DesktopPartStarted {
            part: "screen".to_owned(),
            ..DesktopPartStarted::default()
        });
        let failed = DesktopEvent::PartFailed(DesktopPartFailed {
            part: "screen".to_owned(),
            ..DesktopPartFailed::default()
        });
        let ready = |since_ms| DesktopEvent::Ready(DesktopReady { since_ms });
        step(&mut row, DesktopEvent::Started(begun.clone()), 7);
        assert_eq!(row.wake_id, "w1");
        assert_eq!(told(&row), (State::Starting, vec![], 0));
        step(&mut row, ready(70), 7);
        assert_eq!(told(&row), (State::Ready, vec![], 70));
        step(&mut row, failed.clone(), 7);
        step(&mut row, failed.clone(), 7);
        let failing = (State::Failing, vec!["screen".to_owned()], 70);
        assert_eq!(told(&row), failing);
        step(&mut row, started, 7);
        assert_eq!(told(&row), (State::Starting, vec![], 70));
        step(&mut row, ready(900), 7);
        assert_eq!(told(&row), (State::Ready, vec![], 70));
        step(&mut row, failed, 7);
        step(&mut row, DesktopEvent::Started(begun), 7);
        assert_eq!(told(&row), (State::Starting, vec![], 0));
    }
}
