//! Windows of programs, and which of them gets what is typed.

use std::sync::PoisonError;

use x11rb::{
    properties::{WmClass, WmHints},
    protocol::{
        xinput::ConnectionExt as _,
        xproto::{AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask},
    },
};

use super::{
    super::{
        backend::Window,
        geometry::{Point, Rect},
        refusal::Fault,
    },
    display::Display,
};

/// More are not listed.
const WINDOWS_MAX: u32 = 256;
/// Of a title that are read, in units of four bytes.
const TITLE_WORDS_MAX: u32 = 256;
/// A wider shadow is none.
const MARGIN_PX_MAX: u32 = 200;
/// A request of somebody who is no program's own: a pager's.
const FROM_PAGER: u32 = 2;
const ABOVE: u32 = 0;
/// Windows in windows that are looked through: frames of window managers have two or three.
const DEPTH_MAX: usize = 8;

impl Display {
    /// The windows that the window manager knows, the lowest first.
    pub(super) fn windows(&self) -> Result<Vec<Window>, Fault> {
        let active = if self.has_own() {
            self.typed_to()?
        } else {
            self.active()?
        };
        let list = self.numbers(self.root, self.atoms._NET_CLIENT_LIST_STACKING, WINDOWS_MAX)?;
        // One that closes meanwhile is not one any more.
        Ok(list
            .into_iter()
            .filter_map(|id| self.window(id, active).ok())
            .collect())
    }

    /// Brings a window to the front without its becoming the person's, if it is shown at all.
    pub(super) fn bring(&self, window: u32) -> Result<(), Fault> {
        if self.has_own() && !self.is_hidden(window)? {
            self.ask(
                window,
                self.atoms._NET_RESTACK_WINDOW,
                [FROM_PAGER, x11rb::NONE, ABOVE, 0, 0],
            )?;
            self.choose(window)?;
            return Ok(());
        }
        self.ask(
            window,
            self.atoms._NET_ACTIVE_WINDOW,
            [FROM_PAGER, 0, 0, 0, 0],
        )
    }

    /// Has what is typed go to the window at a place, as a click on it does.
    pub(super) fn choose_at(&self, at: Point) -> Result<(), Fault> {
        if !self.has_own() {
            // The window manager sees to it.
            return Ok(());
        }
        let along = |at: i32| i16::try_from(at).unwrap_or(i16::MAX);
        let (x, y) = (along(at.x), along(at.y));
        let list = self.numbers(self.root, self.atoms._NET_CLIENT_LIST_STACKING, WINDOWS_MAX)?;
        let mut window = self.root;
        for _ in 0..DEPTH_MAX {
            let below = self
                .input
                .translate_coordinates(self.root, window, x, y)?
                .reply()?;
            if below.child == x11rb::NONE {
                // A menu or the background: what is typed goes where it went.
                return Ok(());
            }
            window = below.child;
            if list.contains(&window) {
                let hints = WmHints::get(&self.input, window)?.reply_unchecked()?;
                if hints.and_then(|hints| hints.input) != Some(false) {
                    self.choose(window)?;
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// The window that gets what is typed: the one that was chosen, until another becomes active, as a dialog does
    /// that opens.
    pub(super) fn typed_to(&self) -> Result<u32, Fault> {
        let active = self.active()?;
        let chosen = *self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((window, was_active)) = chosen
            && was_active == active
            && self
                .numbers(self.root, self.atoms._NET_CLIENT_LIST_STACKING, WINDOWS_MAX)?
                .contains(&window)
        {
            return Ok(window);
        }
        Ok(active)
    }

    fn choose(&self, window: u32) -> Result<(), Fault> {
        let active = self.active()?;
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some((window, active));
        // One that is not shown yet is given it when something is typed.
        let set = self
            .input
            .xinput_xi_set_focus(window, x11rb::CURRENT_TIME, self.keyboard)?;
        if let Err(error) = set.check() {
            tracing::debug!(%error, window, "no focus yet");
        }
        Ok(())
    }

    /// The window that the person's keyboard is at.
    fn active(&self) -> Result<u32, Fault> {
        let active = self.numbers(self.root, self.atoms._NET_ACTIVE_WINDOW, 1)?;
        Ok(active.first().copied().unwrap_or(x11rb::NONE))
    }

    fn window(&self, id: u32, active: u32) -> Result<Window, Fault> {
        let geometry = self.input.get_geometry(id)?.reply()?;
        let origin = self
            .input
            .translate_coordinates(id, self.root, 0, 0)?
            .reply()?;
        let title = self.text(id, self.atoms._NET_WM_NAME, self.atoms.UTF8_STRING)?;
        let title = if title.is_empty() {
            self.text(id, AtomEnum::WM_NAME.into(), AtomEnum::ANY.into())?
        } else {
            title
        };
        let class = WmClass::get(&self.input, id)?.reply_unchecked()?;
        let program = class.map(|class| String::from_utf8_lossy(class.instance()).into_owned());
        // Shadows that a program draws around its window are no part of it: left, right, top, bottom.
        let shadows = self.numbers(id, self.atoms._GTK_FRAME_EXTENTS, 4)?;
        let shadow = |at: usize| shadows.get(at).copied().unwrap_or(0).min(MARGIN_PX_MAX);
        let without = |length: u16, around: u32| u32::from(length).saturating_sub(around);
        let margin = |at: usize| i32::try_from(shadow(at)).unwrap_or(0);
        Ok(Window {
            id,
            title,
            program: program.unwrap_or_default(),
            pid: self
                .numbers(id, self.atoms._NET_WM_PID, 1)?
                .first()
                .copied(),
            frame: Rect {
                x: i32::from(origin.dst_x) + margin(0),
                y: i32::from(origin.dst_y) + margin(2),
                width: without(geometry.width, shadow(0) + shadow(1)),
                height: without(geometry.height, shadow(2) + shadow(3)),
            },
            is_active: id == active,
            is_hidden: self.is_hidden(id)?,
        })
    }

    fn is_hidden(&self, window: u32) -> Result<bool, Fault> {
        let states = self.numbers(window, self.atoms._NET_WM_STATE, 16)?;
        Ok(states.contains(&self.atoms._NET_WM_STATE_HIDDEN))
    }

    fn ask(&self, window: u32, what: u32, data: [u32; 5]) -> Result<(), Fault> {
        let message = ClientMessageEvent::new(32, window, what, data);
        let to = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
        self.input
            .send_event(false, self.root, to, message)?
            .check()?;
        Ok(())
    }

    fn numbers(&self, window: u32, property: u32, count: u32) -> Result<Vec<u32>, Fault> {
        let any = AtomEnum::ANY;
        let reply = self
            .input
            .get_property(false, window, property, any, 0, count)?
            .reply()?;
        Ok(reply.value32().map(Iterator::collect).unwrap_or_default())
    }

    fn text(&self, window: u32, property: u32, kind: u32) -> Result<String, Fault> {
        let reply = self
            .input
            .get_property(false, window, property, kind, 0, TITLE_WORDS_MAX)?
            .reply()?;
        Ok(String::from_utf8_lossy(&reply.value).into_owned())
    }
}
