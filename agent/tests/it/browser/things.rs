//! What agents do all day: read, click, write, choose, go on.

use serde_json::json;

use super::{Browser, pages::Pages, reference};

const PAGES: &[(&str, &str)] = &[
    (
        "/",
        r#"<!doctype html><title>Orders</title><h1>Orders</h1>
        <form onsubmit="said.textContent='sent '+new URLSearchParams(new FormData(this));return false">
          <label>Name <input name=name required></label>
          <label><input type=checkbox name=gift> As a gift</label>
          <label>Size <select name=size><option value=s>Small<option value=l>Large</select></label>
          <label>When <input type=date name=when></label>
          <textarea name=note aria-label=Note></textarea>
          <button>Order</button>
        </form>
        <div contenteditable role=textbox aria-label=Rich style="min-height:1em">old</div>
        <p id=said>nothing yet</p>
        <button disabled>Never</button>
        <button style="visibility:hidden">Unseen</button>
        <button onclick="this.remove();said.textContent='removed'">Vanish</button>
        <button id=flip onclick="said.textContent='flipped'">Play</button>
        <div onclick="said.textContent='div clicked'">Just a div</div>
        <canvas width=50 height=20 aria-label=Chart></canvas>
        <a href="/next">Next page</a>
        <a href="/next" target=_blank>In a window</a>
        <div style="height:3000px"></div><button onclick="said.textContent='far clicked'">Far away</button>
        <div style="position:fixed;inset:0;background:#fff8;display:none" id=veil>veil</div>"#,
    ),
    ("/next", "<!doctype html><title>Second</title><h1>Second page</h1><a href=/>Home</a>"),
    (
        "/keys",
        "<!doctype html><title>k</title><input aria-label=Field autofocus><p id=seen></p><script>
        onkeydown = (e) => { seen.textContent += `${e.ctrlKey ? 'C-' : ''}${e.shiftKey ? 'S-' : ''}${e.key} ` }
        </script>",
    ),
    (
        "/drag",
        "<!doctype html><title>d</title><style>div{width:80px;height:80px;margin:20px}</style>
        <div draggable=true id=a role=button aria-label=Native>n</div>
        <div id=b role=button aria-label=Target>t</div><div id=c role=button aria-label=Mouse>m</div><p id=said></p>
        <script>
        a.ondragstart = (e) => e.dataTransfer.setData('text/plain', 'carried');
        b.ondragover = (e) => e.preventDefault();
        b.ondrop = (e) => { e.preventDefault(); said.textContent += ' dropped ' + e.dataTransfer.getData('text') };
        let down = false;
        c.onmousedown = () => down = true;
        b.onmouseup = () => { if (down) said.textContent += ' let go'; down = false };
        </script>",
    ),
    (
        "/icons",
        "<!doctype html><title>i</title><style>span.icon{display:inline-block;width:16px;height:16px}</style>
        <div>Mail by Ann <span class='icon trash'></span> <span class='icon star' id=star></span></div>
        <div><span class='icon drawing'></span></div><p id=said></p>
        <script>
        document.querySelector('.trash').onclick = () => said.textContent = 'thrown away';
        // What comes up under the pointer is loaded first, as a picture is.
        star.onmouseover = () => {
          star.onmouseover = null;
          star.style.display = 'none';
          setTimeout(() => { star.style.display = ''; star.style.marginLeft = '40px' }, 60);
        };
        star.onclick = () => said.textContent = 'marked';
        </script>",
    ),
    (
        "/late",
        "<!doctype html><title>l</title><p id=p>waiting</p><script>
        fetch('/next').then(() => setTimeout(() => p.textContent = 'arrived', 400)); console.log('hello', 5)
        </script>",
    ),
];

