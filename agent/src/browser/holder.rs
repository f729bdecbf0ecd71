//! Who holds the box's Chromium: starts it when it is wanted, ends it when it is not.

use std::{path::PathBuf, process::ExitStatus, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep_until},
};
use tokio_util::task::TaskTracker;

use super::{
    action::{Act, Look},
    answer,
    cdp::Fault,
    chromium::{Chromium, Seat, is_blank, words},
    deeds, looks,
    page::Page,
    refusal::Refusal,
};

/// How soon it is looked again whether a call has ended.
const LOOK: Duration = Duration::from_millis(500);

/// What is told, and shown.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) picture: Vec<u8>,
}

/// The holder. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Holder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    home: PathBuf,
    tasks: TaskTracker,
    running: Mutex<Option<Chromium>>,
    /// How one ended that was not asked to.
    failed: watch::Sender<Option<String>>,
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

impl Holder {
    pub(super) fn new(program: PathBuf, home: PathBuf, tasks: TaskTracker) -> Self {
        Self(Arc::new(Inner {
            program,
            home,
            tasks,
            running: Mutex::default(),
            failed: watch::Sender::new(None),
            used: watch::Sender::new(Instant::now()),
            calls: Arc::default(),
        }))
    }

    /// Does something for an agent.
    pub(super) async fn act(&self, agent_id: &str, args_json: &str) -> Result<Answer, Refusal> {
        let _call = self.called();
        let act: Act = read(args_json)?;
        let chromium = match &act {
            Act::Navigate { url, .. } => {
                deeds::address(url)?;
                self.up(Vec::new()).await?.0
            }
            _ => self.running().await.ok_or(Refusal::NoPage)?,
        };
        let acted = Self::act_in(&chromium, agent_id, &act, &self.0.home).await;
        self.0.used.send_replace(Instant::now());
        match acted {
            Err(Refusal::Fault(Fault::Gone)) => Err(gone(&chromium).await),
            acted => acted,
        }
    }

    /// Looks at something for an agent.
    pub(super) async fn look(&self, agent_id: &str, args_json: &str) -> Result<Answer, Refusal> {
        let _call = self.called();
        let look: Look = read(args_json)?;
        let chromium = self.running().await.ok_or(Refusal::NoPage)?;
        let seat = chromium.seat(agent_id);
        let mut seat = seat.lock().await;
        let looked = match look {
            Look::Tabs {} => Ok(looks::tabs(&chromium, agent_id, seat.tab).into()),
            Look::Downloads {} => Ok(looks::downloads(&chromium).into()),
            look => match Self::page(&chromium, &mut seat, agent_id).await {
                Ok(page) => looks::seen(&page, &mut seat, &look).await,
                Err(refusal) => Err(refusal),
            },
        };
        match looked {
            Err(Refusal::Fault(Fault::Gone)) => Err(gone(&chromium).await),
            looked => looked,
        }
    }

    /// Opens it for a person. Returns false if it ran already: then Chromium itself brings the addresses there.
    pub(super) async fn open(&self, arguments: Vec<String>) -> Result<bool, Refusal> {
        let _call = self.called();
        Ok(self.up(arguments).await?.1)
    }

