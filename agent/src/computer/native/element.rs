//! One element of a program: what it is, where it is, what can be done with it.

use futures::join;

use super::{
    super::{
        backend::{Element, Token, Window},
        geometry::Rect,
        refusal::Fault,
    },
    bus::{ACCESSIBLE, ACTION, Bus, COMPONENT, EDITABLE, TEXT, VALUE},
};

/// Of what an element holds that are read.
const VALUE_CHARS_MAX: i32 = 2_000;
/// Names of what a click on an element does. An entry's `activate` presses Enter, and others open menus.
const CLICKS: [&str; 12] = [
    "click",
    "press",
    "push",
    "toggle",
    "jump",
    "select",
    "check",
    "uncheck",
    "dodefault",
    "open",
    "switch",
    "click ancestor",
];
/// As the protocol has them, wherever that makes it visible.
const ANYWHERE: u32 = 6;
/// Of places: the display's, and the window's.
pub(super) const ON_DISPLAY: u32 = 0;
pub(super) const IN_WINDOW: u32 = 1;

/// States, by their number in the protocol and the word that is told.
const STATES: [(u32, &str); 16] = [
    (1, "active"),
    (3, "busy"),
    (4, "checked"),
    (5, "collapsed"),
    (7, "editable"),
    (10, "expanded"),
    (12, "focused"),
    (16, "modal"),
    (20, "pressed"),
    (23, "selected"),
    (32, "mixed"),
    (33, "required"),
    (36, "invalid"),
    (39, "default"),
    (42, "has popup"),
    (43, "read-only"),
];
const ENABLED: u32 = 8;
const SENSITIVE: u32 = 24;
const SHOWING: u32 = 25;
const VISIBLE: u32 = 30;
const FOCUSABLE: u32 = 11;
const FOCUSED: u32 = 12;
const EDITABLE_STATE: u32 = 7;
const MANAGES_DESCENDANTS: u32 = 31;

/// An element as its program tells it.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) role: String,
    pub(super) name: String,
    states: u64,
    pub(super) interfaces: Vec<String>,
    /// As it was asked for.
    pub(super) frame: Option<Rect>,
}

/// How a program speaks of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// What its places are asked for.
    pub(super) kind: u32,
    /// From there to the display's.
    pub(super) right: i32,
    pub(super) down: i32,
    /// It says of each element whether that is shown. GTK 4 says so only of windows.
    pub(super) tells_showing: bool,
}

impl Dialect {
    /// What the protocol has in mind.
    pub(super) const USUAL: Self = Self {
        kind: ON_DISPLAY,
        right: 0,
        down: 0,
        tells_showing: true,
    };
}

impl Facts {
    pub(super) async fn read(bus: &Bus, token: &Token, dialect: Dialect) -> Result<Self, Fault> {
        let kind = (dialect.kind,);
        let (role, name, states, interfaces, frame) = join!(
            bus.ask::<_, String>(token, ACCESSIBLE, "GetRoleName", &()),
            bus.property::<String>(token, ACCESSIBLE, "Name"),
            bus.ask::<_, Vec<u32>>(token, ACCESSIBLE, "GetState", &()),
            bus.ask::<_, Vec<String>>(token, ACCESSIBLE, "GetInterfaces", &()),
            bus.ask::<_, (i32, i32, i32, i32)>(token, COMPONENT, "GetExtents", &kind),
        );
        let words = states?;
        let word = |at: usize| words.get(at).copied().map_or(0, u64::from);
        // Not everything has a place, and some have one without an extent.
        let frame = frame.ok().and_then(|(x, y, width, height)| {
            let size = |length: i32| u32::try_from(length).ok().filter(|length| *length > 0);
            Some(Rect {
                x: x.checked_add(dialect.right)?,
                y: y.checked_add(dialect.down)?,
                width: size(width)?,
                height: size(height)?,
            })
        });
        Ok(Self {
            role: role?,
            name: name.unwrap_or_default(),
            states: word(0) | (word(1) << 32),
            interfaces: interfaces.unwrap_or_default(),
            frame,
        })
    }

    fn is(&self, state: u32) -> bool {
        self.states & (1 << state) != 0
    }

    pub(super) fn is_showing(&self, dialect: Dialect) -> bool {
        self.is(if dialect.tells_showing {
            SHOWING
        } else {
            VISIBLE
        })
    }

    pub(super) fn has_endless_children(&self) -> bool {
        self.is(MANAGES_DESCENDANTS)
    }

