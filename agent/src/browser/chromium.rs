//! One life of Chromium: started, spoken to over a pipe that nobody else has, ended.

use std::{
    collections::HashMap,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::json;
use tokio::{process::Command, sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    cdp::{Cdp, Fault},
    events,
    refusal::Refusal,
    tabs::{Follow, Tabs, attach},
};

/// From the start until it answers. On a loaded machine it takes many seconds.
const START_MAX: Duration = Duration::from_secs(45);
/// For its first page. There may be none.
const SHOWN_MAX: Duration = Duration::from_secs(2);
/// From being asked to end to being ended.
const END_MAX: Duration = Duration::from_secs(3);

/// Its ends of the pipe are 3 and 4; a shell puts them there, since nothing else may be done between fork
/// and exec.
const EXEC: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >&2";
/// Says to the scripts that start Chromium that this is the one which is held.
const HELD: &str = "COCOONBOX_BROWSER_HELD";

/// A Chromium that runs. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Chromium(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cdp: Cdp,
    known: Arc<Known>,
    pid: Option<Pid>,
    ended: watch::Receiver<Option<ExitStatus>>,
    /// What each agent saw last.
    seats: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Seat>>>>,
}

#[derive(Debug)]
struct Known {
    tabs: Mutex<Tabs>,
    /// Counts events.
    changes: watch::Sender<u64>,
}

/// Where an agent sits.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// The tab that it is at.
    pub(super) tab: Option<u32>,
    /// What it was shown of it last.
    pub(super) shown: Option<Shown>,
}

/// An outline as it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) tab: u32,
    pub(super) loader_id: String,
    pub(super) lines: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    target_id: String,
}

impl Chromium {
    /// Starts it with these pages, beside those that it had before, and waits until it answers.
    pub(super) async fn start(
        program: &Path,
        urls: &[String],
        tasks: &TaskTracker,
    ) -> Result<Self, Refusal> {
        let not_started = |error: &dyn std::fmt::Display| Refusal::NotStarted(error.to_string());
        let mut child = Command::new("/bin/sh")
            .args(["-c", EXEC, "sh"])
            .arg(program)
            .arg("--remote-debugging-pipe")
            .args(urls)
            .env(HELD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| not_started(&error))?;
        let pid = child
            .id()
            .and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let (Some(into), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started(&"it has no pipe"));
        };
        let known = Arc::new(Known {
            tabs: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        let told = Arc::clone(&known);
        let cdp = Cdp::start(from, into, tasks, move |cdp, method, session, bytes| {
            let Some(event) = events::read(method, bytes) else {
                return;
            };
            if let events::Event::Detached { session_id } = &event {
                cdp.left(session_id);
            }
            let follows = lock(&told.tabs).take(session, event);
            for follow in follows {
                send(cdp, follow);
            }
            told.changes.send_modify(|changes| *changes += 1);
        });
        let (end, ended) = watch::channel(None);
        tasks.spawn(async move {
            let status = child.wait().await;
            end.send_replace(Some(status.unwrap_or_else(|_| ExitStatus::from_raw(9))));
        });
        let chromium = Self(Arc::new(Inner {
            cdp,
            known,
            pid,
            ended,
            seats: Mutex::default(),
        }));
        let begun = timeout(START_MAX, chromium.begin()).await;
        match begun {
            Ok(Ok(())) => Ok(chromium),
            Ok(Err(fault)) => {
                // A pipe that is closed is followed by an end that says more.
                let status = timeout(END_MAX, chromium.ended()).await;
                chromium.kill();
                Err(status.map_or(not_started(&fault), |status| not_started(&words(status))))
            }
            Err(_) => {
                chromium.kill();
                Err(not_started(&"it does not answer"))
            }
        }
    }

    async fn begin(&self) -> Result<(), Fault> {
        let cdp = self.cdp();
        let version = cdp.send(None, "Browser.getVersion", json!({}));
        let _: serde::de::IgnoredAny = version.within(START_MAX).await?;
        let events = json!({ "behavior": "default", "eventsEnabled": true });
        cdp.tell(None, "Browser.setDownloadBehavior", events)
            .await?;
        let all = json!({ "discover": true, "filter": [{ "type": "page" }] });
        cdp.tell(None, "Target.setDiscoverTargets", all).await?;
        // What it shows by itself, an agent uses before it opens more.
        let shown = self.until(|tabs| (!tabs.by_number.is_empty()).then_some(()));
        timeout(SHOWN_MAX, shown).await.unwrap_or(Ok(()))
    }

    pub(super) fn cdp(&self) -> &Cdp {
        &self.0.cdp
    }

    pub(super) fn tabs(&self) -> MutexGuard<'_, Tabs> {
        lock(&self.0.known.tabs)
    }

