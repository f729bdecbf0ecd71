//! What Chromium tells without being asked, as far as it matters here.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// An event of the browser itself or of one of its sessions.
#[derive(Debug)]
pub(super) enum Event {
    TargetFound(TargetInfo),
    TargetGone {
        target_id: String,
    },
    TargetCrashed {
        target_id: String,
    },
    Attached {
        session_id: String,
        target: TargetInfo,
    },
    Detached {
        session_id: String,
    },
    Navigated(Frame),
    NavigatedWithin {
        frame_id: String,
        url: String,
    },
    Loading {
        frame_id: String,
    },
    Loaded {
        frame_id: String,
    },
    FrameGone {
        frame_id: String,
    },
    DialogOpened(Dialog),
    DialogClosed,
    ChooserOpened {
        backend: Option<i64>,
        is_multiple: bool,
    },
    DragBegan(Value),
    Requested(Request),
    Answered {
        request_id: String,
        status: i64,
    },
    RequestEnded {
        request_id: String,
        error: String,
    },
    Said {
        kind: String,
        text: String,
    },
    DownloadBegan {
        guid: String,
        url: String,
        name: String,
    },
    DownloadWent(Download),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TargetInfo {
    pub(super) target_id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) url: String,
    pub(super) opener_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) parent_id: String,
    pub(super) loader_id: String,
    pub(super) url: String,
    /// Set where the page of an error is shown in the place of what was asked for.
    pub(super) unreachable_url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Dialog {
    pub(super) url: String,
    pub(super) message: String,
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) default_prompt: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Download {
    pub(super) guid: String,
    pub(super) received_bytes: f64,
    /// `inProgress`, `completed` or `canceled`.
    pub(super) state: String,
    pub(super) file_path: String,
}

#[derive(Deserialize)]
struct Body<T> {
    params: T,
}

/// Reads an event; `None` if it does not matter or is not understood.
pub(super) fn read(method: &str, bytes: &[u8]) -> Option<Event> {
    Some(match method {
        "Target.targetCreated" | "Target.targetInfoChanged" => {
            let WithTarget { target_info, .. } = params(bytes)?;
            Event::TargetFound(target_info)
        }
        "Target.targetDestroyed" => {
            let Ids { target_id, .. } = params(bytes)?;
            Event::TargetGone { target_id }
        }
        "Target.targetCrashed" => {
            let Ids { target_id, .. } = params(bytes)?;
            Event::TargetCrashed { target_id }
        }
        "Target.attachedToTarget" => {
            let WithTarget {
                session_id,
                target_info: target,
            } = params(bytes)?;
            Event::Attached { session_id, target }
        }
        "Target.detachedFromTarget" => {
            let Ids { session_id, .. } = params(bytes)?;
            Event::Detached { session_id }
        }
        "Page.frameNavigated" => {
            let WithFrame { frame } = params(bytes)?;
            Event::Navigated(frame)
        }
        "Page.navigatedWithinDocument" => {
            let Ids { frame_id, url, .. } = params(bytes)?;
            Event::NavigatedWithin { frame_id, url }
        }
        "Page.frameStartedLoading" => {
            let Ids { frame_id, .. } = params(bytes)?;
            Event::Loading { frame_id }
        }
        "Page.frameStoppedLoading" => {
            let Ids { frame_id, .. } = params(bytes)?;
            Event::Loaded { frame_id }
        }
        "Page.frameDetached" => {
            let Ids { frame_id, .. } = params(bytes)?;
            Event::FrameGone { frame_id }
        }
        "Page.javascriptDialogOpening" => Event::DialogOpened(params(bytes)?),
        "Page.javascriptDialogClosed" => Event::DialogClosed,
        "Page.fileChooserOpened" => {
            let chooser: Chooser = params(bytes)?;
            Event::ChooserOpened {
                backend: chooser.backend_node_id,
                is_multiple: chooser.mode == "selectMultiple",
            }
        }
        "Input.dragIntercepted" => {
            let drag: Drag = params(bytes)?;
            Event::DragBegan(drag.data)
        }
        "Network.requestWillBeSent" => Event::Requested(request(params(bytes)?)),
        "Network.responseReceived" => {
            let answered: Answered = params(bytes)?;
            Event::Answered {
                request_id: answered.request_id,
                status: answered.response.status,
            }
        }
        "Network.loadingFinished" | "Network.loadingFailed" => {
            let Ids {
                request_id,
                error_text,
                ..
            } = params(bytes)?;
            Event::RequestEnded {
                request_id,
                error: error_text,
            }
        }
        "Runtime.consoleAPICalled" => said(params(bytes)?),
        "Runtime.exceptionThrown" => thrown(params(bytes)?),
        "Log.entryAdded" => {
            let Entry { entry } = params(bytes)?;
            Event::Said {
                kind: entry.level,
                text: entry.text,
            }
        }
        "Browser.downloadWillBegin" => {
            let began: Began = params(bytes)?;
            Event::DownloadBegan {
                guid: began.guid,
                url: began.url,
                name: began.suggested_filename,
            }
        }
        "Browser.downloadProgress" => Event::DownloadWent(params(bytes)?),
        _ => return None,
    })
}

fn params<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let body: Result<Body<T>, _> = serde_json::from_slice(bytes);
    match body {
        Ok(body) => Some(body.params),
        Err(error) => {
            tracing::warn!(%error, "an event of the browser is not understood");
            None
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ids {
    target_id: String,
    session_id: String,
    frame_id: String,
    request_id: String,
    error_text: String,
    url: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WithTarget {
    session_id: String,
    target_info: TargetInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WithFrame {
    frame: Frame,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Chooser {
    mode: String,
    backend_node_id: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Drag {
    data: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WillBeSent {
    request_id: String,
    request: Sent,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent {
    method: String,
    url: String,
}

fn request(sent: WillBeSent) -> Request {
    Request {
        id: sent.request_id,
        method: sent.request.method,
        url: sent.request.url,
        kind: sent.kind,
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answered {
    request_id: String,
    response: Response,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    status: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Called {
    #[serde(rename = "type")]
    kind: String,
    args: Vec<Argument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Argument {
    value: Value,
    description: String,
}

fn said(called: Called) -> Event {
    let words: Vec<String> = called
        .args
        .into_iter()
        .map(|argument| match argument.value {
            Value::String(text) => text,
            Value::Null => argument.description,
            value => value.to_string(),
        })
        .collect();
    Event::Said {
        kind: called.kind,
        text: words.join(" "),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Thrown {
    exception_details: Exception,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exception {
    text: String,
    exception: Argument,
}

fn thrown(thrown: Thrown) -> Event {
    let Exception { text, exception } = thrown.exception_details;
    Event::Said {
        kind: "exception".to_owned(),
        text: format!("{text} {}", exception.description),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    entry: EntryBody,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EntryBody {
    level: String,
    text: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Began {
    guid: String,
    url: String,
    suggested_filename: String,
}