    /// It only holds others, and nobody would call it by anything.
    pub(super) fn is_noise(&self) -> bool {
        const NOISE: [&str; 14] = [
            "filler",
            "panel",
            "section",
            "unknown",
            "redundant object",
            "layered pane",
            "scroll pane",
            "viewport",
            "grouping",
            "root pane",
            "split pane",
            "generic",
            "group",
            "client widget",
        ];
        self.name.is_empty() && !self.is(FOCUSABLE) && NOISE.contains(&self.role.as_str())
    }

    fn has(&self, interface: &str) -> bool {
        self.interfaces.iter().any(|one| one == interface)
    }

    /// Text can be written into it, and may be told.
    pub(super) fn is_field(&self) -> bool {
        self.is(EDITABLE_STATE) && self.has(TEXT) && !self.is_secret() && self.role != "terminal"
    }

    pub(super) fn is_focused(&self) -> bool {
        self.is(FOCUSED)
    }

    fn is_secret(&self) -> bool {
        self.role.contains("password")
    }

    /// What it holds.
    pub(super) async fn value(&self, bus: &Bus, token: &Token) -> Option<String> {
        if self.is_secret() {
            return None;
        }
        let is_text =
            self.is(EDITABLE_STATE) || matches!(self.role.as_str(), "terminal" | "text" | "entry");
        if self.has(TEXT) && is_text {
            let text: String = bus
                .ask(token, TEXT, "GetText", &(0_i32, VALUE_CHARS_MAX))
                .await
                .ok()?;
            return Some(text);
        }
        if self.has(VALUE) && self.role != "scroll bar" {
            let value: f64 = bus.property(token, VALUE, "CurrentValue").await.ok()?;
            return Some(value.to_string());
        }
        None
    }

    pub(super) async fn element(self, bus: &Bus, token: Token, depth: usize) -> Element {
        let value = self.value(bus, &token).await;
        let states = STATES.iter().filter(|(state, _)| self.is(*state));
        let mut states: Vec<_> = states.map(|(_, word)| *word).collect();
        let is_enabled = self.is(ENABLED) || self.is(SENSITIVE);
        if !is_enabled && self.is(FOCUSABLE) {
            states.push("disabled");
        }
        Element {
            token,
            depth,
            role: self.role,
            name: self.name,
            value,
            states,
            is_enabled,
            frame: self.frame,
            untold: 0,
        }
    }
}

/// An element as it is now.
pub(super) async fn now(bus: &Bus, token: &Token, windows: &[Window]) -> Result<Element, Fault> {
    let dialect = super::walk::dialect_of(bus, token, windows).await;
    let facts = Facts::read(bus, token, dialect).await?;
    let is_showing = facts.is_showing(dialect);
    let mut element = facts.element(bus, token.clone(), 0).await;
    if !is_showing {
        element.frame = None;
    }
    Ok(element)
}

/// Does what a click is for. False: it has no such action, or says that it did nothing.
pub(super) async fn invoke(bus: &Bus, token: &Token) -> Result<bool, Fault> {
    // Name, what it does, keys for it.
    let actions: Result<Vec<(String, String, String)>, Fault> =
        bus.ask(token, ACTION, "GetActions", &()).await;
    let Ok(actions) = actions else {
        return Ok(false);
    };
    let found = actions.iter().position(|(name, ..)| {
        let name = name.to_lowercase();
        CLICKS.contains(&name.as_str())
    });
    match found.and_then(|at| i32::try_from(at).ok()) {
        Some(at) => bus.ask(token, ACTION, "DoAction", &(at,)).await,
        None => Ok(false),
    }
}

/// Puts a value in the place of the one that is there.
pub(super) async fn set(bus: &Bus, token: &Token, value: &str) -> Result<bool, Fault> {
    let interfaces: Vec<String> = bus.ask(token, ACCESSIBLE, "GetInterfaces", &()).await?;
    let has = |interface: &str| interfaces.iter().any(|one| one == interface);
    if has(EDITABLE) {
        return bus.ask(token, EDITABLE, "SetTextContents", &(value,)).await;
    }
    if has(VALUE)
        && let Ok(number) = value.trim().parse::<f64>()
    {
        bus.set_property(token, VALUE, "CurrentValue", number)
            .await?;
        return Ok(true);
    }
    Ok(false)
}

pub(super) async fn reveal(bus: &Bus, token: &Token) -> Result<bool, Fault> {
    match bus.ask(token, COMPONENT, "ScrollTo", &(ANYWHERE,)).await {
        Ok(done) => Ok(done),
        Err(Fault::Gone) => Err(Fault::Gone),
        // Older programs know no such thing.
        Err(_) => Ok(false),
    }
}
