//! Carrying an action out: where an element is by now, as a hand does it, and by its own action where no hand reaches.
//!
//! An element's own action is second: programs answer nothing while what it opens is modal, and some say that they
//! did what they did not.

use super::{
    action::Act,
    backend::{Backend, Button, Click, Element, Window},
    geometry::{Mapping, Point, Rect},
    holder::Seat,
    keys::{self, Chord, Keysym},
    outline::{Refs, parse_window},
    refusal::{Fault, Refusal},
};
use crate::lines::{plain, quoted};

/// More is a mistake, and would take minutes.
const TIMES_MAX: u32 = 100;
const NOTCHES_MAX: i32 = 100;
/// A triple click is the most that any program knows.
const CLICKS_MAX: u32 = 3;

/// What came of an action.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) note: String,
    /// Nothing can have changed.
    pub(super) is_still: bool,
}

impl From<String> for Done {
    fn from(note: String) -> Self {
        Self {
            note,
            is_still: false,
        }
    }
}

/// One action at a display.
pub(super) struct Deed<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) seat: &'a mut Seat,
    pub(super) mapping: Mapping,
}

/// Where something is to be done.
struct Place {
    at: Point,
    element: Option<Element>,
    /// As messages have it.
    told: String,
}

impl Deed<'_> {
    pub(super) async fn done(&mut self, act: &Act) -> Result<Done, Refusal> {
        match act {
            Act::Click {
                target,
                x,
                y,
                button,
                times,
                hold,
            } => {
                let click = Click {
                    button: *button,
                    times: times.unwrap_or(1).clamp(1, CLICKS_MAX),
                    held: held(hold.as_deref())?,
                };
                self.click(target.as_deref(), *x, *y, &click).await
            }
            Act::Move { target, x, y } => self.point(target.as_deref(), *x, *y).await,
            Act::Drag {
                target,
                x,
                y,
                to,
                to_x,
                to_y,
                path,
                button,
                hold,
            } => {
                let held = held(hold.as_deref())?;
                let from = self.place(target.as_deref(), *x, *y).await?;
                let mut way = vec![from.at];
                for [x, y] in path {
                    way.push(self.place(None, Some(*x), Some(*y)).await?.at);
                }
                let to = self.place(to.as_deref(), *to_x, *to_y).await?;
                way.push(to.at);
                self.backend.drag(&way, *button, &held).await?;
                Ok(format!("dragged {} to {}", from.told, to.told).into())
            }
            Act::Scroll {
                target,
                x,
                y,
                down,
                right_by,
                hold,
            } => {
                let held = held(hold.as_deref())?;
                let place = self.place(target.as_deref(), *x, *y).await?;
                let notches = |count: i32| count.clamp(-NOTCHES_MAX, NOTCHES_MAX);
                self.backend
                    .scroll(place.at, notches(*down), notches(*right_by), &held)
                    .await?;
                Ok(format!("scrolled over {}", place.told).into())
            }
            Act::Key { keys, times } => {
                let chord = Chord::parse(keys).ok_or_else(|| Refusal::NoKey(keys.clone()))?;
                let times = times.unwrap_or(1).clamp(1, TIMES_MAX);
                self.backend.press(&chord, times).await?;
                Ok(format!("pressed {}", plain(keys, 60)).into())
            }
            Act::Type {
                target,
                text,
                enter,
            } => self.write(target.as_deref(), text, *enter).await,
            Act::Set { target, text } => self.set(target, text).await,
            Act::Window { window } => {
                let windows = self.backend.windows().await?;
                let found = find(&windows, window)?;
                self.backend.bring(found.id).await?;
                Ok(format!("{} is in front", quoted(&plain(&found.title, 120))).into())
            }
        }
    }

    async fn click(
        &mut self,
        target: Option<&str>,
        x: Option<i32>,
        y: Option<i32>,
        click: &Click,
    ) -> Result<Done, Refusal> {
        let is_plain = click.button == Button::Left && click.times == 1 && click.held.is_empty();
        if let (Some(reference), true) = (target, is_plain) {
            let element = self.element(reference).await?;
            if !self.is_reached(&element).await? && self.backend.invoke(&element.token).await? {
                return Ok(format!(
                    "{reference}, {}, was clicked by its own action",
                    element.told()
                )
                .into());
            }
        }
        let place = self.place(target, x, y).await?;
        self.backend.click(place.at, click).await?;
        Ok(format!("clicked {}", place.told).into())
    }

    /// Whether nothing of another program is in front of an element.
    async fn is_reached(&self, element: &Element) -> Result<bool, Refusal> {
        let shown = element
            .frame
            .and_then(|frame| frame.shared(self.mapping.area));
        let Some(at) = shown.map(Rect::middle) else {
            return Ok(false);
        };
        let owner = self.backend.owner(&element.token).await?;
        let windows = self.backend.windows().await?;
        let front = windows
            .iter()
            .rev()
            .find(|window| !window.is_hidden && window.frame.contains(at));
        Ok(front.is_none_or(|window| window.pid == owner))
    }

    async fn point(
        &mut self,
        target: Option<&str>,
        x: Option<i32>,
        y: Option<i32>,
    ) -> Result<Done, Refusal> {
        let place = self.place(target, x, y).await?;
        let is_still = self.backend.pointer().await? == place.at;
        if !is_still {
            self.backend.point(place.at).await?;
        }
        Ok(Done {
            note: format!("the pointer is at {}", place.told),
            is_still,
        })
    }

    async fn write(
        &mut self,
        target: Option<&str>,
        text: &str,
        enter: bool,
    ) -> Result<Done, Refusal> {
        let keysyms = written(text)?;
        let element = match target {
            Some(reference) => {
                let place = self.place(Some(reference), None, None).await?;
                let is_focused = |element: &Element| element.states.contains(&"focused");
                if !place.element.as_ref().is_some_and(is_focused) {
                    self.backend.click(place.at, &Click::plain()).await?;
                    self.backend.settled().await?;
                }
                place.element
            }
            None => None,
        };
        self.backend.write(&keysyms).await?;
        let count = text.chars().count();
        let mut note = format!("typed {count} characters");
        if let Some(element) = element {
            note.extend([" into ", &element.told()]);
            note.push_str(&self.holds(&element, text).await?);
        }
        if enter {
            self.backend.write(&written("\n")?).await?;
            note.push_str(", and Enter");
        }
        Ok(note.into())
    }

    async fn set(&mut self, reference: &str, text: &str) -> Result<Done, Refusal> {
        let element = self.element(reference).await?;
        let mut is_set = self.backend.set(&element.token, text).await?;
        if !is_set && element.states.contains(&"editable") {
            // As a person does it.
            let place = self.place(Some(reference), None, None).await?;
            self.backend.click(place.at, &Click::plain()).await?;
            let all = Chord::parse("ctrl+a").ok_or_else(|| Refusal::NoKey("ctrl+a".to_owned()))?;
            self.backend.press(&all, 1).await?;
            self.backend.write(&written(text)?).await?;
            is_set = true;
        }
        if !is_set {
            return Err(Refusal::NotFit {
                reference: reference.to_owned(),
                was: element.told(),
                why: "click it, or type into it",
            });
        }
        let holds = self.holds(&element, text).await?;
        Ok(format!(
            "{reference}, {}, was given its value{holds}",
            element.told()
        )
        .into())
    }

    /// What an element holds, if that is not what it was given.
    async fn holds(&self, element: &Element, text: &str) -> Result<String, Refusal> {
        self.backend.settled().await?;
        Ok(match self.backend.element(&element.token).await {
            Ok(now) => match now.value {
                Some(value) if value.contains(text) => "; it holds that".to_owned(),
                Some(value) => format!("; but it holds {}", quoted(&plain(&value, 300))),
                None => String::new(),
            },
            Err(_) => "; it is not there any more".to_owned(),
        })
    }

    /// The element of a ref, if it is what it was and can be used.
    async fn element(&mut self, reference: &str) -> Result<Element, Refusal> {
        let number = Refs::parse(reference).ok_or_else(|| Refusal::NoRef(reference.to_owned()))?;
        let seen = self.seat.refs.seen(number).cloned();
        let seen = seen.ok_or_else(|| Refusal::UnknownRef(reference.to_owned()))?;
        let (reference, was) = (reference.to_owned(), seen.told());
        let element = match self.backend.element(&seen.token).await {
            Ok(element) => element,
            Err(Fault::Gone) => {
                return Err(Refusal::Stale {
                    reference,
                    was,
                    changes: String::new(),
                });
            }
            Err(fault) => return Err(fault.into()),
        };
        if !seen.is(&element) {
            let now = element.told();
            self.seat.refs.saw(number, &element);
            return Err(Refusal::Changed {
                reference,
                was,
                now,
            });
        }
        if !element.is_enabled && element.states.contains(&"disabled") {
            return Err(Refusal::Disabled { reference, was });
        }
        Ok(element)
    }

    async fn place(
        &mut self,
        target: Option<&str>,
        x: Option<i32>,
        y: Option<i32>,
    ) -> Result<Place, Refusal> {
        if let Some(reference) = target {
            let mut element = self.element(reference).await?;
            let shown = |element: &Element| {
                let frame = element.frame?;
                Some(frame.shared(self.mapping.area)?.middle())
            };
            let mut at = shown(&element);
            if at.is_none() && self.backend.reveal(&element.token).await? {
                self.backend.settled().await?;
                element = self.backend.element(&element.token).await?;
                at = shown(&element);
            }
            let told = format!("{reference}, {}", element.told());
            return match at {
                Some(at) => Ok(Place {
                    at,
                    element: Some(element),
                    told,
                }),
                None => Err(Refusal::Hidden {
                    reference: reference.to_owned(),
                    was: element.told(),
                }),
            };
        }
        let (Some(x), Some(y)) = (x, y) else {
            return Err(Refusal::NoPlace);
        };
        let whole = self.mapping.picture;
        if self
            .seat
            .size
            .is_some_and(|size| size.whole() != self.mapping.area)
        {
            return Err(Refusal::Resized);
        }
        let at = self
            .mapping
            .on_display(Point { x, y })
            .ok_or(Refusal::Outside {
                x,
                y,
                width: whole.width,
                height: whole.height,
            })?;
        Ok(Place {
            at,
            element: None,
            told: format!("({x},{y})"),
        })
    }
}

impl Click {
    fn plain() -> Self {
        Self {
            button: Button::Left,
            times: 1,
            held: Vec::new(),
        }
    }
}

pub(super) fn find<'a>(windows: &'a [Window], name: &str) -> Result<&'a Window, Refusal> {
    let id = parse_window(name);
    let found = windows.iter().find(|window| Some(window.id) == id);
    found.ok_or_else(|| Refusal::NoWindow(name.to_owned()))
}

fn held(hold: Option<&str>) -> Result<Vec<Keysym>, Refusal> {
    let Some(hold) = hold.filter(|hold| !hold.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    keys::modifiers(hold).ok_or_else(|| Refusal::NoKey(hold.to_owned()))
}

/// The keys that write a text.
fn written(text: &str) -> Result<Vec<Keysym>, Refusal> {
    let text = text.replace("\r\n", "\n");
    text.chars()
        .map(|c| keys::of_char(c).ok_or(Refusal::NoChar(c)))
        .collect()
}
