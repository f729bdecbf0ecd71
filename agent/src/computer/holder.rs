//! Who holds the display: looks at it and acts on it for agents, one action at a time.

mod watched;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use serde::de::DeserializeOwned;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, sleep_until},
};

use super::{
    action::{Act, Look},
    backend::{Backend, Hands, Pixels, Window},
    deeds::{self, Deed},
    geometry::{Mapping, Rect, Size},
    outline::{self, Refs},
    picture,
    refusal::{Fault, Refusal},
};
use crate::lines;

pub(super) use self::watched::Seen;

/// What is told of, as messages have it.
const WHAT: &str = "screen";
/// Agents whose refs are kept. Those that were here longest ago are forgotten.
const SEATS_MAX: usize = 16;
/// How often it is looked for what is waited for.
const LOOK: Duration = Duration::from_millis(250);
const WAIT_DEFAULT_MS: u64 = 10_000;
const WAIT_MAX_MS: u64 = 60_000;

/// What is told, and shown.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) picture: Vec<u8>,
}

/// What an agent has seen.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) refs: Refs,
    /// How large the display was.
    pub(super) size: Option<Size>,
    /// The last snapshot, and the window that it was of.
    shown: Option<(Vec<String>, Option<u32>)>,
}

type SharedSeat = Arc<Mutex<Seat>>;

/// Makes a backend when one is needed.
type Connect = Box<dyn Fn(Hands) -> Result<Arc<dyn Backend>, Fault> + Send + Sync>;

/// The holder. Cheap to clone.
#[derive(Clone)]
pub(super) struct Holder(Arc<Inner>);

struct Inner {
    connect: Connect,
    backend: std::sync::Mutex<Option<Arc<dyn Backend>>>,
    /// Held while a person acts.
    watched: Arc<()>,
    /// By agent, with when each was here last.
    seats: std::sync::Mutex<HashMap<String, (Instant, SharedSeat)>>,
    acting: Mutex<()>,
    used: watch::Sender<Instant>,
    /// Calls under way.
    calls: Arc<()>,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self {
            text,
            picture: Vec::new(),
        }
    }
}

/// The display before something was done.
struct Before {
    pixels: Pixels,
    windows: Vec<Window>,
}