    async fn act_in(
        chromium: &Chromium,
        agent_id: &str,
        act: &Act,
        home: &std::path::Path,
    ) -> Result<Answer, Refusal> {
        let seat = chromium.seat(agent_id);
        let mut seat = seat.lock().await;
        match act {
            Act::SelectTab { tab } => {
                return Self::select_tab(chromium, &mut seat, agent_id, *tab).await;
            }
            Act::CloseTab { tab } => {
                return Self::close_tab(chromium, &mut seat, agent_id, *tab).await;
            }
            Act::Navigate { new_tab, .. } => {
                let is_there = seat
                    .tab
                    .is_some_and(|tab| chromium.tabs().by_number.contains_key(&tab));
                if *new_tab || !is_there {
                    seat.tab = Some(chromium.open(agent_id, "about:blank").await?);
                }
            }
            _ => {}
        }
        let page = Self::page(chromium, &mut seat, agent_id).await?;
        let (is_crashed, dialog) = {
            let tabs = chromium.tabs();
            let tab = tabs.by_number.get(&page.number);
            (
                tab.is_some_and(|tab| tab.crashed),
                tab.and_then(|tab| tab.dialog.clone()),
            )
        };
        if is_crashed
            && matches!(act, Act::Navigate { .. } | Act::Reload {})
            && let Some(tab) = chromium.tabs().by_number.get_mut(&page.number)
        {
            tab.crashed = false;
        }
        if let (Some(dialog), false) = (dialog, matches!(act, Act::Dialog { .. })) {
            return Err(Refusal::DialogOpen {
                kind: dialog.kind,
                message: super::outline::plain(&dialog.message, 500),
            });
        }
        let before = own_tabs(chromium, agent_id);
        let mut notes = Vec::new();
        match deeds::done(&page, &mut seat, act, home).await {
            Ok(note) if note.is_empty() => {}
            Ok(note) => notes.push(note),
            // It was done, and this is what came of it.
            Err(refusal @ Refusal::DialogOpen { .. }) => {
                return Ok(told(&page, vec![refusal.to_string()], "").into());
            }
            Err(refusal) => return Err(refusal),
        }
        let interrupted = page.settle().await;
        for opened in own_tabs(chromium, agent_id)
            .iter()
            .filter(|tab| !before.contains(tab))
        {
            let head = answer::head(chromium, *opened);
            notes.push(format!("a tab was opened; `select_tab` goes there: {head}"));
        }
        let chooser = {
            let mut tabs = chromium.tabs();
            notes.extend(deeds::downloads(&mut tabs.downloads, true));
            tabs.by_number
                .get(&page.number)
                .is_some_and(|tab| tab.chooser.is_some())
        };
        if chooser {
            notes.push("the page asks for files: action `upload` gives them".to_owned());
        }
        let changes = match interrupted {
            Some(Refusal::Fault(fault)) => return Err(fault.into()),
            Some(refusal) => {
                notes.push(refusal.to_string());
                String::new()
            }
            None => match page.read().await {
                Ok(shown) => {
                    let changes = answer::changes(seat.shown.as_ref(), &shown);
                    seat.shown = Some(shown);
                    changes
                }
                // Done it is all the same.
                Err(refusal) => format!("\n[the page could not be read: {refusal}]"),
            },
        };
        Ok(told(&page, notes, &changes).into())
    }

    /// The page that an agent is at.
    async fn page(chromium: &Chromium, seat: &mut Seat, agent_id: &str) -> Result<Page, Refusal> {
        let number = match seat.tab {
            Some(number) if chromium.tabs().by_number.contains_key(&number) => number,
            // One that was closed under it.
            _ => *own_tabs(chromium, agent_id).last().ok_or(Refusal::NoPage)?,
        };
        seat.tab = Some(number);
        let session = chromium.attach(number).await?;
        Ok(Page {
            chromium: chromium.clone(),
            number,
            session,
        })
    }

    async fn select_tab(
        chromium: &Chromium,
        seat: &mut Seat,
        agent_id: &str,
        number: u32,
    ) -> Result<Answer, Refusal> {
        let target_id = may_have(chromium, agent_id, number)?;
        chromium.attach(number).await?;
        let to = json!({ "targetId": target_id });
        chromium
            .cdp()
            .tell(None, "Target.activateTarget", to)
            .await?;
        seat.tab = Some(number);
        let page = Self::page(chromium, seat, agent_id).await?;
        let shown = page.read().await?;
        let told = format!(
            "{}\n{}",
            answer::head(chromium, number),
            answer::page(&shown.lines, 0)
        );
        seat.shown = Some(shown);
        Ok(told.into())
    }

    async fn close_tab(
        chromium: &Chromium,
        seat: &mut Seat,
        agent_id: &str,
        number: Option<u32>,
    ) -> Result<Answer, Refusal> {
        let number = number.or(seat.tab).ok_or(Refusal::NoPage)?;
        let target_id = may_have(chromium, agent_id, number)?;
        let close = json!({ "targetId": target_id });
        chromium
            .cdp()
            .tell(None, "Target.closeTarget", close)
            .await?;
        if seat.tab == Some(number) {
            (seat.tab, seat.shown) = (None, None);
        }
        Ok(format!("[tab {number} is closed]").into())
    }

    /// Marks a call, until it is dropped.
    fn called(&self) -> Arc<()> {
        self.0.used.send_replace(Instant::now());
        Arc::clone(&self.0.calls)
    }

    async fn running(&self) -> Option<Chromium> {
        self.0.running.lock().await.clone()
    }

