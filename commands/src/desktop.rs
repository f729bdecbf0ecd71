//! What shows the desktop of a box, stream `desktop/main` of the box log.
//!
//! A session is one life of the process that keeps the parts. It counts what it reports, so a report that is
//! made again, since the writer of the log was restarted, changes nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cocoonbox_events::{Aggregate, DesktopEvent, IllegalTransition, Payload};
use cocoonbox_proto::log::v1::{
    DesktopDisplayClosed, DesktopDisplayOpened, DesktopHandedBack, DesktopPart, DesktopPartFailed,
    DesktopPartStarted, DesktopPictured, DesktopReady, DesktopStarted, DesktopWindow,
};

use crate::bounded;

/// The only stream of its kind in a box log.
pub const STREAM: &str = "desktop/main";
/// More are a mistake in the image.
pub const PARTS_MAX: usize = 32;
/// Of the name of a part and the id of a session.
pub const NAME_BYTES_MAX: usize = 64;

/// The end of what a part wrote, as far as it is kept.
pub const OUTPUT_BYTES_MAX: usize = 2 * 1024;

/// Windows of one moment, and fields that were typed into, that are kept.
pub const WINDOWS_MAX: usize = 64;
pub const TYPED_MAX: usize = 32;
/// Of a title, a role, a name.
pub const TITLE_BYTES_MAX: usize = 200;
pub const TYPED_BYTES_MAX: usize = 2_000;

/// The display that all share.
pub const SHARED_DISPLAY: u32 = 0;
/// Of those that agents have for themselves, the highest number.
pub const DISPLAY_MAX: u32 = 7;

/// A part as it was reported last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub needs: Vec<String>,
    /// It answers, and so does all that it needs.
    pub up: bool,
    /// It failed and was not seen up since.
    pub failing: bool,
    /// Nothing waits for it.
    pub on_demand: bool,
}

/// The desktop, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub session: String,
    pub wake_id: String,
    /// The last report that was taken of this session.
    pub report: u64,
    pub parts: Vec<Part>,
    /// How long the session took until everything answered; `None` until then.
    pub ready_ms: Option<u64>,
    /// What the display showed at the end of an earlier wake.
    pub pictured: Option<DesktopPictured>,
    /// What the last person left behind who had it, by display.
    pub handed_back: BTreeMap<u32, DesktopHandedBack>,
    /// The agents that have a display for themselves, by its number.
    pub displays: BTreeMap<u32, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A session began. The same session once more changes nothing.
    Begin(DesktopStarted),
    PartStarted {
        session: String,
        since_ms: u64,
        started: DesktopPartStarted,
    },
    PartFailed {
        session: String,
        failed: DesktopPartFailed,
    },
    /// The display was looked at. The same picture once more changes nothing.
    Picture(DesktopPictured),
    /// A person handed the display back. The same once more changes nothing.
    HandBack(DesktopHandedBack),
    /// An agent gets a display for itself. One that it has changes nothing.
    OpenDisplay(DesktopDisplayOpened),
    /// Nothing of it runs any more. One that is not open changes nothing.
    CloseDisplay(DesktopDisplayClosed),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("session `{session}` did not begin, or another began after it")]
    OtherSession { session: String },
    /// Or none above the one that needs it.
    #[error("the desktop has no part `{part}`")]
    UnknownPart { part: String },
    #[error("`{field}` has to have 1 to {NAME_BYTES_MAX} bytes")]
    BadName { field: &'static str },
    #[error("the desktop has {parts} parts; {PARTS_MAX} may be")]
    TooManyParts { parts: usize },
    #[error("field `reason` is empty")]
    NoReason,
    #[error("field `image` is empty")]
    NoImage,
    /// Nothing was ever shown.
    #[error("the desktop did not begin")]
    NotBegun,
    #[error("no agent can have display {display} for itself; 1 to {DISPLAY_MAX} can be had")]
    NoSuchDisplay { display: u32 },
    #[error("agent `{agent_id}` has display {display}")]
    DisplayTaken { display: u32, agent_id: String },
}