#[tokio::test]
async fn a_form_is_read_filled_and_sent() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let nothing = browser
        .asked("main", true, &json!({ "action": "snapshot" }))
        .await;
    assert!(
        !nothing.ok && nothing.text.contains("no page is open"),
        "{}",
        nothing.text
    );
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/")).await;
    assert!(
        shown.starts_with("[tab 1: \"Orders\" http://127.0.0.1:"),
        "{shown}"
    );
    for line in [
        "- heading \"Orders\" [ref=",
        "- textbox \"Name\" [ref=",
        "[required]",
        "- checkbox \"As a gift\" [ref=",
        ": \"Small\" (options: Small | Large)",
        "- button \"Never\" [ref=",
        "[disabled]",
        "- canvas \"Chart\" [ref=",
        "- text \"Just a div\" [ref=",
    ] {
        assert!(shown.contains(line), "no {line} in\n{shown}");
    }
    assert!(!shown.contains("Unseen"), "{shown}");
    let again = browser.snapshot().await;
    assert_eq!(
        reference(&again, "Note"),
        reference(&shown, "Note"),
        "refs stay"
    );
    let of = |words: &str| reference(&shown, words);
    let did = browser
        .act(json!({ "action": "fill", "ref": of("\"Name\""), "text": "Zoë 👩‍👩‍👧 \\|@€" }))
        .await;
    assert!(did.contains("Zoë 👩‍👩‍👧"), "{did}");
    browser
        .act(json!({ "action": "fill", "ref": of("\"Name\""), "text": "Zoë" }))
        .await;
    browser
        .act(json!({ "action": "click", "ref": of("As a gift") }))
        .await;
    let chosen = browser
        .act(json!({ "action": "select", "ref": of("\"Size\""), "values": ["Large"] }))
        .await;
    assert!(chosen.contains("selected: Large"), "{chosen}");
    browser
        .act(json!({ "action": "fill", "ref": of("\"When\""), "text": "2026-12-24" }))
        .await;
    browser
        .act(json!({ "action": "type", "ref": of("\"Note\""), "text": "two\nlines é" }))
        .await;
    let rich = browser
        .act(json!({ "action": "fill", "ref": of("\"Rich\""), "text": "new" }))
        .await;
    assert!(rich.contains("new") && !rich.contains("oldnew"), "{rich}");
    let sent = browser
        .act(json!({ "action": "click", "ref": of("\"Order\"") }))
        .await;
    let expected = "sent name=Zo%C3%AB&gift=on&size=l&when=2026-12-24&note=two%0Alines+%C3%A9";
    assert!(sent.contains(expected), "{sent}");
    assert!(browser.click("Just a div").await.contains("div clicked"));
    assert!(browser.click("Far away").await.contains("far clicked"));
}

#[tokio::test]
async fn what_cannot_be_acted_on_is_refused_with_the_reason() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/")).await;
    let of = |words: &str| reference(&shown, words);
    let click = |of: String| json!({ "action": "click", "ref": of });
    let said = browser.refused(click(of("\"Never\""))).await;
    assert!(said.contains("is disabled"), "{said}");
    for (reference, part) in [
        ("e9999", "never given out"),
        ("12", "is no ref"),
        ("ref", "is no ref"),
    ] {
        let said = browser.refused(click(reference.to_owned())).await;
        assert!(said.contains(part), "{said}");
    }
    let said = browser
        .refused(json!({ "action": "fill", "ref": of("As a gift"), "text": "x" }))
        .await;
    assert!(said.contains("is clicked on, not written in"), "{said}");
    let said = browser
        .refused(json!({ "action": "select", "ref": of("\"Size\""), "values": ["Huge"] }))
        .await;
    assert!(said.contains("has no option `Huge`"), "{said}");
    // Taken out of the page: with what the page shows by now.
    let vanish = of("\"Vanish\"");
    let told = browser.act(click(vanish.clone())).await;
    assert!(
        told.contains("+ - text \"removed\"") || told.contains("removed"),
        "{told}"
    );
    assert!(told.contains("gone: button \"Vanish\""), "{told}");
    let said = browser.refused(click(vanish)).await;
    assert!(
        said.contains("button \"Vanish\", is not there any more"),
        "{said}"
    );
    let veil = json!({ "action": "evaluate", "script": "veil.style.display = 'block'; 2" });
    browser.act(veil).await;
    let said = browser.refused(click(of("\"Play\""))).await;
    assert!(said.contains("is covered by <div id=veil>"), "{said}");
    // The page before.
    browser.open(&pages.url("/next")).await;
    let said = browser.refused(click(of("\"Name\""))).await;
    assert!(said.contains("the page is http"), "{said}");
}

