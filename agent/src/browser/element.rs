//! An element of a page: found by its ref, looked at again before anything is done to it.

mod quad;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::quad::quad;
use super::{
    answer,
    cdp::Fault,
    chromium::{Seat, Shown},
    outline::{AxNode, CLICKABLE, plain},
    page::Page,
    refs::{self, Entry},
    refusal::Refusal,
};

/// Says how an element is there. Runs in a world of ours, where the page has changed nothing.
const LOOK: &str = r"function () {
  if (!this.isConnected) return { gone: true };
  const element = this.nodeType === 1 ? this : this.parentElement;
  if (!element) return { gone: true };
  const shown = [...element.getClientRects()].find((one) => one.width > 0 && one.height > 0);
  const style = element.ownerDocument.defaultView.getComputedStyle(element);
  const isDrawn = !!shown && style.visibility !== 'hidden';
  const isDisabled = element.matches(':disabled') || !!element.closest('[aria-disabled=true]');
  let covered = '';
  if (isDrawn) {
    const [x, y] = [shown.left + shown.width / 2, shown.top + shown.height / 2];
    let hit = element.ownerDocument.elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    const up = (one) => one.assignedSlot || one.parentNode || one.host;
    const holds = (outer, inner) => {
      for (let one = inner; one; one = up(one)) if (one === outer) return true;
      return false;
    };
    const isLabel = hit && element.labels && [...element.labels].some((label) => holds(label, hit));
    if (hit && !holds(element, hit) && !holds(hit, element) && !isLabel) {
      const words = (hit.getAttribute('aria-label') || hit.innerText || '').trim().slice(0, 80);
      covered = `<${hit.localName}${hit.id ? ' id=' + hit.id : ''}> ${words}`;
    }
  }
  return { gone: false, isDrawn, isDisabled, covered, kind: element.localName };
}";

/// An element that is there.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) page: Page,
    pub(super) reference: String,
    pub(super) entry: Entry,
    /// In the world of ours.
    pub(super) object: String,
}

/// Where it is drawn, in the page's own view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct There {
    gone: bool,
    is_drawn: bool,
    is_disabled: bool,
    covered: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct World {
    execution_context_id: i64,
}

#[derive(Debug, Deserialize)]
struct Resolved {
    object: Object,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    /// None where the node belongs to a document that is gone.
    object_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    result: Returned,
    exception_details: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Returned {
    value: Value,
}

#[derive(Debug, Deserialize)]
struct Partial {
    nodes: Vec<AxNode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    backend_node_id: i64,
}

impl Element {
    /// Finds what a ref stands for, and makes sure that it is still that.
    pub(super) async fn find(page: &Page, seat: &mut Seat, text: &str) -> Result<Self, Refusal> {
        let number = refs::parse(text).ok_or_else(|| Refusal::NoRef(plain(text, 40)))?;
        let reference = format!("e{number}");
        let (entry, was_given) = {
            let tabs = page.chromium.tabs();
            (tabs.refs.get(number).cloned(), tabs.refs.was_given(number))
        };
        let Some(entry) = entry else {
            return Err(if was_given {
                let was = "an element of a page that is closed".to_owned();
                stale(page, seat, reference, was, "its tab is gone").await
            } else {
                Refusal::UnknownRef { reference }
            });
        };
        if entry.tab != page.number {
            let tab = entry.tab;
            return Err(Refusal::OtherTab { reference, tab });
        }
        let found = page
            .patiently("looking for the element", resolve(page, &entry))
            .await;
        let object = match found {
            Ok(Some(object)) => object,
            Ok(None) => {
                let why = why(page, &entry);
                return Err(stale(page, seat, reference, said(&entry), &why).await);
            }
            Err(refusal) => return Err(refusal),
        };
        let element = Self {
            page: page.clone(),
            reference,
            entry,
            object,
        };
        element.is_same(number).await?;
        Ok(element)
    }

    /// What it is and what it is called.
    pub(super) fn said(&self) -> String {
        said(&self.entry)
    }

    /// The session that knows it.
    pub(super) fn session(&self) -> &str {
        &self.entry.place.session
    }

    pub(super) fn not_fit(&self, why: impl Into<String>) -> Refusal {
        Refusal::NotFit {
            reference: self.reference.clone(),
            was: self.said(),
            why: why.into(),
        }
    }

    /// Refuses one that is called something else than when it was shown.
    async fn is_same(&self, number: u32) -> Result<(), Refusal> {
        // Neither is called anything by the page.
        if matches!(self.entry.role.as_str(), "text" | CLICKABLE) {
            return Ok(());
        }
        let of = json!({ "backendNodeId": self.entry.backend, "fetchRelatives": false });
        let asked = self
            .page
            .cdp()
            .ask(Some(self.session()), "Accessibility.getPartialAXTree", of);
        let partial: Result<Partial, Refusal> =
            self.page.patiently("looking at the element", asked).await;
        let node = match partial {
            Ok(partial) => partial.nodes.into_iter().next(),
            // One that is not drawn has no node.
            Err(Refusal::Fault(Fault::Refused { .. })) => None,
            Err(refusal) => return Err(refusal),
        };
        let Some((role, name)) = node.as_ref().map(AxNode::identity) else {
            return Ok(());
        };
        let is_other = !name.is_empty() && name != self.entry.name && !self.entry.name.is_empty();
        if !is_other {
            return Ok(());
        }
        self.page.chromium.tabs().refs.rename(number, &role, &name);
        Err(Refusal::Changed {
            reference: self.reference.clone(),
            was: self.said(),
            now: format!("{role} \"{name}\""),
        })
    }