impl State {
    /// Whether every part answers.
    pub fn is_ready(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|part| part.up || part.on_demand)
    }

    /// Returns the parts that failed and are not back, themselves or what they need.
    pub fn failing(&self) -> impl Iterator<Item = &str> {
        let failing = self.parts.iter().filter(|part| part.failing);
        failing.map(|part| part.name.as_str())
    }

    fn begin(&self, asked: &DesktopStarted) -> Result<Vec<DesktopEvent>, Rejection> {
        named("session", &asked.session)?;
        if asked.parts.len() > PARTS_MAX {
            return Err(Rejection::TooManyParts {
                parts: asked.parts.len(),
            });
        }
        for (at, part) in asked.parts.iter().enumerate() {
            named("part", &part.name)?;
            let is_above =
                |need: &&String| asked.parts[..at].iter().any(|part| part.name == **need);
            if let Some(need) = part.needs.iter().find(|need| !is_above(need)) {
                return Err(Rejection::UnknownPart { part: need.clone() });
            }
        }
        if self.session == asked.session {
            return Ok(Vec::new());
        }
        Ok(vec![DesktopEvent::Started(asked.clone())])
    }

    /// Whether the report is one that was not taken yet.
    fn is_news(&self, session: &str, report: u64, part: &str) -> Result<bool, Rejection> {
        if session != self.session {
            return Err(Rejection::OtherSession {
                session: session.to_owned(),
            });
        }
        if report <= self.report {
            return Ok(false);
        }
        // Those that are too old to be repeated are missing for good: what follows counts all the same.
        if self.parts.iter().any(|known| known.name == part) {
            Ok(true)
        } else {
            Err(Rejection::UnknownPart {
                part: part.to_owned(),
            })
        }
    }

    fn picture(&self, picture: &DesktopPictured) -> Result<Vec<DesktopEvent>, Rejection> {
        let is_named = |pictured: &DesktopPictured| {
            let image = pictured.image.as_ref();
            image.is_some_and(|image| !image.blob.is_empty())
        };
        if !is_named(picture) {
            return Err(Rejection::NoImage);
        }
        if self.session.is_empty() {
            return Err(Rejection::NotBegun);
        }
        Ok(if self.pictured.as_ref() == Some(picture) {
            Vec::new()
        } else {
            vec![DesktopEvent::Pictured(picture.clone())]
        })
    }

    fn hand_back(&self, back: &DesktopHandedBack) -> Result<Vec<DesktopEvent>, Rejection> {
        if self.session.is_empty() {
            return Err(Rejection::NotBegun);
        }
        // What looked on is the user's process: it may tell anything.
        let mut back = back.clone();
        back.note = bounded::detail(&back.note);
        shorten(&mut back.label, TITLE_BYTES_MAX);
        for windows in [&mut back.windows_before, &mut back.windows_after] {
            windows.truncate(WINDOWS_MAX);
            for DesktopWindow { title, program, .. } in windows {
                shorten(title, TITLE_BYTES_MAX);
                shorten(program, TITLE_BYTES_MAX);
            }
        }
        back.typed.truncate(TYPED_MAX);
        for typed in &mut back.typed {
            shorten(&mut typed.role, TITLE_BYTES_MAX);
            shorten(&mut typed.name, TITLE_BYTES_MAX);
            shorten(&mut typed.text, TYPED_BYTES_MAX);
        }
        Ok(if self.handed_back.get(&back.display) == Some(&back) {
            Vec::new()
        } else {
            vec![DesktopEvent::HandedBack(back)]
        })
    }

    fn open(&self, asked: &DesktopDisplayOpened) -> Result<Vec<DesktopEvent>, Rejection> {
        let display = asked.display;
        if !(1..=DISPLAY_MAX).contains(&display) {
            return Err(Rejection::NoSuchDisplay { display });
        }
        if self.session.is_empty() {
            return Err(Rejection::NotBegun);
        }
        match self.displays.get(&display) {
            Some(agent_id) if *agent_id == asked.agent_id => Ok(Vec::new()),
            Some(agent_id) => Err(Rejection::DisplayTaken {
                display,
                agent_id: agent_id.clone(),
            }),
            None => Ok(vec![DesktopEvent::DisplayOpened(asked.clone())]),
        }
    }

    fn failed(failed: &DesktopPartFailed) -> Vec<DesktopEvent> {
        let mut failed = failed.clone();
        let kept = bounded::suffix(&failed.output, OUTPUT_BYTES_MAX).len();
        failed.output.drain(..failed.output.len() - kept);
        vec![DesktopEvent::PartFailed(failed)]
    }

    fn took_started(&mut self, started: &DesktopPartStarted) {
        self.report = started.report;
        let is_up = |name: &String| self.parts.iter().any(|part| part.name == *name && part.up);
        let part = self.parts.iter().position(|part| part.name == started.part);
        let Some(at) = part else { return };
        // It may have answered just before what it needs was lost.
        let up = self.parts[at].needs.iter().all(is_up);
        self.parts[at].up = up;
        self.parts[at].failing = false;
    }

    fn took_failed(&mut self, failed: &DesktopPartFailed) {
        self.report = failed.report;
        for at in 0..self.parts.len() {
            let down: Vec<&str> = self.parts[..at]
                .iter()
                .filter(|part| !part.up)
                .map(|part| part.name.as_str())
                .collect();
            let is_bereft = self.parts[at]
                .needs
                .iter()
                .any(|need| down.contains(&need.as_str()));
            let part = &mut self.parts[at];
            if part.name == failed.part {
                (part.up, part.failing) = (false, true);
            } else if is_bereft {
                part.up = false;
            }
        }
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = DesktopEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<DesktopEvent>, Rejection> {
        match command {
            Command::Begin(asked) => self.begin(asked),
            Command::PartStarted {
                session,
                since_ms,
                started,
            } => {
                if !self.is_news(session, started.report, &started.part)? {
                    return Ok(Vec::new());
                }
                let mut events = vec![DesktopEvent::PartStarted(started.clone())];
                let mut after = self.clone();
                after.took_started(started);
                if after.is_ready() && !self.is_ready() {
                    events.push(DesktopEvent::Ready(DesktopReady {
                        since_ms: *since_ms,
                    }));
                }
                Ok(events)
            }
            Command::PartFailed { session, failed } => {
                if failed.reason == 0 {
                    return Err(Rejection::NoReason);
                }
                let is_news = self.is_news(session, failed.report, &failed.part)?;
                Ok(if is_news {
                    Self::failed(failed)
                } else {
                    Vec::new()
                })
            }
            Command::Picture(picture) => self.picture(picture),
            Command::HandBack(back) => self.hand_back(back),
            Command::OpenDisplay(asked) => self.open(asked),
            Command::CloseDisplay(closed) => Ok(if self.displays.contains_key(&closed.display) {
                vec![DesktopEvent::DisplayClosed(*closed)]
            } else {
                Vec::new()
            }),
        }
    }

    fn evolve(mut self, event: &DesktopEvent) -> Result<Self, IllegalTransition> {
        match event {
            DesktopEvent::Started(started) => {
                // Who gives displays out outlives the parts, but no wake.
                if self.wake_id != started.wake_id {
                    self.displays.clear();
                }
                return Ok(Self {
                    session: started.session.clone(),
                    wake_id: started.wake_id.clone(),
                    report: 0,
                    parts: started.parts.iter().map(Part::down).collect(),
                    ready_ms: None,
                    pictured: self.pictured,
                    handed_back: self.handed_back,
                    displays: self.displays,
                });
            }
            _ if self.session.is_empty() => {
                return Err(IllegalTransition {
                    state: "not begun".to_owned(),
                    event: event.kind().name(),
                });
            }
            DesktopEvent::PartStarted(started) => self.took_started(started),
            DesktopEvent::PartFailed(failed) => self.took_failed(failed),
            DesktopEvent::Ready(ready) => self.ready_ms = self.ready_ms.or(Some(ready.since_ms)),
            DesktopEvent::Pictured(pictured) => self.pictured = Some(pictured.clone()),
            DesktopEvent::HandedBack(back) => {
                self.handed_back.insert(back.display, back.clone());
            }
            DesktopEvent::DisplayOpened(opened) => {
                let agent_id = opened.agent_id.clone();
                self.displays.insert(opened.display, agent_id);
            }
            DesktopEvent::DisplayClosed(closed) => {
                self.displays.remove(&closed.display);
            }
        }
        Ok(self)
    }

    fn pick(payload: Payload) -> Option<DesktopEvent> {
        DesktopEvent::pick(payload)
    }
}

impl Part {
    fn down(of: &DesktopPart) -> Self {
        Self {
            name: of.name.clone(),
            needs: of.needs.clone(),
            up: false,
            failing: false,
            on_demand: of.on_demand,
        }
    }
}

fn shorten(text: &mut String, bytes_max: usize) {
    text.truncate(bounded::prefix(text, bytes_max).len());
}

fn named(field: &'static str, name: &str) -> Result<(), Rejection> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        Ok(())
    } else {
        Err(Rejection::BadName { field })
    }
}
