//! Pages within pages: of the same site and of others, some of which go away while they are read.

use serde_json::json;

use super::{Browser, pages::Pages};

const PAGES: &[(&str, &str)] = &[
    (
        "/",
        "<!doctype html><title>Outer</title><h1>Outer</h1><iframe src=/same title=same width=400 height=150></iframe>
        <div style='padding:37px 0 0 53px'><iframe src=$OTHER/middle title=other width=600 height=250></iframe></div>",
    ),
    ("/same", "<!doctype html><button onclick=\"this.textContent='same done'\">In the same site</button>"),
    (
        "/middle",
        "<!doctype html><p>middle</p><iframe src=$SELF/inner title=nested width=500 height=150></iframe>",
    ),
    (
        "/inner",
        "<!doctype html><div style='margin:11px' id=host></div><script>
        const root = host.attachShadow({ mode: 'open' });
        root.innerHTML = '<p><button>In the shadow</button><input aria-label=Deep></p>';
        root.querySelector('button').onclick = (e) => e.target.textContent = 'shadow done';
        </script>",
    ),
    (
        "/shaky",
        "<!doctype html><title>Shaky</title><button>Steady</button><div id=all></div><script>
        // Frames of other sites come and go all the time.
        const step = () => {
          all.firstChild?.remove();
          const frame = document.createElement('iframe');
          frame.src = '$OTHER/middle';
          if (all.children.length < 3) all.append(frame);
          setTimeout(step, 300);
        };
        step();
        </script>",
    ),
];

#[tokio::test]
async fn buttons_in_frames_of_other_sites_and_in_shadow_roots_are_clicked() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    browser.open(&pages.url("/")).await;
    browser
        .look(json!({ "action": "wait", "text": "In the shadow" }))
        .await;
    let shown = browser.snapshot().await;
    let depth = |words: &str| {
        let line = shown.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("no {words} in\n{shown}"));
        line.len() - line.trim_start().len()
    };
    assert!(
        depth("In the same site") < depth("In the shadow"),
        "{shown}"
    );
    assert!(
        browser
            .click("In the same site")
            .await
            .contains("same done")
    );
    assert!(browser.click("In the shadow").await.contains("shadow done"));
    let deep = browser.reference("\"Deep\"").await;
    let told = browser
        .act(json!({ "action": "fill", "ref": deep, "text": "written" }))
        .await;
    assert!(told.contains("\"written\""), "{told}");
    let told = browser
        .act(json!({ "action": "press", "key": "Backspace" }))
        .await;
    assert!(told.contains("\"writte\""), "{told}");
}

#[tokio::test]
async fn frames_that_go_away_while_they_are_read_leave_the_rest() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    browser.open(&pages.url("/shaky")).await;
    for _ in 0..20 {
        let shown = browser.snapshot().await;
        assert!(shown.contains("- button \"Steady\" [ref="), "{shown}");
    }
}