    /// Calls a function of ours on it.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        function: &str,
        arguments: &[Value],
    ) -> Result<T, Refusal> {
        let arguments: Vec<Value> = arguments
            .iter()
            .map(|value| json!({ "value": value }))
            .collect();
        let call = json!({
            "objectId": self.object, "functionDeclaration": function, "arguments": arguments,
            "returnByValue": true, "awaitPromise": true,
        });
        let asked = self
            .page
            .cdp()
            .ask(Some(self.session()), "Runtime.callFunctionOn", call);
        let called: Called = self.page.patiently("working at the element", asked).await?;
        if let Some(details) = called.exception_details {
            let text = details["exception"]["description"]
                .as_str()
                .unwrap_or("unknown");
            return Err(Refusal::Script(plain(text, 500)));
        }
        serde_json::from_value(called.result.value).map_err(|source| {
            Refusal::Fault(Fault::Form {
                method: "Runtime.callFunctionOn",
                source,
            })
        })
    }

    /// Brings it into view and returns its middle, if a pointer there would meet it.
    pub(super) async fn point(
        &self,
        seat: &mut Seat,
        may_be_disabled: bool,
    ) -> Result<Point, Refusal> {
        let of = json!({ "backendNodeId": self.entry.backend });
        let scrolled = self
            .page
            .cdp()
            .tell(Some(self.session()), "DOM.scrollIntoViewIfNeeded", of);
        match self
            .page
            .patiently("scrolling to the element", scrolled)
            .await
        {
            // What has no box is told of below.
            Ok(()) | Err(Refusal::Fault(Fault::Refused { .. })) => {}
            Err(refusal) => return Err(refusal),
        }
        let there: There = self.call(LOOK, &[]).await?;
        let (reference, was) = (self.reference.clone(), self.said());
        if there.gone {
            let why = "it was taken out of the page";
            return Err(stale(&self.page, seat, reference, was, why).await);
        }
        if !there.is_drawn {
            return Err(Refusal::Hidden { reference, was });
        }
        if there.is_disabled && !may_be_disabled {
            return Err(Refusal::Disabled { reference, was });
        }
        if !there.covered.is_empty() {
            let by = plain(&there.covered, 160);
            return Err(Refusal::Covered { reference, was, by });
        }
        let point = self.middle().await?;
        point.ok_or(Refusal::Hidden { reference, was })
    }

    /// Its middle, wherever that is by now and whatever lies over it.
    pub(super) async fn point_as_it_is(&self) -> Result<Point, Refusal> {
        let middle = self.middle().await?;
        middle.ok_or_else(|| Refusal::Hidden {
            reference: self.reference.clone(),
            was: self.said(),
        })
    }

    /// The same element in the world of the page's own scripts.
    pub(super) async fn in_page(&self) -> Result<String, Refusal> {
        let of = json!({ "backendNodeId": self.entry.backend, "objectGroup": "cocoonbox" });
        let asked = self
            .page
            .cdp()
            .ask(Some(self.session()), "DOM.resolveNode", of);
        let resolved: Resolved = self
            .page
            .patiently("looking for the element", asked)
            .await?;
        resolved.object.object_id.ok_or(Refusal::Fault(Fault::Left))
    }

    async fn middle(&self) -> Result<Option<Point>, Refusal> {
        let Some(quad) = self.quad().await? else {
            return Ok(None);
        };
        let x = (quad[0] + quad[2] + quad[4] + quad[6]) / 4.0;
        let y = (quad[1] + quad[3] + quad[5] + quad[7]) / 4.0;
        Ok(Some(Point { x, y }))
    }

    /// Its corners in the page's view.
    pub(super) async fn quad_in_page(&self) -> Result<[f64; 8], Refusal> {
        let quad = self.quad().await?;
        quad.ok_or_else(|| Refusal::Hidden {
            reference: self.reference.clone(),
            was: self.said(),
        })
    }

    async fn quad(&self) -> Result<Option<[f64; 8]>, Refusal> {
        let Some(mut quad) = quad(&self.page, Some(self.session()), self.entry.backend).await?
        else {
            return Ok(None);
        };
        let (dx, dy) = self.frame_offset().await?;
        for corner in quad.chunks_exact_mut(2) {
            corner[0] += dx;
            corner[1] += dy;
        }
        Ok(Some(quad))
    }

