//! What is known of the browser: its tabs, whose they are, and what goes on in them. Told by events only.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Value, json};

use super::{
    events::{Dialog, Download, Event, Request, TargetInfo},
    outline::plain,
    refs::Refs,
};

/// Lines that are kept of what a page writes to its console, and requests.
const SAID_MAX: usize = 200;
const REQUESTS_MAX: usize = 200;
const SAID_CHARS_MAX: usize = 500;
const URL_CHARS_MAX: usize = 300;
const DOWNLOADS_MAX: usize = 50;

/// The browser, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Tabs {
    /// By number.
    pub(super) by_number: BTreeMap<u32, Tab>,
    last_number: u32,
    /// Which tab a session is of.
    sessions: HashMap<String, u32>,
    /// What started a drag, for whoever waits for it.
    pub(super) drag: Option<Value>,
    pub(super) downloads: VecDeque<(String, File)>,
    pub(super) refs: Refs,
}

/// A tab.
#[derive(Debug, Default)]
pub(super) struct Tab {
    pub(super) target_id: String,
    pub(super) url: String,
    pub(super) title: String,
    /// The agent that opened it; `None`: a person, or an earlier life of the browser.
    pub(super) owner: Option<String>,
    /// Its own session first, then those of frames that run in processes of their own.
    pub(super) sessions: Vec<Session>,
    pub(super) crashed: bool,
    pub(super) dialog: Option<Dialog>,
    /// Dialogs since something else happened.
    pub(super) dialogs: u32,
    pub(super) chooser: Option<Chooser>,
    /// The document that its main frame shows.
    pub(super) loader_id: String,
    /// Frames that load.
    pub(super) loading: Vec<String>,
    pub(super) requests: VecDeque<Asked>,
    pub(super) said: VecDeque<(String, String)>,
}

/// One of a tab's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: String,
    /// Of the frame that it is for; the tab's own target.
    pub(super) frame_id: String,
}

/// A page asks for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chooser {
    pub(super) session: String,
    pub(super) backend: Option<i64>,
    pub(super) is_multiple: bool,
}

/// A request and how it ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) kind: String,
    pub(super) status: i64,
    pub(super) error: String,
    pub(super) is_over: bool,
}

/// A file that was downloaded.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) url: String,
    /// As the page wants it to be called. Not a path.
    pub(super) asked_name: String,
    pub(super) path: String,
    pub(super) state: String,
    pub(super) bytes: f64,
    pub(super) is_told: bool,
}

/// A command that an event leads to.
#[derive(Debug, PartialEq)]
pub(super) struct Follow {
    pub(super) session: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Tabs {
    pub(super) fn of_target(&self, target_id: &str) -> Option<u32> {
        let found = self
            .by_number
            .iter()
            .find(|(_, tab)| tab.target_id == target_id);
        found.map(|(number, _)| *number)
    }

    /// Gives a tab to an agent; returns its number. One that is not known yet becomes known by this.
    pub(super) fn give(&mut self, target_id: &str, agent_id: &str) -> u32 {
        let number = self.of_target(target_id).unwrap_or_else(|| {
            self.last_number += 1;
            self.last_number
        });
        let tab = self.by_number.entry(number).or_default();
        target_id.clone_into(&mut tab.target_id);
        tab.owner = Some(agent_id.to_owned());
        number
    }

    /// Takes an event in.
    pub(super) fn take(&mut self, session: Option<&str>, event: Event) -> Vec<Follow> {
        match event {
            Event::TargetFound(target) => return self.found(target),
            Event::TargetGone { target_id } => {
                if let Some(number) = self.of_target(&target_id) {
                    self.by_number.remove(&number);
                    self.sessions.retain(|_, of| *of != number);
                    self.refs.forget_tab(number);
                }
            }
            Event::TargetCrashed { target_id } => {
                if let Some(number) = self.of_target(&target_id)
                    && let Some(tab) = self.by_number.get_mut(&number)
                {
                    (tab.crashed, tab.dialog) = (true, None);
                }
            }
            Event::Attached { session_id, target } => {
                return self.attached(session, session_id, target);
            }
            Event::Detached { session_id } => {
                if let Some(number) = self.sessions.remove(&session_id)
                    && let Some(tab) = self.by_number.get_mut(&number)
                {
                    tab.sessions.retain(|one| one.id != session_id);
                }
            }
            Event::DragBegan(data) => self.drag = Some(data),
            Event::DownloadBegan { guid, url, name } => {
                let file = File {
                    url: plain(&url, URL_CHARS_MAX),
                    asked_name: plain(&name, URL_CHARS_MAX),
                    ..File::default()
                };
                bounded(&mut self.downloads, (guid, file), DOWNLOADS_MAX);
            }
            Event::DownloadWent(went) => self.went(went),
            event => {
                let number = session.and_then(|session| self.sessions.get(session));
                if let Some(tab) = number.and_then(|number| self.by_number.get_mut(number)) {
                    tab.take(session.unwrap_or_default(), event);
                }
            }
        }
        Vec::new()
    }

    fn found(&mut self, target: TargetInfo) -> Vec<Follow> {
        if target.kind != "page" {
            return Vec::new();
        }
        let opener = self.of_target(&target.opener_id);
        let number = self.of_target(&target.target_id);
        let is_new = number.is_none();
        let number = number.unwrap_or_else(|| {
            self.last_number += 1;
            self.last_number
        });
        let owner = opener.and_then(|opener| self.by_number.get(&opener)?.owner.clone());
        let tab = self.by_number.entry(number).or_default();
        tab.target_id = target.target_id;
        tab.url = target.url;
        tab.title = target.title;
        if !is_new || owner.is_none() {
            return Vec::new();
        }
        // What an agent's page opens is the agent's.
        tab.owner = owner;
        vec![attach(&tab.target_id)]
    }

    fn attached(
        &mut self,
        parent: Option<&str>,
        session_id: String,
        target: TargetInfo,
    ) -> Vec<Follow> {
        let number = match parent {
            Some(parent) => self.sessions.get(parent).copied(),
            None => self.of_target(&target.target_id),
        };
        let Some(tab) = number.and_then(|number| self.by_number.get_mut(&number)) else {
            return Vec::new();
        };
        self.sessions
            .insert(session_id.clone(), number.unwrap_or_default());
        let is_own = target.target_id == tab.target_id;
        let session = Session {
            id: session_id.clone(),
            frame_id: target.target_id,
        };
        if is_own {
            tab.sessions.insert(0, session);
        } else {
            tab.sessions.push(session);
        }
        let follow = |(method, params)| Follow {
            session: Some(session_id.clone()),
            method,
            params,
        };
        let all = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true,
            "filter": [{ "type": "iframe" }] });
        let common = [
            ("Page.enable", json!({})),
            ("Network.enable", json!({})),
            ("Runtime.enable", json!({})),
            ("Log.enable", json!({})),
            ("Target.setAutoAttach", all),
        ];
        let own = [
            // A page in a window that is not in front would otherwise not know that it is typed into.
            (
                "Emulation.setFocusEmulationEnabled",
                json!({ "enabled": true }),
            ),
        ];
        let mut follows: Vec<Follow> = common.into_iter().map(follow).collect();
        if is_own {
            follows.extend(own.into_iter().map(follow));
        }
        follows
    }

    fn went(&mut self, went: Download) {
        let found = self
            .downloads
            .iter_mut()
            .find(|(guid, _)| *guid == went.guid);
        if let Some((_, file)) = found {
            file.state = went.state;
            file.bytes = went.received_bytes;
            if !went.file_path.is_empty() {
                file.path = plain(&went.file_path, URL_CHARS_MAX);
            }
        }
    }
}

