//! Input: by a pointer and a keyboard that nothing is left down on.

use std::time::Duration;

use tokio::time::sleep;
use x11rb::{
    connection::Connection as _,
    protocol::{
        xinput::ConnectionExt as _,
        xproto::{
            BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConnectionExt as _, KEY_PRESS_EVENT,
            KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT,
        },
        xtest::ConnectionExt as _,
    },
};

use super::{
    super::{
        backend::{Button, Click},
        geometry::Point,
        keymap::{Stroke, is_modifier, parts},
        keys::{Chord, Keysym, SHIFT},
        refusal::Fault,
    },
    display::Display,
};

/// Between two things that a hand does one after the other.
const BEAT: Duration = Duration::from_millis(12);
/// Between two characters.
const CHARACTER: Duration = Duration::from_millis(1);
/// Between the clicks of one that is double: well beneath what toolkits take for two.
const AGAIN: Duration = Duration::from_millis(60);
/// For programs to look up what keys mean before these mean something else.
const LOOKED_UP: Duration = Duration::from_millis(300);
/// Moves between the ends of a drag: programs begin one after a few pixels, and some want to see the way.
const WAY: i32 = 12;
const WHEEL_UP: u8 = 4;
const WHEEL_DOWN: u8 = 5;
const WHEEL_LEFT: u8 = 6;
const WHEEL_RIGHT: u8 = 7;

/// Keys and buttons that are down, until it is dropped.
#[derive(Debug)]
struct Down<'a> {
    display: &'a Display,
    pressed: Vec<(u8, u8)>,
}

impl<'a> Down<'a> {
    fn new(display: &'a Display) -> Self {
        Self {
            display,
            pressed: Vec::new(),
        }
    }

    fn key(&mut self, keycode: u8) -> Result<(), Fault> {
        self.press(KEY_PRESS_EVENT, KEY_RELEASE_EVENT, keycode)
    }

    fn button(&mut self, button: u8) -> Result<(), Fault> {
        self.press(BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, button)
    }

    fn press(&mut self, press: u8, release: u8, which: u8) -> Result<(), Fault> {
        // Entered first: an error may come after it was pressed, and a release too many harms nobody.
        self.pressed.push((release, which));
        self.display.fake(press, which)
    }

    /// Releases what was pressed last.
    fn up(&mut self) -> Result<(), Fault> {
        match self.pressed.pop() {
            Some((release, which)) => self.display.fake(release, which),
            None => Ok(()),
        }
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        while !self.pressed.is_empty() {
            // A connection that is lost has taken its input along.
            self.up().ok();
        }
    }
}

impl Display {
    pub(super) fn point(&self, at: Point) -> Result<(), Fault> {
        let along = |at: i32| i16::try_from(at.max(0)).unwrap_or(i16::MAX);
        let (x, y) = (along(at.x), along(at.y));
        self.input.xtest_fake_input(
            MOTION_NOTIFY_EVENT,
            0,
            x11rb::CURRENT_TIME,
            self.root,
            x,
            y,
            0,
        )?;
        self.reached()
    }

    pub(super) async fn click(&self, at: Point, click: &Click) -> Result<(), Fault> {
        self.point(at)?;
        self.choose_at(at)?;
        let mut down = Down::new(self);
        self.hold(&mut down, &click.held)?;
        let button = number(click.button);
        for time in 0..click.times {
            sleep(if time == 0 { BEAT } else { AGAIN }).await;
            down.button(button)?;
            sleep(BEAT).await;
            down.up()?;
        }
        drop(down);
        self.reached()
    }

    pub(super) async fn drag(
        &self,
        way: &[Point],
        button: Button,
        held: &[Keysym],
    ) -> Result<(), Fault> {
        let Some((first, rest)) = way.split_first() else {
            return Ok(());
        };
        self.point(*first)?;
        self.choose_at(*first)?;
        let mut down = Down::new(self);
        self.hold(&mut down, held)?;
        sleep(BEAT).await;
        down.button(number(button))?;
        sleep(BEAT).await;
        let mut from = *first;
        for to in rest {
            for step in 1..=WAY {
                let along = |from: i32, to: i32| from + (to - from) * step / WAY;
                self.point(Point {
                    x: along(from.x, to.x),
                    y: along(from.y, to.y),
                })?;
                sleep(BEAT).await;
            }
            from = *to;
        }
        // What is let go of at once is taken for a throw.
        sleep(BEAT * 4).await;
        drop(down);
        self.reached()
    }

    pub(super) async fn scroll(
        &self,
        at: Point,
        down: i32,
        right: i32,
        held: &[Keysym],
    ) -> Result<(), Fault> {
        self.point(at)?;
        let mut pressed = Down::new(self);
        self.hold(&mut pressed, held)?;
        let turns = [
            (
                if down < 0 { WHEEL_UP } else { WHEEL_DOWN },
                down.unsigned_abs(),
            ),
            (
                if right < 0 { WHEEL_LEFT } else { WHEEL_RIGHT },
                right.unsigned_abs(),
            ),
        ];
        for (wheel, notches) in turns {
            for _ in 0..notches {
                sleep(BEAT).await;
                pressed.button(wheel)?;
                pressed.up()?;
            }
        }
        drop(pressed);
        self.reached()
    }