    /// The browser, started if it does not run; says whether it was.
    async fn up(&self, arguments: Vec<String>) -> Result<(Chromium, bool), Refusal> {
        let holder = self.clone();
        // Not to be left half done by a caller who goes away.
        let starting = self.0.tasks.spawn(async move {
            let mut running = holder.0.running.lock().await;
            if let Some(chromium) = &*running
                && !chromium.cdp().gone().is_cancelled()
            {
                return Ok((chromium.clone(), false));
            }
            let began = Instant::now();
            let inner = &holder.0;
            let chromium = Chromium::start(&inner.program, &arguments, &inner.tasks).await?;
            tracing::info!(took = ?began.elapsed(), "browser started");
            *running = Some(chromium.clone());
            let (watched, watching) = (chromium.clone(), holder.clone());
            inner.tasks.spawn(async move {
                let status = watched.ended().await;
                watching.ended(&watched, status).await;
            });
            Ok((chromium, true))
        });
        starting
            .await
            .map_err(|_| Refusal::NotStarted("the holder failed".to_owned()))?
    }

    async fn ended(&self, chromium: &Chromium, status: ExitStatus) {
        let mut running = self.0.running.lock().await;
        *running = None;
        drop(running);
        let words = words(status);
        let _ = chromium;
        if status.success() {
            tracing::info!("browser ended");
        } else {
            self.0.failed.send_replace(Some(words));
        }
    }

    /// Resolves with how the browser ended, if it was not asked to.
    pub(super) async fn failed(&self) -> String {
        let mut failed = self.0.failed.subscribe();
        let found = failed.wait_for(Option::is_some).await;
        found
            .ok()
            .and_then(|found| found.clone())
            .unwrap_or_default()
    }

    /// Resolves when nobody has wanted anything for so long and nothing is shown that a person may look at.
    pub(super) async fn idle(&self, after: Duration) {
        loop {
            let due = *self.0.used.borrow() + after;
            let is_called = Arc::strong_count(&self.0.calls) > 1;
            if is_called || Instant::now() < due {
                sleep_until(due.max(Instant::now() + LOOK)).await;
                continue;
            }
            let Some(chromium) = self.running().await else {
                return;
            };
            let (agents, persons): (Vec<_>, Vec<_>) = {
                let tabs = chromium.tabs();
                let all = tabs.by_number.values().map(|tab| {
                    (
                        tab.target_id.clone(),
                        tab.owner.is_some() || is_blank(&tab.url),
                    )
                });
                all.partition(|(_, is_ours)| *is_ours)
            };
            if persons.is_empty() {
                return;
            }
            for (target_id, _) in agents {
                let close = json!({ "targetId": target_id });
                chromium
                    .cdp()
                    .tell(None, "Target.closeTarget", close)
                    .await
                    .ok();
            }
            sleep_until(Instant::now() + after).await;
        }
    }

    /// Ends the browser, if it runs.
    pub(super) async fn end(&self) {
        if let Some(chromium) = self.running().await {
            chromium.end().await;
        }
    }
}

fn read<T: DeserializeOwned>(args_json: &str) -> Result<T, Refusal> {
    serde_json::from_str(args_json).map_err(|error| Refusal::Arguments(error.to_string()))
}

async fn gone(chromium: &Chromium) -> Refusal {
    let words = words(chromium.ended().await);
    Refusal::NotStarted(format!("{words} meanwhile; `navigate` starts it again"))
}

fn own_tabs(chromium: &Chromium, agent_id: &str) -> Vec<u32> {
    let tabs = chromium.tabs();
    let own = tabs
        .by_number
        .iter()
        .filter(|(_, tab)| tab.owner.as_deref() == Some(agent_id));
    own.map(|(number, _)| *number).collect()
}

/// A tab that is this agent's, or a person's.
fn may_have(chromium: &Chromium, agent_id: &str, number: u32) -> Result<String, Refusal> {
    let tabs = chromium.tabs();
    let tab = tabs
        .by_number
        .get(&number)
        .ok_or(Refusal::NoSuchTab(number))?;
    match tab.owner.as_deref() {
        Some(owner) if owner != agent_id => Err(Refusal::NotYours(number)),
        _ => Ok(tab.target_id.clone()),
    }
}

fn told(page: &Page, notes: Vec<String>, changes: &str) -> String {
    let mut told = answer::head(&page.chromium, page.number);
    for note in notes {
        told.extend(["\n[", &note, "]"]);
    }
    told.push_str(changes);
    told
}
