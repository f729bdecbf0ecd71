//! What looks at a display and acts on it: the one interface, whatever stands behind it.

use std::fmt;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    geometry::{Point, Rect, Size},
    keys::{Chord, Keysym},
    refusal::Fault,
};

/// Looks at one display and gives it input.
///
/// * Places are pixels of the display. A place outside of it is taken to the nearest edge.
/// * Input is in the server when a call returns; [`Backend::settled`] waits for what programs make of it.
/// * **Nothing stays down.** Keys and buttons that a call presses are released when it returns, when its future is
///   dropped half way, and when the process ends in whatever way.
/// * **Nobody else's pointer or keyboard is used** where the display can tell them apart: the person's pointer stays
///   where it is. A window manager that gives what is clicked the person's focus does so for these clicks, too.
/// * Calls that give input are made one at a time; looking may go on beside them.
/// * A program that does not answer costs a second or two, not the call: its elements are missing, and said to be.
/// * An element that is gone is [`Fault::Gone`]. A token never comes to mean another element.
/// * Nothing is tried again here. A call that failed may have been done in part.
#[async_trait]
pub(super) trait Backend: fmt::Debug + Send + Sync {
    /// How large the display is at this moment.
    async fn size(&self) -> Result<Size, Fault>;

    /// The pixels of a part that lies within the display, without anybody's pointer.
    async fn pixels(&self, area: Rect) -> Result<Pixels, Fault>;

    /// Windows of programs, the one behind all others first.
    async fn windows(&self) -> Result<Vec<Window>, Fault>;

    /// Brings a window to the front, and what is typed from here on to it.
    async fn bring(&self, window: u32) -> Result<(), Fault>;

    /// What is shown of the elements of the program that a window belongs to, as far as it tells them. `None`: of
    /// all programs.
    async fn elements(&self, window: Option<&Window>) -> Result<Tree, Fault>;

    /// An element as it is now.
    async fn element(&self, token: &Token) -> Result<Element, Fault>;

    /// The process whose element it is, where that is known.
    async fn owner(&self, token: &Token) -> Result<Option<u32>, Fault>;

    /// Does what a click on an element is for, without a pointer. False: it cannot be done so.
    async fn invoke(&self, token: &Token) -> Result<bool, Fault>;

    /// Puts a value in the place of an element's own. False: it takes none.
    async fn set(&self, token: &Token, value: &str) -> Result<bool, Fault>;

    /// Has an element scrolled into view. False: that is not known to have happened.
    async fn reveal(&self, token: &Token) -> Result<bool, Fault>;

    /// Moves the pointer. To where it is already, it is done at once.
    async fn point(&self, at: Point) -> Result<(), Fault>;

    /// Presses and releases a button some times at a place, with keys held.
    async fn click(&self, at: Point, click: &Click) -> Result<(), Fault>;

    /// Presses a button at the first of these places and releases it at the last, with keys held.
    async fn drag(&self, way: &[Point], button: Button, held: &[Keysym]) -> Result<(), Fault>;

    /// Turns the wheel over a place: notches down and to the right.
    async fn scroll(&self, at: Point, down: i32, right: i32, held: &[Keysym]) -> Result<(), Fault>;

    /// Presses a key with what is held, some times.
    async fn press(&self, chord: &Chord, times: u32) -> Result<(), Fault>;

    /// Writes characters, each exactly, whatever the keyboard's layout is.
    async fn write(&self, text: &[Keysym]) -> Result<(), Fault>;

    /// Where the pointer is that input moves.
    async fn pointer(&self) -> Result<Point, Fault>;

    /// Begins to watch what somebody writes into fields.
    async fn typing(&self) -> Result<Typing, Fault>;

    /// Resolves when what the display shows has not changed for a moment, or after some seconds.
    async fn settled(&self) -> Result<(), Fault>;
}

/// Whether agents have a pointer and a keyboard on a display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hands {
    Own,
    /// A person acts. Chromium listens to the keyboard that came last, so there must not be another than theirs.
    None,
}

/// Which element, for as long as the program has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token {
    /// The program.
    pub(super) program: String,
    pub(super) path: String,
}

/// An element of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) token: Token,
    /// How many elements it is in, of those that are told.
    pub(super) depth: usize,
    pub(super) role: String,
    pub(super) name: String,
    /// What it holds, where that is told: a text, a number. Never of passwords.
    pub(super) value: Option<String>,
    /// Words such as `focused`.
    pub(super) states: Vec<&'static str>,
    pub(super) is_enabled: bool,
    /// Where it is on the display.
    pub(super) frame: Option<Rect>,
    /// Elements in it that are not told.
    pub(super) untold: u32,
}

/// The elements of programs, each behind those that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) elements: Vec<Element>,
    /// Why something is missing.
    pub(super) notes: Vec<String>,
}

/// A window of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) id: u32,
    pub(super) title: String,
    /// What the program is called.
    pub(super) program: String,
    pub(super) pid: Option<u32>,
    pub(super) frame: Rect,
    /// What is typed goes to it.
    pub(super) is_active: bool,
    /// It is not shown, as when it is minimized.
    pub(super) is_hidden: bool,
}

/// A field that was written into, and what it holds by now. Never one for passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) role: String,
    pub(super) name: String,
    pub(super) text: String,
}

/// Watches what somebody writes, until it is dropped.
#[derive(Debug)]
pub(super) struct Typing {
    until: DropGuard,
    watching: JoinHandle<Vec<Typed>>,
}

impl Typing {
    /// `watch` works until it is told to end.
    pub(super) fn new<F>(watch: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Vec<Typed>> + Send + 'static,
    {
        let until = CancellationToken::new();
        let watching = tokio::spawn(watch(until.clone()));
        Self {
            until: until.drop_guard(),
            watching,
        }
    }

    /// Ends it and returns what was written.
    pub(super) async fn end(self) -> Vec<Typed> {
        drop(self.until);
        self.watching.await.unwrap_or_default()
    }
}

/// Pixels of a part of a display, row by row: red, green, blue.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) size: Size,
    pub(super) rgb: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Click {
    pub(super) button: Button,
    pub(super) times: u32,
    pub(super) held: Vec<Keysym>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Button {
    #[default]
    Left,
    Middle,
    Right,
    Back,
    Forward,
}

impl fmt::Debug for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pixels({} x {})", self.size.width, self.size.height)
    }
}

impl Element {
    /// What it is and what it is called, as messages have it.
    pub(super) fn told(&self) -> String {
        if self.name.is_empty() {
            self.role.clone()
        } else {
            format!("{} \"{}\"", self.role, self.name)
        }
    }
}
