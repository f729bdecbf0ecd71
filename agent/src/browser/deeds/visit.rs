//! Going from page to page, and the dialogs on the way.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::super::{outline::plain, page::Page, refusal::Refusal};

/// For the first bytes of a page.
const NAVIGATE_MAX: Duration = Duration::from_secs(40);
/// Dialogs one after the other, after which a page is taken for one that never ends.
const DIALOGS_MAX: u32 = 10;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Navigated {
    #[serde(default)]
    error_text: String,
    #[serde(default)]
    is_download: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    current_index: i64,
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    id: i64,
}

/// Reads an address as it may be opened: scripts and the browser's own pages are none.
pub(in super::super) fn address(text: &str) -> Result<Url, Refusal> {
    let bad = |why: String| Refusal::BadUrl {
        url: plain(text, 200),
        why,
    };
    let url = match Url::parse(text.trim()) {
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            Url::parse(&format!("https://{}", text.trim()))
        }
        parsed => parsed,
    };
    let url = url.map_err(|error| bad(error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "it holds a user name or password, which would end up in the log".to_owned(),
        ));
    }
    match url.scheme() {
        "http" | "https" | "file" => Ok(url),
        _ if url.as_str() == "about:blank" => Ok(url),
        scheme => Err(bad(format!(
            "`{scheme}:` is not opened, only http, https and file"
        ))),
    }
}

pub(super) async fn navigate(page: &Page, text: &str) -> Result<String, Refusal> {
    let url = address(text)?;
    let to = json!({ "url": url.as_str() });
    let sent = page.cdp().send(Some(&page.session), "Page.navigate", to);
    let navigated = tokio::select! {
        biased;
        navigated = sent.within::<Navigated>(NAVIGATE_MAX) => navigated?,
        // Asked before it is left, or on the way.
        refusal = page.interrupted() => return Err(refusal),
    };
    if navigated.is_download || navigated.error_text == "net::ERR_ABORTED" {
        return Ok("this address is no page; see `downloads`".to_owned());
    }
    if navigated.error_text.is_empty() {
        return Ok(String::new());
    }
    Err(Refusal::NotLoaded {
        url: plain(url.as_str(), 200),
        why: said(&navigated.error_text),
    })
}

fn said(error: &str) -> String {
    let more = match error {
        "net::ERR_TUNNEL_CONNECTION_FAILED" | "net::ERR_PROXY_CONNECTION_FAILED" => {
            ": the box's door does not let this out; the owner of the box decides what it may reach"
        }
        "net::ERR_CONNECTION_REFUSED" => ": nothing listens there",
        _ => "",
    };
    format!("{}{more}", plain(error, 200))
}

/// Goes back or forward.
pub(super) async fn go(page: &Page, by: i64) -> Result<String, Refusal> {
    let asked = page
        .cdp()
        .ask(Some(&page.session), "Page.getNavigationHistory", json!({}));
    let history: History = page.patiently("reading the history", asked).await?;
    let at = usize::try_from(history.current_index + by).map_err(|_| Refusal::NoHistory)?;
    let entry = history.entries.get(at).ok_or(Refusal::NoHistory)?;
    let to = json!({ "entryId": entry.id });
    let gone = page
        .cdp()
        .tell(Some(&page.session), "Page.navigateToHistoryEntry", to);
    page.patiently("going there", gone).await?;
    Ok(String::new())
}

/// Answers a dialog. A page that opens one after the other is ended.
pub(super) async fn dialog(
    page: &Page,
    accept: bool,
    text: Option<&str>,
) -> Result<String, Refusal> {
    let (dialogs, message) = {
        let tabs = page.chromium.tabs();
        let tab = tabs
            .by_number
            .get(&page.number)
            .ok_or(Refusal::NoSuchTab(page.number))?;
        let dialog = tab.dialog.as_ref().ok_or(Refusal::NoDialog)?;
        (tab.dialogs, plain(&dialog.message, 200))
    };
    if dialogs >= DIALOGS_MAX {
        page.crash().await;
        return Err(Refusal::Hung {
            what: format!(
                "{dialogs} dialogs without anything between them, the last \"{message}\""
            ),
            seconds: 0,
            done: "the page was stopped; navigate to load it again",
        });
    }
    let mut answer = json!({ "accept": accept });
    if let Some(text) = text {
        answer["promptText"] = text.into();
    }
    page.cdp()
        .tell(Some(&page.session), "Page.handleJavaScriptDialog", answer)
        .await?;
    let word = if accept { "accepted" } else { "dismissed" };
    Ok(format!("dialog \"{message}\" {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_are_addresses() {
        let ok = |text: &str| address(text).map(String::from).unwrap();
        assert_eq!(
            ok(" http://localhost:8000/a b "),
            "http://localhost:8000/a%20b"
        );
        assert_eq!(ok("example.org/x"), "https://example.org/x");
        assert_eq!(ok("file:///workspace/a.html"), "file:///workspace/a.html");
        for text in [
            "javascript:alert(1)",
            "chrome://settings",
            "data:text/html,x",
            "http://",
            "http://a:b@c/",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