    pub(super) async fn press(&self, chord: &Chord, times: u32) -> Result<(), Fault> {
        self.type_to()?;
        let stroke = self.strokes(&[chord.key])?[0];
        let mut down = Down::new(self);
        self.hold(&mut down, &chord.held)?;
        if stroke.shift && !chord.held.contains(&SHIFT) {
            self.hold(&mut down, &[SHIFT])?;
        }
        for _ in 0..times {
            sleep(BEAT).await;
            down.key(stroke.keycode)?;
            sleep(BEAT).await;
            down.up()?;
        }
        sleep(BEAT).await;
        drop(down);
        self.reached()
    }

    pub(super) async fn write(&self, text: &[Keysym]) -> Result<(), Fault> {
        self.type_to()?;
        let map = self.keymap()?;
        self.lent().refresh(map.to_lend());
        let room = self.lent().room();
        let parts = parts(text, room, |keysym| map.stroke(keysym).is_some());
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                sleep(LOOKED_UP).await;
            }
            let strokes = self.strokes(part)?;
            let mut down = Down::new(self);
            let mut is_shifted = false;
            for stroke in strokes {
                if stroke.shift != is_shifted {
                    if stroke.shift {
                        self.hold(&mut down, &[SHIFT])?;
                    } else {
                        down.up()?;
                    }
                    is_shifted = stroke.shift;
                }
                down.key(stroke.keycode)?;
                down.up()?;
                self.reached()?;
                sleep(CHARACTER).await;
            }
        }
        self.reached()
    }

    /// Presses keys that others are pressed with.
    fn hold(&self, down: &mut Down<'_>, held: &[Keysym]) -> Result<(), Fault> {
        let map = self.keymap()?;
        for keysym in held {
            let stroke = map.stroke(*keysym).ok_or(Fault::NoKeys)?;
            down.key(stroke.keycode)?;
        }
        Ok(())
    }

    /// How each of these is written. Keys are lent to those that no key has.
    fn strokes(&self, keysyms: &[Keysym]) -> Result<Vec<Stroke>, Fault> {
        let map = self.keymap()?;
        self.lent().refresh(map.to_lend());
        let mut strokes = Vec::with_capacity(keysyms.len());
        let mut is_changed = false;
        for keysym in keysyms {
            if let Some(stroke) = map.stroke(*keysym) {
                strokes.push(stroke);
                continue;
            }
            if is_modifier(*keysym) {
                return Err(Fault::NoKeys);
            }
            let (stroke, is_new) = self.lent().lend(*keysym).ok_or(Fault::NoKeys)?;
            if is_new {
                // In every column, so that it is the same whatever is held or locked, and in both tables: the
                // person's, which programs read, and ours, which goes with our keys.
                let columns = map.columns().max(2);
                let row = vec![*keysym; columns];
                let count = u8::try_from(columns).map_err(|_| Fault::NoKeys)?;
                for connection in [&self.person, &self.input] {
                    connection
                        .change_keyboard_mapping(1, stroke.keycode, count, &row)?
                        .check()?;
                }
                is_changed = true;
            }
            strokes.push(stroke);
        }
        if is_changed {
            self.reached()?;
        }
        Ok(strokes)
    }

    fn fake(&self, what: u8, which: u8) -> Result<(), Fault> {
        self.input
            .xtest_fake_input(what, which, x11rb::CURRENT_TIME, self.root, 0, 0, 0)?;
        self.input.flush()?;
        Ok(())
    }

    /// Returns when the server has taken in what was sent.
    fn reached(&self) -> Result<(), Fault> {
        // Any question will do: they are answered in order.
        self.input.get_input_focus()?.reply()?;
        Ok(())
    }

    /// Has what is typed go to the window that it should.
    fn type_to(&self) -> Result<(), Fault> {
        if self.has_own() {
            let window = self.typed_to()?;
            let now = self
                .input
                .xinput_xi_get_focus(self.keyboard)?
                .reply()?
                .focus;
            if window != x11rb::NONE && now != window {
                // One that is not shown cannot have it, and keeps what is typed from others.
                self.input
                    .xinput_xi_set_focus(window, x11rb::CURRENT_TIME, self.keyboard)?
                    .check()?;
            }
        }
        Ok(())
    }
}

/// A button as X has it. Those between are the wheel's.
fn number(button: Button) -> u8 {
    match button {
        Button::Left => 1,
        Button::Middle => 2,
        Button::Right => 3,
        Button::Back => 8,
        Button::Forward => 9,
    }
}
