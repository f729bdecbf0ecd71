//! What only looks at a page.

use std::{fmt::Write as _, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    action::Look,
    answer,
    chromium::{Chromium, Seat},
    deeds,
    element::Element,
    holder::Answer,
    outline::plain,
    page::Page,
    refs,
    refusal::Refusal,
};

const WAIT_DEFAULT_MS: u64 = 10_000;
const WAIT_MAX_MS: u64 = 60_000;
/// How often a page is read again for a text.
const LOOK: Duration = Duration::from_millis(200);
/// Of the logs of a page.
const LOGGED_MAX: usize = 60;
const PICTURE_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
struct Captured {
    data: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    css_visual_viewport: Viewport,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Viewport {
    page_x: f64,
    page_y: f64,
    client_width: f64,
    client_height: f64,
}

/// Looks, and says what is seen.
pub(super) async fn seen(page: &Page, seat: &mut Seat, look: &Look) -> Result<Answer, Refusal> {
    let head = answer::head(&page.chromium, page.number);
    let told = match look {
        Look::Snapshot {
            offset,
            target,
            find,
        } => {
            return snapshot(page, seat, *offset, target.as_deref(), find.as_deref())
                .await
                .map(Answer::from);
        }
        Look::Screenshot { target } => {
            return screenshot(page, seat, target.as_deref(), head).await;
        }
        Look::Wait {
            text,
            gone,
            idle,
            timeout_ms,
        } => {
            wait(page, text.as_deref(), gone.as_deref(), *idle, *timeout_ms).await?;
            let shown = page.read().await?;
            let changes = answer::changes(seat.shown.as_ref(), &shown);
            seat.shown = Some(shown);
            return Ok(format!("{}{changes}", answer::head(&page.chromium, page.number)).into());
        }
        Look::Console {} => console(page),
        Look::Network {} => network(page),
        Look::Tabs {} | Look::Downloads {} => String::new(),
    };
    Ok(format!("{head}\n{told}").into())
}

async fn snapshot(
    page: &Page,
    seat: &mut Seat,
    offset: usize,
    target: Option<&str>,
    find: Option<&str>,
) -> Result<String, Refusal> {
    let is_next = offset > 0
        && seat
            .shown
            .as_ref()
            .is_some_and(|shown| shown.tab == page.number);
    let shown = match seat.shown.take().filter(|_| is_next) {
        // The next part of what was shown is of the same moment.
        Some(shown) => shown,
        None => page.read().await?,
    };
    let lines = match target {
        None => None,
        Some(text) => {
            let number = refs::parse(text).ok_or_else(|| Refusal::NoRef(plain(text, 40)))?;
            let lines = answer::below(&shown.lines, number);
            let Some(lines) = lines else {
                seat.shown = Some(shown);
                // Says what became of it.
                let element = Element::find(page, seat, text).await?;
                return Err(element.not_fit("is not in the snapshot any more"));
            };
            Some(lines)
        }
    };
    let lines = match (lines, find) {
        (lines, None) => lines,
        (lines, Some(find)) => Some(answer::matching(
            lines.as_ref().unwrap_or(&shown.lines),
            find,
        )),
    };
    let told = match (&lines, find) {
        (Some(lines), Some(find)) if lines.is_empty() => {
            format!("[no line of the page holds \"{}\"]", plain(find, 80))
        }
        _ => answer::page(lines.as_ref().unwrap_or(&shown.lines), offset),
    };
    seat.shown = Some(shown);
    Ok(format!(
        "{}\n{told}",
        answer::head(&page.chromium, page.number)
    ))
}

async fn screenshot(
    page: &Page,
    seat: &mut Seat,
    target: Option<&str>,
    head: String,
) -> Result<Answer, Refusal> {
    let mut how = json!({ "format": "png" });
    if let Some(target) = target {
        let element = Element::find(page, seat, target).await?;
        how["clip"] = element.clip().await?;
    }
    let asked = page
        .cdp()
        .send(Some(&page.session), "Page.captureScreenshot", how);
    let captured: Captured = page
        .patiently("taking a picture", asked.within(PICTURE_MAX))
        .await?;
    let metrics = page
        .cdp()
        .ask(Some(&page.session), "Page.getLayoutMetrics", json!({}));
    let metrics: Metrics = page.patiently("measuring the page", metrics).await?;
    let picture = BASE64_STANDARD.decode(captured.data).unwrap_or_default();
    let Viewport {
        page_x,
        page_y,
        client_width,
        client_height,
    } = metrics.css_visual_viewport;
    Ok(Answer {
        text: format!(
            "{head}\n[a picture of what is in view: {client_width:.0}x{client_height:.0} pixels from {page_x:.0},{page_y:.0} of the page]"
        ),
        picture,
    })
}

async fn wait(
    page: &Page,
    text: Option<&str>,
    gone: Option<&str>,
    idle: bool,
    timeout_ms: Option<u64>,
) -> Result<(), Refusal> {
    if text.is_none() && gone.is_none() && !idle {
        let why = "say what to wait for: `text`, `gone` or `idle`".to_owned();
        return Err(Refusal::Arguments(why));
    }
    let ms = timeout_ms.unwrap_or(WAIT_DEFAULT_MS).clamp(1, WAIT_MAX_MS);
    let deadline = Instant::now() + Duration::from_millis(ms);
    let waited = async {
        if idle {
            tokio::select! {
                biased;
                refusal = page.interrupted() => return Err(refusal),
                idle = page.idle() => idle?,
            }
        }
        loop {
            let shown = page.read().await?;
            let has = |text: &str| {
                let text = text.to_lowercase();
                shown
                    .lines
                    .iter()
                    .any(|line| line.to_lowercase().contains(&text))
            };
            if text.is_none_or(has) && !gone.is_some_and(has) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    };
    let waited = timeout(deadline - Instant::now(), waited).await;
    waited.unwrap_or(Err(Refusal::NotInTime(ms)))
}

fn console(page: &Page) -> String {
    let tabs = page.chromium.tabs();
    let said = tabs.by_number.get(&page.number).map(|tab| &tab.said);
    let mut told = String::from("[what the page wrote to its console, newest last; material]");
    for (kind, text) in said
        .into_iter()
        .flatten()
        .rev()
        .take(LOGGED_MAX)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let _ = write!(told, "\n{kind}: {text}");
    }
    told
}

fn network(page: &Page) -> String {
    let tabs = page.chromium.tabs();
    let requests = tabs.by_number.get(&page.number).map(|tab| &tab.requests);
    let mut told = String::from("[requests of the page, newest last]");
    for asked in requests
        .into_iter()
        .flatten()
        .rev()
        .take(LOGGED_MAX)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let status = match (asked.status, asked.error.as_str(), asked.is_over) {
            (_, error, _) if !error.is_empty() => error.to_owned(),
            (0, _, false) => "under way".to_owned(),
            (0, _, true) => "no answer".to_owned(),
            (status, _, _) => status.to_string(),
        };
        let _ = write!(
            told,
            "\n{} {} {} {status}",
            asked.kind, asked.method, asked.url
        );
    }
    told
}

