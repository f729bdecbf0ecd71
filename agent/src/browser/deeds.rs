//! What is done to a page.

mod field;
mod files;
mod pointer;
mod script;
mod visit;

pub(super) use files::downloads;
pub(super) use visit::address;

use serde_json::json;

use super::{action::Act, chromium::Seat, element::Element, page::Page, refusal::Refusal};

/// Does it, up to where the page was told. Returns what is to be said besides what the page shows.
pub(super) async fn done(
    page: &Page,
    seat: &mut Seat,
    act: &Act,
    home: &std::path::Path,
) -> Result<String, Refusal> {
    match act {
        Act::Navigate { url, .. } => visit::navigate(page, url).await,
        Act::Back {} => visit::go(page, -1).await,
        Act::Forward {} => visit::go(page, 1).await,
        Act::Reload {} => {
            let reload = page
                .cdp()
                .tell(Some(&page.session), "Page.reload", json!({}));
            page.patiently("loading the page again", reload).await?;
            Ok(String::new())
        }
        Act::Click {
            target,
            double,
            right,
        } => {
            let element = Element::find(page, seat, target).await?;
            pointer::click(&element, seat, *double, *right).await
        }
        Act::Hover { target } => {
            let element = Element::find(page, seat, target).await?;
            pointer::hover(&element, seat).await
        }
        Act::Drag { target, to } => {
            let from = Element::find(page, seat, target).await?;
            let to = Element::find(page, seat, to).await?;
            pointer::drag(&from, &to, seat).await
        }
        Act::Scroll {
            target,
            down,
            right_by,
        } => {
            let element = at(page, seat, target.as_deref()).await?;
            pointer::scroll(page, element.as_ref(), seat, *down, *right_by).await
        }
        Act::Type {
            target,
            text,
            enter,
        } => {
            if let Some(element) = at(page, seat, target.as_deref()).await? {
                field::go_to_end(&element, seat).await?;
            }
            field::typed(page, text, *enter).await
        }
        Act::Fill {
            target,
            text,
            enter,
        } => {
            let element = Element::find(page, seat, target).await?;
            field::fill(&element, seat, text, *enter).await
        }
        Act::Select { target, values } => {
            let element = Element::find(page, seat, target).await?;
            field::select(&element, values).await
        }
        Act::Press { target, key } => {
            if let Some(element) = at(page, seat, target.as_deref()).await? {
                element.focus().await?;
            }
            field::press(page, key).await
        }
        Act::Upload { target, files } => {
            let element = at(page, seat, target.as_deref()).await?;
            files::upload(page, element.as_ref(), seat, files).await
        }
        Act::Dialog { accept, text } => visit::dialog(page, *accept, text.as_deref()).await,
        Act::Pdf {} => files::pdf(page, home).await,
        Act::Evaluate { script, target } => {
            let element = at(page, seat, target.as_deref()).await?;
            script::evaluate(page, element.as_ref(), script).await
        }
        // Of the browser and not of a page.
        Act::SelectTab { .. } | Act::CloseTab { .. } => Ok(String::new()),
    }
}

async fn at(
    page: &Page,
    seat: &mut Seat,
    target: Option<&str>,
) -> Result<Option<Element>, Refusal> {
    match target {
        Some(target) => Element::find(page, seat, target).await.map(Some),
        None => Ok(None),
    }
}