impl Holder {
    pub(super) fn new(
        connect: impl Fn(Hands) -> Result<Arc<dyn Backend>, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            connect: Box::new(connect),
            backend: std::sync::Mutex::default(),
            watched: Arc::default(),
            seats: std::sync::Mutex::default(),
            acting: Mutex::default(),
            used: watch::Sender::new(Instant::now()),
            calls: Arc::default(),
        }))
    }

    /// Does something for an agent.
    pub(super) async fn act(&self, agent_id: &str, args_json: &str) -> Result<Answer, Refusal> {
        let _call = self.called();
        let act: Act = read(args_json)?;
        let backend = self.backend()?;
        let seat = self.seat(agent_id);
        let _acting = self.0.acting.lock().await;
        let mut seat = seat.lock().await;
        let acted = Self::act_at(&*backend, &mut seat, &act).await;
        self.looked_over(acted)
    }

    /// Looks at something for an agent.
    pub(super) async fn look(&self, agent_id: &str, args_json: &str) -> Result<Answer, Refusal> {
        let _call = self.called();
        let look: Look = read(args_json)?;
        let backend = self.backend()?;
        let seat = self.seat(agent_id);
        let mut seat = seat.lock().await;
        let seen = Self::look_at(&*backend, &mut seat, &look).await;
        self.looked_over(seen)
    }

    /// Resolves when nobody has called for so long.
    pub(super) async fn idle(&self, idle: Duration) {
        let mut used = self.0.used.subscribe();
        loop {
            let until = *used.borrow_and_update() + idle;
            tokio::select! {
                // The sender is ours.
                _ = used.changed() => {}
                () = sleep_until(until) => {
                    if Arc::strong_count(&self.0.calls) == 1 {
                        return;
                    }
                    self.0.used.send_replace(Instant::now());
                }
            }
        }
    }

    async fn act_at(backend: &dyn Backend, seat: &mut Seat, act: &Act) -> Result<Answer, Refusal> {
        let size = backend.size().await?;
        let mapping = Mapping::of(size.whole());
        let before = Before {
            pixels: backend.pixels(size.whole()).await?,
            windows: backend.windows().await?,
        };
        let mut deed = Deed {
            backend,
            seat: &mut *seat,
            mapping,
        };
        let done = match deed.done(act).await {
            Err(Refusal::Stale { reference, was, .. }) => {
                let changes = Self::changes(backend, seat, mapping)
                    .await?
                    .unwrap_or_default();
                return Err(Refusal::Stale {
                    reference,
                    was,
                    changes,
                });
            }
            done => done?,
        };
        let mut told = format!("[{}]", done.note);
        if done.is_still {
            return Ok(told.into());
        }
        backend.settled().await?;
        // An agent that works by pictures does not wait for what it does not read.
        let changes = Self::changes(backend, seat, mapping).await?;
        let windows = backend.windows().await?;
        told.push_str(&window_changes(&before.windows, &windows));
        told.push_str(&changes.unwrap_or_default());
        let area = backend.size().await?.whole();
        let after = backend.pixels(area).await?;
        match picture::changed(&before.pixels, &after) {
            Some(area) => {
                let area = place(mapping.rect_in_picture(area));
                told.extend(["\n[what is seen has changed in ", &area, "]"]);
            }
            None => told.push_str("\n[nothing that is seen has changed]"),
        }
        Ok(told.into())
    }

    async fn look_at(
        backend: &dyn Backend,
        seat: &mut Seat,
        look: &Look,
    ) -> Result<Answer, Refusal> {
        let size = backend.size().await?;
        let mapping = Mapping::of(size.whole());
        seat.size = Some(size);
        match look {
            Look::Snapshot {
                window,
                offset,
                find,
            } => {
                let windows = backend.windows().await?;
                let window = match window {
                    Some(name) => Some(deeds::find(&windows, name)?),
                    None => windows.iter().find(|window| window.is_active),
                };
                let tree = backend.elements(window).await?;
                let shown = outline::lines(&tree, &mut seat.refs, mapping);
                let mut told = outline::window_lines(&windows, mapping).join("\n");
                told.push('\n');
                match find {
                    Some(text) => {
                        let found = lines::matching(&shown, text);
                        told.push_str(&lines::part(&found, *offset, WHAT));
                    }
                    None => told.push_str(&lines::part(&shown, *offset, WHAT)),
                }
                for note in &tree.notes {
                    told.extend(["\n[", note, "]"]);
                }
                seat.shown = Some((shown, window.map(|window| window.id)));
                Ok(told.into())
            }
            Look::Screenshot { area } => {
                let (shown, to, told) = match area {
                    Some(area) => part_of(*area, mapping)?,
                    None => {
                        let pointer = mapping.in_picture(backend.pointer().await?);
                        let Size { width, height } = mapping.picture;
                        let told = format!(
                            "[the display; places are pixels of this picture, of {width} x {height}; your pointer \
                             is at ({},{})]",
                            pointer.x, pointer.y
                        );
                        (mapping.area, mapping.picture, told)
                    }
                };
                let pixels = picture::scaled(&backend.pixels(shown).await?, to);
                let picture =
                    picture::png(&pixels).map_err(|error| Refusal::Arguments(error.to_string()))?;
                Ok(Answer {
                    text: told,
                    picture,
                })
            }
            Look::Windows {} => {
                let windows = backend.windows().await?;
                let shown = outline::window_lines(&windows, mapping);
                Ok(lines::part(&shown, 0, WHAT).into())
            }
            Look::Wait {
                text,
                gone,
                timeout_ms,
            } => {
                let timeout_ms = timeout_ms.unwrap_or(WAIT_DEFAULT_MS).min(WAIT_MAX_MS);
                let until = Instant::now() + Duration::from_millis(timeout_ms);
                if text.is_none() && gone.is_none() {
                    backend.settled().await?;
                    return Ok("[what is seen does not change]".to_owned().into());
                }
                loop {
                    let windows = backend.windows().await?;
                    let tree = backend.elements(None).await?;
                    let mut shown = outline::window_lines(&windows, mapping);
                    shown.extend(outline::lines(&tree, &mut seat.refs, mapping));
                    let has = |text: &String| !lines::matching(&shown, text).is_empty();
                    if text.as_ref().is_none_or(has) && !gone.as_ref().is_some_and(has) {
                        let found = text.as_ref().map(|text| lines::matching(&shown, text));
                        let told = found.map_or_else(
                            || "[it is gone]".to_owned(),
                            |found| lines::part(&found, 0, WHAT),
                        );
                        return Ok(told.into());
                    }
                    if Instant::now() >= until {
                        return Err(Refusal::NotInTime(timeout_ms));
                    }
                    sleep(LOOK).await;
                }
            }
        }
    }

    /// What elements have changed, for an agent that has taken a snapshot.
    async fn changes(
        backend: &dyn Backend,
        seat: &mut Seat,
        mapping: Mapping,
    ) -> Result<Option<String>, Refusal> {
        let Some((before, window)) = seat.shown.take() else {
            return Ok(None);
        };
        let windows = backend.windows().await?;
        let same = windows.iter().find(|one| Some(one.id) == window);
        let active = windows.iter().find(|window| window.is_active);
        // Of the program that was looked at; of the one that is in use if that is gone.
        let (scope, is_same) = match (same, active) {
            (Some(same), Some(active)) if same.pid != active.pid => (Some(active), false),
            (Some(same), _) => (Some(same), true),
            (None, active) => (active, window.is_none()),
        };
        let tree = match backend.elements(scope).await {
            Ok(tree) => tree,
            // It was done all the same.
            Err(fault) => return Ok(Some(format!("\n[the elements could not be read: {fault}]"))),
        };
        let after = outline::lines(&tree, &mut seat.refs, mapping);
        let told = if is_same {
            lines::changes(&before, &after, WHAT)
        } else {
            lines::part(&after, 0, WHAT)
        };
        seat.shown = Some((after, scope.map(|window| window.id)));
        Ok(Some(format!("\n{told}")))
    }

    /// Forgets a display that is lost: the next call looks for another.
    fn looked_over<T>(&self, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        self.0.used.send_replace(Instant::now());
        if let Err(Refusal::Fault(Fault::Lost(_))) = &answer {
            self.let_go();
        }
        answer
    }

    fn let_go(&self) {
        let mut backend = self
            .0
            .backend
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *backend = None;
    }

    fn backend(&self) -> Result<Arc<dyn Backend>, Fault> {
        let mut backend = self
            .0
            .backend
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(backend) = &*backend {
            return Ok(Arc::clone(backend));
        }
        let hands = if Arc::strong_count(&self.0.watched) > 1 {
            Hands::None
        } else {
            Hands::Own
        };
        let connected = (self.0.connect)(hands)?;
        *backend = Some(Arc::clone(&connected));
        Ok(connected)
    }

    fn seat(&self, agent_id: &str) -> SharedSeat {
        let mut seats = self.0.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.len() >= SEATS_MAX && !seats.contains_key(agent_id) {
            let oldest = seats.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| seats.remove(&id));
        }
        let seat = seats
            .entry(agent_id.to_owned())
            .or_insert_with(|| (Instant::now(), Arc::default()));
        seat.0 = Instant::now();
        Arc::clone(&seat.1)
    }

    /// Marks a call, until it is dropped.
    fn called(&self) -> Arc<()> {
        self.0.used.send_replace(Instant::now());
        Arc::clone(&self.0.calls)
    }
}