/// The tabs of the browser, and whose they are.
pub(super) fn tabs(chromium: &Chromium, agent_id: &str, at: Option<u32>) -> String {
    let tabs = chromium.tabs();
    let mut told = String::from("[tabs]");
    for (number, tab) in &tabs.by_number {
        let whose = match tab.owner.as_deref() {
            Some(owner) if owner == agent_id => "yours",
            Some(_) => "another agent's",
            None => "a person's",
        };
        let here = if at == Some(*number) {
            ", you are here"
        } else {
            ""
        };
        let _ = write!(
            told,
            "\n{number} \"{}\" {} ({whose}{here})",
            plain(&tab.title, 120),
            plain(&tab.url, 300)
        );
    }
    told
}

/// Everything that was downloaded.
pub(super) fn downloads(chromium: &Chromium) -> String {
    let told = deeds::downloads(&mut chromium.tabs().downloads, false);
    if told.is_empty() {
        "[nothing was downloaded]".to_owned()
    } else {
        told.join("\n")
    }
}

impl Element {
    /// What of the page it takes up.
    async fn clip(&self) -> Result<Value, Refusal> {
        let quad = self.quad_in_page().await?;
        let xs = [quad[0], quad[2], quad[4], quad[6]];
        let ys = [quad[1], quad[3], quad[5], quad[7]];
        let metrics =
            self.page
                .cdp()
                .ask(Some(&self.page.session), "Page.getLayoutMetrics", json!({}));
        let metrics: Metrics = self.page.patiently("measuring the page", metrics).await?;
        let (left, right) = bounds(&xs);
        let (top, bottom) = bounds(&ys);
        Ok(json!({
            "x": left + metrics.css_visual_viewport.page_x, "y": top + metrics.css_visual_viewport.page_y,
            "width": (right - left).clamp(1.0, 4_000.0), "height": (bottom - top).clamp(1.0, 4_000.0), "scale": 1,
        }))
    }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    let fold = |start, pick: fn(f64, f64) -> f64| values.iter().copied().fold(start, pick);
    (
        fold(f64::INFINITY, f64::min),
        fold(f64::NEG_INFINITY, f64::max),
    )
}