impl Tab {
    /// Its own session.
    pub(super) fn session(&self) -> Option<&Session> {
        self.sessions
            .first()
            .filter(|one| one.frame_id == self.target_id)
    }

    pub(super) fn open_requests(&self) -> usize {
        self.requests.iter().filter(|asked| !asked.is_over).count()
    }

    fn take(&mut self, session: &str, event: Event) {
        match event {
            Event::Navigated(frame) => {
                if frame.parent_id.is_empty() && frame.id == self.target_id {
                    self.loader_id = frame.loader_id;
                    self.crashed = false;
                    self.dialogs = 0;
                    self.url = if frame.unreachable_url.is_empty() {
                        frame.url
                    } else {
                        frame.unreachable_url
                    };
                    // What the page before had under way ends with it, not always with an event.
                    for asked in &mut self.requests {
                        asked.is_over |= asked.kind != "Document";
                    }
                }
            }
            Event::NavigatedWithin { frame_id, url } => {
                if frame_id == self.target_id {
                    self.url = url;
                }
            }
            Event::Loading { frame_id } => {
                if !self.loading.contains(&frame_id) {
                    self.loading.push(frame_id);
                }
            }
            Event::Loaded { frame_id } | Event::FrameGone { frame_id } => {
                self.loading.retain(|one| *one != frame_id);
            }
            Event::DialogOpened(dialog) => {
                self.dialogs += 1;
                self.dialog = Some(dialog);
            }
            Event::DialogClosed => self.dialog = None,
            Event::ChooserOpened {
                backend,
                is_multiple,
            } => {
                self.chooser = Some(Chooser {
                    session: session.to_owned(),
                    backend,
                    is_multiple,
                });
            }
            Event::Requested(request) => self.requested(request),
            Event::Answered { request_id, status } => {
                let found = self
                    .requests
                    .iter_mut()
                    .rev()
                    .find(|one| one.id == request_id);
                if let Some(asked) = found {
                    asked.status = status;
                }
            }
            Event::RequestEnded { request_id, error } => {
                for asked in self.requests.iter_mut().filter(|one| one.id == request_id) {
                    asked.is_over = true;
                    asked.error = plain(&error, URL_CHARS_MAX);
                }
            }
            Event::Said { kind, text } => {
                let said = (kind, plain(&text, SAID_CHARS_MAX));
                bounded(&mut self.said, said, SAID_MAX);
            }
            // Not of a tab.
            Event::TargetFound(_)
            | Event::TargetGone { .. }
            | Event::TargetCrashed { .. }
            | Event::Attached { .. }
            | Event::Detached { .. }
            | Event::DragBegan(_)
            | Event::DownloadBegan { .. }
            | Event::DownloadWent(_) => {}
        }
    }

    fn requested(&mut self, request: Request) {
        // A redirect is the same request again.
        for before in self.requests.iter_mut().filter(|one| one.id == request.id) {
            before.is_over = true;
        }
        // What a page is told of without end is not waited for.
        let is_over = matches!(
            request.kind.as_str(),
            "EventSource" | "WebSocket" | "Ping" | "Media"
        );
        let asked = Asked {
            id: request.id,
            method: request.method,
            url: plain(&request.url, URL_CHARS_MAX),
            kind: request.kind,
            is_over,
            ..Asked::default()
        };
        bounded(&mut self.requests, asked, REQUESTS_MAX);
    }
}

/// Asks for a session with a tab.
pub(super) fn attach(target_id: &str) -> Follow {
    Follow {
        session: None,
        method: "Target.attachToTarget",
        params: json!({ "targetId": target_id, "flatten": true }),
    }
}

fn bounded<T>(queue: &mut VecDeque<T>, one: T, max: usize) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(one);
}
