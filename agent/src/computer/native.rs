//! Our own way to a display: the X server's input and pictures, and what programs tell of their elements.

mod bus;
mod display;
mod element;
mod input;
mod typed;
mod walk;
mod windows;

use std::time::Duration;

use async_trait::async_trait;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

use self::{bus::Bus, display::Display};
use super::{
    backend::{Backend, Button, Click, Element, Hands, Pixels, Token, Tree, Typing, Window},
    geometry::{Point, Rect, Size},
    keys::{Chord, Keysym},
    refusal::Fault,
};

pub(super) use self::display::{look, put_away};

/// How often it is looked whether something was drawn.
const LOOK: Duration = Duration::from_millis(15);
/// What a program begins to draw later than this is not waited for.
const FIRST: Duration = Duration::from_millis(400);
/// Nothing drawn for so long counts as done. A caret blinks more slowly.
const QUIET: Duration = Duration::from_millis(150);
/// Longest wait, for what never is done: a film.
const SETTLE_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Native {
    display: Display,
    /// Made when elements are first asked for.
    bus: OnceCell<Bus>,
}

impl Native {
    /// The display and the session bus that the environment names.
    pub(super) fn connect(hands: Hands) -> Result<Self, Fault> {
        Ok(Self {
            display: Display::connect(hands)?,
            bus: OnceCell::new(),
        })
    }

    async fn bus(&self) -> Result<&Bus, Fault> {
        self.bus.get_or_try_init(Bus::connect).await
    }
}

#[async_trait]
impl Backend for Native {
    async fn size(&self) -> Result<Size, Fault> {
        self.display.size()
    }

    async fn pixels(&self, area: Rect) -> Result<Pixels, Fault> {
        self.display.pixels(area)
    }

    async fn windows(&self) -> Result<Vec<Window>, Fault> {
        self.display.windows()
    }

    async fn bring(&self, window: u32) -> Result<(), Fault> {
        self.display.bring(window)
    }

    async fn elements(&self, window: Option<&Window>) -> Result<Tree, Fault> {
        let area = self.display.size()?.whole();
        let windows = self.display.windows()?;
        walk::tree(self.bus().await?, window, &windows, area).await
    }

    async fn element(&self, token: &Token) -> Result<Element, Fault> {
        let windows = self.display.windows()?;
        element::now(self.bus().await?, token, &windows).await
    }

    async fn owner(&self, token: &Token) -> Result<Option<u32>, Fault> {
        self.bus().await?.pid(&token.program).await.map(Some)
    }

    async fn invoke(&self, token: &Token) -> Result<bool, Fault> {
        element::invoke(self.bus().await?, token).await
    }

    async fn set(&self, token: &Token, value: &str) -> Result<bool, Fault> {
        element::set(self.bus().await?, token, value).await
    }

    async fn reveal(&self, token: &Token) -> Result<bool, Fault> {
        element::reveal(self.bus().await?, token).await
    }

    async fn point(&self, at: Point) -> Result<(), Fault> {
        self.display.point(at)
    }

    async fn click(&self, at: Point, click: &Click) -> Result<(), Fault> {
        self.display.click(at, click).await
    }

    async fn drag(&self, way: &[Point], button: Button, held: &[Keysym]) -> Result<(), Fault> {
        self.display.drag(way, button, held).await
    }

    async fn scroll(&self, at: Point, down: i32, right: i32, held: &[Keysym]) -> Result<(), Fault> {
        self.display.scroll(at, down, right, held).await
    }

    async fn press(&self, chord: &Chord, times: u32) -> Result<(), Fault> {
        self.display.press(chord, times).await
    }

    async fn write(&self, text: &[Keysym]) -> Result<(), Fault> {
        self.display.write(text).await
    }

    async fn pointer(&self) -> Result<Point, Fault> {
        self.display.pointer()
    }

    async fn typing(&self) -> Result<Typing, Fault> {
        typed::begin().await
    }

    async fn settled(&self) -> Result<(), Fault> {
        let began = Instant::now();
        let mut last = None;
        loop {
            if self.display.has_drawn()? {
                last = Some(Instant::now());
            }
            let is_quiet = match last {
                Some(last) => last.elapsed() >= QUIET,
                None => began.elapsed() >= FIRST,
            };
            if is_quiet || began.elapsed() >= SETTLE_MAX {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}