    /// Counts what is told of, for whoever waits for something.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.known.changes.subscribe()
    }

    /// Waits until something holds of what is known.
    pub(super) async fn until<T>(
        &self,
        mut found: impl FnMut(&Tabs) -> Option<T>,
    ) -> Result<T, Fault> {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            if let Some(found) = found(&self.tabs()) {
                return Ok(found);
            }
            tokio::select! {
                changed = changes.changed() => changed.map_err(|_| Fault::Gone)?,
                () = self.cdp().gone().cancelled() => return Err(Fault::Gone),
            }
        }
    }

    /// The seat of an agent. Whoever holds its lock is the only one at it.
    pub(super) fn seat(&self, agent_id: &str) -> Arc<tokio::sync::Mutex<Seat>> {
        Arc::clone(lock(&self.0.seats).entry(agent_id.to_owned()).or_default())
    }

    pub(super) fn send(&self, follow: Follow) {
        send(self.cdp(), follow);
    }

    /// Opens a page for an agent, in a window of its own if it has none; returns the tab's number.
    pub(super) async fn open(&self, agent_id: &str, url: &str) -> Result<u32, Refusal> {
        let (beside, blank) = {
            let tabs = self.tabs();
            let own = |(_, tab): &(&u32, &super::tabs::Tab)| tab.owner.as_deref() == Some(agent_id);
            let beside = tabs
                .by_number
                .iter()
                .find(own)
                .map(|(_, tab)| tab.target_id.clone());
            // What Chromium shows when it is started, and nobody has touched.
            let blank = tabs
                .by_number
                .iter()
                .find(|(_, tab)| tab.owner.is_none() && is_blank(&tab.url));
            let blank = blank.filter(|_| tabs.by_number.len() == 1);
            (beside, blank.map(|(_, tab)| tab.target_id.clone()))
        };
        let target_id = match (&beside, blank) {
            (None, Some(blank)) => blank,
            _ => {
                if let Some(beside) = &beside {
                    // A new tab opens in the window that was used last.
                    let to = json!({ "targetId": beside });
                    self.cdp()
                        .tell(None, "Target.activateTarget", to)
                        .await
                        .ok();
                }
                let page = json!({ "url": "about:blank", "newWindow": beside.is_none() });
                let created: Created = self.cdp().ask(None, "Target.createTarget", page).await?;
                created.target_id
            }
        };
        let number = self.tabs().give(&target_id, agent_id);
        self.attach(number).await?;
        tracing::info!(url_bytes = url.len(), number, "page opened");
        Ok(number)
    }

    /// Makes sure that a tab has a session.
    pub(super) async fn attach(&self, number: u32) -> Result<String, Refusal> {
        let target_id = {
            let tabs = self.tabs();
            let tab = tabs
                .by_number
                .get(&number)
                .ok_or(Refusal::NoSuchTab(number))?;
            if let Some(session) = tab.session() {
                return Ok(session.id.clone());
            }
            tab.target_id.clone()
        };
        self.send(attach(&target_id));
        let session = self.until(|tabs| {
            let Some(tab) = tabs.by_number.get(&number) else {
                return Some(None);
            };
            tab.session().map(|session| Some(session.id.clone()))
        });
        let session = timeout(super::cdp::SOON, session).await;
        let session = session.map_err(|_| Fault::Late("Target.attachToTarget"))??;
        let session = session.ok_or(Refusal::NoSuchTab(number))?;
        let loader = self.loader(&session).await?;
        if let Some(tab) = self.tabs().by_number.get_mut(&number)
            && tab.loader_id.is_empty()
        {
            tab.loader_id = loader;
        }
        Ok(session)
    }

    async fn loader(&self, session: &str) -> Result<String, Fault> {
        let tree: super::page::FrameTree = self
            .cdp()
            .ask(Some(session), "Page.getFrameTree", json!({}))
            .await?;
        Ok(tree.frame_tree.frame.loader_id)
    }

    /// Resolves when it has ended.
    pub(super) async fn ended(&self) -> ExitStatus {
        let mut ended = self.0.ended.clone();
        let status = ended.wait_for(Option::is_some).await;
        status
            .ok()
            .and_then(|status| *status)
            .unwrap_or_else(|| ExitStatus::from_raw(9))
    }

    /// Ends it, so that it keeps its pages; by force if it does not listen.
    pub(super) async fn end(&self) {
        self.signal(Signal::TERM);
        if timeout(END_MAX, self.ended()).await.is_err() {
            self.kill();
        }
    }

    /// Ends it by force.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if self.0.ended.borrow().is_none()
            && let Some(pid) = self.0.pid
        {
            // Its end is told as soon as it is collected, so the id is still its own but for that moment.
            rustix::process::kill_process(pid, signal).ok();
        }
    }
}

/// How it came to its end.
pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with code {code}"),
        (None, signal) => format!("it was ended by signal {}", signal.unwrap_or_default()),
    }
}

/// Whether a page is one that nobody asked for.
pub(super) fn is_blank(url: &str) -> bool {
    matches!(
        url,
        "" | "about:blank" | "chrome://newtab/" | "chrome://new-tab-page/"
    )
}

fn send(cdp: &Cdp, follow: Follow) {
    let to = follow.session.as_deref();
    // Nobody waits: what it leads to is told by events.
    drop(cdp.send(to, follow.method, follow.params));
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