    /// Where the view of its session begins in the page's: frames with processes of their own count from
    /// their own corner.
    async fn frame_offset(&self) -> Result<(f64, f64), Refusal> {
        let (mut dx, mut dy) = (0.0, 0.0);
        let mut session = self.entry.place.session.clone();
        let sessions = {
            let tabs = self.page.chromium.tabs();
            tabs.by_number
                .get(&self.page.number)
                .map(|tab| tab.sessions.clone())
                .unwrap_or_default()
        };
        // Each round goes one frame up.
        for _ in 0..sessions.len() {
            if session == self.page.session {
                break;
            }
            let Some(frame_id) = sessions
                .iter()
                .find(|one| one.id == session)
                .map(|one| one.frame_id.clone())
            else {
                break;
            };
            let mut around = None;
            for outer in sessions.iter().filter(|one| one.id != session) {
                let of = json!({ "frameId": frame_id });
                let owner: Result<Owner, _> = self
                    .page
                    .cdp()
                    .ask(Some(&outer.id), "DOM.getFrameOwner", of)
                    .await;
                if let Ok(owner) = owner {
                    around = Some((outer.id.clone(), owner.backend_node_id));
                    break;
                }
            }
            let Some((outer, backend)) = around else {
                break;
            };
            if let Some(quad) = quad(&self.page, Some(&outer), backend).await? {
                dx += quad[0];
                dy += quad[1];
            }
            session = outer;
        }
        Ok((dx, dy))
    }

    /// Gives it the keyboard.
    pub(super) async fn focus(&self) -> Result<(), Refusal> {
        let of = json!({ "backendNodeId": self.entry.backend });
        let focused = self.page.cdp().tell(Some(self.session()), "DOM.focus", of);
        match self.page.patiently("going to the element", focused).await {
            Err(Refusal::Fault(Fault::Refused { .. })) => {
                Err(self.not_fit("takes no keys; click on what does"))
            }
            done => done,
        }
    }
}

/// Finds the node in a world of ours; `None` if it is not there any more.
async fn resolve(page: &Page, entry: &Entry) -> Result<Option<String>, Fault> {
    let to = Some(entry.place.session.as_str());
    let is_there = {
        let tabs = page.chromium.tabs();
        let tab = tabs.by_number.get(&entry.tab);
        tab.is_some_and(|tab| tab.sessions.iter().any(|one| one.id == entry.place.session))
    };
    if !is_there {
        return Ok(None);
    }
    let gone = |fault| match fault {
        Fault::Refused { .. } | Fault::Left => Ok(None),
        fault => Err(fault),
    };
    let world = json!({ "frameId": entry.place.frame_id, "worldName": "cocoonbox" });
    let world: World = match page.cdp().ask(to, "Page.createIsolatedWorld", world).await {
        Ok(world) => world,
        Err(fault) => return gone(fault),
    };
    let of = json!({
        "backendNodeId": entry.backend, "objectGroup": "cocoonbox",
        "executionContextId": world.execution_context_id,
    });
    let resolved: Resolved = match page.cdp().ask(to, "DOM.resolveNode", of).await {
        Ok(resolved) => resolved,
        Err(fault) => return gone(fault),
    };
    let Some(object) = resolved.object.object_id else {
        return Ok(None);
    };
    let call = json!({
        "objectId": object, "functionDeclaration": "function () { return this.isConnected }", "returnByValue": true,
    });
    let called: Called = match page.cdp().ask(to, "Runtime.callFunctionOn", call).await {
        Ok(called) => called,
        Err(fault) => return gone(fault),
    };
    Ok((called.result.value == true).then_some(object))
}

fn said(entry: &Entry) -> String {
    if entry.name.is_empty() {
        entry.role.clone()
    } else {
        format!("{} \"{}\"", entry.role, entry.name)
    }
}

fn why(page: &Page, entry: &Entry) -> String {
    let tabs = page.chromium.tabs();
    match tabs.by_number.get(&entry.tab) {
        Some(tab)
            if entry.place.frame_id == tab.target_id && tab.loader_id != entry.place.loader_id =>
        {
            format!("the page is {} now", plain(&tab.url, 200))
        }
        _ => "it, or the frame that it was in, was taken out of the page".to_owned(),
    }
}

/// Refuses a ref of something that is gone, with what the page shows by now.
async fn stale(page: &Page, seat: &mut Seat, reference: String, was: String, why: &str) -> Refusal {
    let before = seat.shown.take();
    let changes = match page.read().await {
        Ok(shown) => {
            let changes = answer::changes(before.as_ref(), &shown);
            seat.shown = Some(shown);
            changes
        }
        Err(_) => {
            seat.shown = before;
            String::new()
        }
    };
    Refusal::Stale {
        reference,
        was,
        why: why.to_owned(),
        changes,
    }
}

/// Whether two readings are of one document.
pub(super) fn is_same_document(before: &Shown, after: &Shown) -> bool {
    (before.tab, &before.loader_id) == (after.tab, &after.loader_id)
}