#[tokio::test]
async fn keys_history_tabs_and_waiting() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/keys")).await;
    let field = reference(&shown, "Field");
    browser
        .act(json!({ "action": "type", "ref": field, "text": "aB!" }))
        .await;
    let told = browser
        .act(json!({ "action": "press", "key": "Control+a" }))
        .await;
    assert!(
        told.contains("a S-Shift S-B S-Shift S-! C-Control C-a"),
        "{told}"
    );
    let told = browser
        .act(json!({ "action": "press", "key": "Backspace" }))
        .await;
    let gone = "gone: textbox \"Field\" [ref=e1] [focused]: \"aB!\"";
    assert!(told.contains(gone), "{told}");
    let said = browser
        .refused(json!({ "action": "press", "key": "Hyper" }))
        .await;
    assert!(said.contains("is no key"), "{said}");

    browser.open(&pages.url("/")).await;
    assert!(browser.click("Next page").await.contains("Second page"));
    let back = browser.act(json!({ "action": "back" })).await;
    assert!(back.contains("\"Orders\""), "{back}");
    let forward = browser.act(json!({ "action": "forward" })).await;
    assert!(forward.contains("Second page"), "{forward}");
    browser.act(json!({ "action": "back" })).await;
    let opened = browser.click("In a window").await;
    assert!(opened.contains("a tab was opened"), "{opened}");
    let tabs = browser.look(json!({ "action": "tabs" })).await;
    assert_eq!(tabs.matches("(yours").count(), 2, "{tabs}");
    let other = browser
        .asked("other", false, &json!({ "action": "select_tab", "tab": 1 }))
        .await;
    assert!(
        !other.ok && other.text.contains("belongs to another agent"),
        "{}",
        other.text
    );
    let next = pages.url("/next");
    let other = browser
        .asked(
            "other",
            false,
            &json!({ "action": "navigate", "url": next }),
        )
        .await;
    assert!(
        other.ok && other.text.contains("Second page"),
        "{}",
        other.text
    );

    let late = browser.open(&pages.url("/late")).await;
    assert!(
        late.contains("waiting") || late.contains("arrived"),
        "{late}"
    );
    let waited = browser
        .look(json!({ "action": "wait", "text": "arrived", "idle": true }))
        .await;
    assert!(waited.starts_with("[tab"), "{waited}");
    let never = json!({ "action": "wait", "text": "never there", "timeout_ms": 300 });
    let never = browser.asked("main", true, &never).await;
    assert_eq!(
        (never.ok, never.text.as_str()),
        (false, "not within 300 ms")
    );
    let console = browser.look(json!({ "action": "console" })).await;
    assert!(console.contains("log: hello 5"), "{console}");
    let network = browser.look(json!({ "action": "network" })).await;
    assert!(network.contains("/next 200"), "{network}");
    let screenshot = json!({ "action": "screenshot" });
    let picture = browser.asked("main", true, &screenshot).await.picture;
    assert!(picture.starts_with(b"\x89PNG"), "a picture");
}

#[tokio::test]
async fn things_are_dragged_by_mouse_and_by_data() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/drag")).await;
    let of = |words: &str| reference(&shown, words);
    let drag = |from: &str| json!({ "action": "drag", "ref": of(from), "to": of("Target") });
    let told = browser.act(drag("Native")).await;
    assert!(told.contains("dropped carried"), "{told}");
    let told = browser.act(drag("Mouse")).await;
    assert!(told.contains("let go"), "{told}");
}

#[tokio::test]
async fn what_only_answers_clicks_is_shown_and_hit_where_it_goes_under_the_pointer() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/icons")).await;
    assert!(!shown.contains("drawing"), "nothing listens there: {shown}");
    for (icon, said) in [
        ("\"icon trash\"", "thrown away"),
        ("\"star icon star\"", "marked"),
    ] {
        assert!(
            shown.contains(&format!("- clickable {icon} [ref=")),
            "{shown}"
        );
        let icon = reference(&shown, icon);
        let did = browser.act(json!({ "action": "click", "ref": icon })).await;
        assert!(did.contains(said), "{did}");
    }
}
