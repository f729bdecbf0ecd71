//! A tab that is worked at: its documents, and what of them is told.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{
    cdp::{Cdp, Fault},
    chromium::{Chromium, Shown},
    clickable::{self, Clickables, Snapshot},
    outline::{AxNode, Document, outline},
    refs::Place,
    refusal::Refusal,
    tabs::Session,
};

/// A page whose script does not let go for so long is taken for hung.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// For one that was told to let go.
const LET_GO_MAX: Duration = Duration::from_secs(3);
/// For a frame inside it: what hangs there is told without it.
const FRAME_MAX: Duration = Duration::from_secs(2);
/// For all of them together.
const FRAMES_TIME_MAX: Duration = Duration::from_secs(6);
/// Frames of a page that are read.
const FRAMES_MAX: usize = 64;
/// For a list of what answers clicks; a page that is too big for that is told without it.
const CLICKABLES_MAX: Duration = Duration::from_secs(2);

/// A tab, and who works at it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) chromium: Chromium,
    pub(super) number: u32,
    /// Of the tab itself.
    pub(super) session: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTree {
    pub(super) frame_tree: FrameNode,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameNode {
    pub(super) frame: super::events::Frame,
    #[serde(default)]
    child_frames: Vec<FrameNode>,
}

#[derive(Debug, Deserialize)]
struct AxTree {
    nodes: Vec<AxNode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    backend_node_id: i64,
}

/// A document before it is known what its frames show.
struct Found {
    place: Place,
    /// The frame that shows the one of this document, and the session in which that is known.
    parent: Option<(String, String)>,
    tree: Result<Vec<AxNode>, Fault>,
    /// Of all documents of its session.
    clickables: Arc<Clickables>,
}

impl Page {
    pub(super) fn cdp(&self) -> &Cdp {
        self.chromium.cdp()
    }

    /// Asks the page's own session something that its script can hold up.
    pub(super) async fn patiently<T>(
        &self,
        what: &str,
        asked: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Refusal> {
        tokio::select! {
            biased;
            answer = asked => match answer {
                Err(Fault::Late(_)) => Err(self.hung(what).await),
                answer => Ok(answer?),
            },
            refusal = self.interrupted() => Err(refusal),
        }
    }

    /// Resolves when a dialog opens or the page crashes: nothing that was asked is answered then.
    pub(super) async fn interrupted(&self) -> Refusal {
        let found = self.chromium.until(|tabs| {
            let Some(tab) = tabs.by_number.get(&self.number) else {
                return Some(Refusal::NoSuchTab(self.number));
            };
            if tab.crashed {
                return Some(Refusal::Crashed);
            }
            tab.dialog.as_ref().map(|dialog| Refusal::DialogOpen {
                kind: dialog.kind.clone(),
                message: super::outline::plain(&dialog.message, 500),
            })
        });
        found.await.unwrap_or_else(Refusal::Fault)
    }

    /// Takes the script of a page that does not answer from it, and says what became of it.
    async fn hung(&self, what: &str) -> Refusal {
        let refusal = |done| Refusal::Hung {
            what: what.to_owned(),
            seconds: PATIENCE.as_secs(),
            done,
        };
        // This one is heard by a thread of its own.
        drop(
            self.cdp()
                .send(Some(&self.session), "Runtime.terminateExecution", json!({})),
        );
        let alive = self.cdp().send(
            Some(&self.session),
            "Runtime.evaluate",
            json!({ "expression": "1", "returnByValue": true }),
        );
        if alive.within::<Value>(LET_GO_MAX).await.is_ok() {
            return refusal("it was stopped, and the page is as it left it");
        }
        self.crash().await;
        refusal("it could not be stopped, so the page was; navigate to load it again")
    }

    /// Ends the page's process, or the tab where that cannot be done.
    pub(super) async fn crash(&self) {
        drop(
            self.cdp()
                .send(Some(&self.session), "Page.crash", json!({})),
        );
        let crashed = self.chromium.until(|tabs| {
            let tab = tabs.by_number.get(&self.number);
            tab.is_none_or(|tab| tab.crashed).then_some(())
        });
        if timeout(LET_GO_MAX, crashed).await.is_err()
            && let Some(tab) = self.chromium.tabs().by_number.get(&self.number)
        {
            let close = json!({ "targetId": tab.target_id });
            drop(self.cdp().send(None, "Target.closeTarget", close));
        }
    }

    /// Reads the page: its outline as it is told, in all its frames.
    pub(super) async fn read(&self) -> Result<Shown, Refusal> {
        let (sessions, loader_id) = {
            let tabs = self.chromium.tabs();
            let tab = tabs
                .by_number
                .get(&self.number)
                .ok_or(Refusal::NoSuchTab(self.number))?;
            (tab.sessions.clone(), tab.loader_id.clone())
        };
        let found = self
            .patiently("reading the page", self.documents(&sessions))
            .await?;
        let (places, documents) = self.joined(found).await;
        let lines = outline(&documents);
        if let Some(root) = documents.first().and_then(|first| first.nodes.first())
            && let Some(tab) = self.chromium.tabs().by_number.get_mut(&self.number)
        {
            // What Chromium tells of titles comes later.
            tab.title = root.identity().1;
        }
        let numbers = self
            .chromium
            .tabs()
            .refs
            .number(self.number, &places, &lines);
        let told = lines
            .iter()
            .zip(numbers)
            .map(|(line, number)| line.told(number));
        Ok(Shown {
            tab: self.number,
            loader_id,
            lines: told.collect(),
        })
    }

    /// Every document of the page, the main one first.
    async fn documents(&self, sessions: &[Session]) -> Result<Vec<Found>, Fault> {
        let mut all = Vec::new();
        let frames_until = Instant::now() + FRAMES_TIME_MAX;
        for session in sessions {
            let to = Some(session.id.as_str());
            let tree = self.cdp().send(to, "Page.getFrameTree", json!({}));
            let tree: Result<FrameTree, _> = tree.within(limit(&all, frames_until)).await;
            let tree = match tree {
                Ok(tree) => tree.frame_tree,
                // The page's own has to be there; another may be gone.
                Err(fault) if all.is_empty() => return Err(fault),
                Err(_) => continue,
            };
            let snapshot = self
                .cdp()
                .send(to, "DOMSnapshot.captureSnapshot", clickable::asked());
            let snapshot: Result<Snapshot, _> = snapshot.within(CLICKABLES_MAX).await;
            let clickables = snapshot.map(|snapshot| Arc::new(snapshot.clickables()));
            let clickables = clickables.unwrap_or_default();
            let mut left = vec![(tree, None::<String>)];
            while let Some((node, parent)) = left.pop() {
                if all.len() == FRAMES_MAX {
                    return Ok(all);
                }
                let asked = json!({ "frameId": node.frame.id });
                let tree = self.cdp().send(to, "Accessibility.getFullAXTree", asked);
                let limit = limit(&all, frames_until);
                let tree: Result<AxTree, _> = tree.within(limit).await;
                if all.is_empty() && tree.is_err() {
                    return tree.map(|_| Vec::new());
                }
                let children = node.child_frames.into_iter().rev();
                left.extend(children.map(|child| (child, Some(node.frame.id.clone()))));
                all.push(Found {
                    place: Place {
                        session: session.id.clone(),
                        frame_id: node.frame.id.clone(),
                        loader_id: node.frame.loader_id,
                    },
                    parent: parent.map(|parent| (session.id.clone(), parent)),
                    tree: tree.map(|tree| tree.nodes),
                    clickables: Arc::clone(&clickables),
                });
            }
        }
        Ok(all)
    }

    /// Finds out which element shows which document.
    async fn joined(&self, found: Vec<Found>) -> (Vec<Place>, Vec<Document>) {
        let mut places = Vec::new();
        let mut documents = Vec::<Document>::new();
        let mut owners = Vec::new();
        for (at, one) in found.into_iter().enumerate() {
            owners.push((at, one.place.clone(), one.parent, one.tree.is_ok()));
            places.push(one.place);
            documents.push(Document {
                nodes: one.tree.unwrap_or_default(),
                frames: HashMap::new(),
                clickables: one.clickables,
            });
        }
        for (at, place, parent, is_read) in owners.into_iter().skip(1) {
            // A frame with a process of its own is known to the session of the frame around it, whichever
            // that is.
            let sessions = match parent {
                Some((session, _)) => vec![session],
                None => places
                    .iter()
                    .map(|one| one.session.clone())
                    .filter(|one| *one != place.session)
                    .collect(),
            };
            let mut asked = std::collections::HashSet::new();
            for session in sessions.into_iter().filter(|one| asked.insert(one.clone())) {
                let of = json!({ "frameId": place.frame_id });
                let owner: Result<Owner, _> = self
                    .cdp()
                    .ask(Some(&session), "DOM.getFrameOwner", of)
                    .await;
                let Ok(owner) = owner else { continue };
                let around = (0..documents.len()).find(|around| {
                    let has = |node: &AxNode| node.backend == Some(owner.backend_node_id);
                    places[*around].session == session && documents[*around].nodes.iter().any(has)
                });
                if let Some(around) = around {
                    let shown = is_read.then_some(at);
                    documents[around]
                        .frames
                        .insert(owner.backend_node_id, shown);
                }
                break;
            }
        }
        (places, documents)
    }
}

/// How long a document is waited for: the page's own has all the time, what stands in it shares some.
fn limit(found: &[Found], frames_until: Instant) -> Duration {
    if found.is_empty() {
        return PATIENCE;
    }
    frames_until
        .saturating_duration_since(Instant::now())
        .min(FRAME_MAX)
}