/// A part of the display that a model names in pixels of the whole picture.
fn part_of(area: [i32; 4], mapping: Mapping) -> Result<(Rect, Size, String), Refusal> {
    let [x, y, width, height] = area;
    let length = |length: i32| u32::try_from(length).ok().filter(|length| *length > 0);
    let whole = mapping.picture.whole();
    let asked = length(width)
        .zip(length(height))
        .and_then(|(width, height)| {
            let asked = Rect {
                x,
                y,
                width,
                height,
            };
            asked.shared(whole)
        });
    let asked = asked.ok_or(Refusal::Outside {
        x,
        y,
        width: whole.width,
        height: whole.height,
    })?;
    // The whole picture seen as a display, and the display as its picture.
    let back = Mapping {
        area: whole,
        picture: Size {
            width: mapping.area.width,
            height: mapping.area.height,
        },
    };
    let shown = back.rect_in_picture(asked);
    let shown = shown.shared(mapping.area).unwrap_or(mapping.area);
    let size = Mapping::of(shown).picture;
    let to = picture::enlarged(size);
    let told = format!(
        "[{}, by itself; for actions give places in pixels of the picture of the whole display]",
        place(asked)
    );
    Ok((shown, to, told))
}

fn place(rect: Rect) -> String {
    format!("({},{} {}x{})", rect.x, rect.y, rect.width, rect.height)
}

/// Which windows came, went and came to the front.
fn window_changes(before: &[Window], after: &[Window]) -> String {
    let name = |window: &Window| {
        let title = lines::quoted(&lines::plain(&window.title, 120));
        format!("{title} [{}]", outline::window_name(window.id))
    };
    let has = |windows: &[Window], id: u32| windows.iter().any(|window| window.id == id);
    let mut told = String::new();
    for window in after.iter().filter(|window| !has(before, window.id)) {
        told.extend(["\n[window ", &name(window), " has opened]"]);
    }
    for window in before.iter().filter(|window| !has(after, window.id)) {
        told.extend(["\n[window ", &name(window), " has closed]"]);
    }
    let active = |windows: &[Window]| {
        windows
            .iter()
            .find(|window| window.is_active)
            .map(|window| window.id)
    };
    if active(before) != active(after)
        && let Some(window) = after.iter().find(|window| window.is_active)
    {
        told.extend(["\n[what is typed goes to ", &name(window), "]"]);
    }
    told
}

fn read<T: DeserializeOwned>(args_json: &str) -> Result<T, Refusal> {
    serde_json::from_str(args_json).map_err(|error| Refusal::Arguments(error.to_string()))
}
