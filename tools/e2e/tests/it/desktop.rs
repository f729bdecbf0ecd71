//! The desktop of a box: started, seen, started again, slept and woken.

use std::collections::BTreeSet;

use cocoonbox_e2e::{
    Events, Installation, Picture, Setup, Shared, TheBox,
    events::{payload, payload_if},
    programs::need_image,
    run, until,
    until::soon,
};
use cocoonbox_proto::{
    agent::v1::ReadBlobRequest,
    control::v1::{Box as BoxMessage, Desktop, EnsureRequest, Flavor, GetBoxRequest, desktop},
    log::v1::{
        DesktopPartFailed, DesktopPartStarted, DesktopReady, DesktopStarted,
        desktop_part_failed::Reason,
    },
};

static SHARED: Shared = Shared::new(|| Setup::scripted(CONVERSATION));

/// What an agent does in the browser. Refs are given out in the order of the page.
const CONVERSATION: &str = r#"
[[conversation]]
when = "press"
[[conversation.step]]
tools = [{ name = "browser", args = { action = "navigate", url = "file:///home/user/form.html" } }]
[[conversation.step]]
expect = "- button \"Press\" [ref=e2]"
tools = [{ name = "browser", args = { action = "click", ref = "e2" } }]
[[conversation.step]]
expect = "is pressed"
tools = [{ name = "browser_look", args = { action = "screenshot" } }]
[[conversation.step]]
expect_images = 1
text = "Seen."
[[conversation]]
when = "again"
[[conversation.step]]
tools = [{ name = "browser", args = { action = "click", ref = "e2" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "tabs"
[[conversation.step]]
tools = [{ name = "browser_look", args = { action = "tabs" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
[[conversation.step]]
text = "Hello."
"#;

const FORM: &str = "<!doctype html><title>form</title><body style='background:#c0ffee'><h1>Form</h1>\
    <button onclick=\\\"this.textContent='is pressed'\\\">Press</button>";

/// A page of one colour that nothing else has.
const PAGE: &str = "<!doctype html><title>page</title><body style='background:#c0ffee'>";
const COLOUR: u32 = 0x00c0_ffee;
/// The page is most of the browser's window, which is most of the display.
const MUCH: f64 = 0.3;

async fn light(installation: &Installation, user: &str) -> TheBox {
    need_image("light");
    let user = installation.user(user).await;
    let request = EnsureRequest {
        flavor: Flavor::Light.into(),
        name: "main".into(),
        ..EnsureRequest::default()
    };
    let (id, ended) = user.ensure_as(request).await.expect("a light box is made");
    assert!(ended.is_some_and(|ended| ended.is_done()));
    TheBox::of(installation, &user, id)
}

async fn told(the_box: &TheBox) -> BoxMessage {
    let request = GetBoxRequest {
        box_id: the_box.id.clone(),
        ..GetBoxRequest::default()
    };
    let told = the_box.user.boxes().get(request).await;
    told.expect("the box is there").into_inner()
}

async fn ready(the_box: &TheBox) -> BoxMessage {
    until("the desktop is ready", || async {
        let told = told(the_box).await;
        let state = told.desktop.as_ref().map(Desktop::state);
        (state == Some(desktop::State::Ready)).then_some(told)
    })
    .await
}

/// Follows the log until everything answers, and returns the parts that started on the way.
async fn started(events: &mut Events) -> Vec<String> {
    let mut parts = Vec::new();
    loop {
        let event = events.next().await;
        match event.kind.as_str() {
            "desktop.part_started" => {
                parts.push(payload::<DesktopPartStarted>(&event, &event.kind).part);
            }
            "desktop.ready" => {
                assert!(payload::<DesktopReady>(&event, &event.kind).since_ms > 0);
                return parts;
            }
            other => panic!("`{other}` before the desktop was ready"),
        }
    }
}

/// Follows the log from a failure until everything answers again. Returns what failed, and what was started. What
/// loses its display may end, and be noticed, before the display is.
async fn started_again(events: &mut Events) -> (Vec<DesktopPartFailed>, BTreeSet<String>) {
    let (mut failed, mut parts) = (Vec::new(), BTreeSet::new());
    loop {
        let event = events.next().await;
        match event.kind.as_str() {
            "desktop.part_failed" => failed.push(payload(&event, &event.kind)),
            "desktop.part_started" => {
                parts.insert(payload::<DesktopPartStarted>(&event, &event.kind).part);
            }
            "desktop.ready" => return (failed, parts),
            other => panic!("`{other}` before the desktop was ready again"),
        }
    }
}

async fn shows(the_box: &TheBox, what: &str, is_it: impl Fn(&Picture) -> bool) -> Picture {
    until(what, || async {
        the_box.picture().filter(|picture| is_it(picture))
    })
    .await
}

/// What the box showed when it went to sleep.
async fn last_picture(the_box: &TheBox, told: &Desktop) -> Picture {
    let image = told.last_picture.clone().and_then(|last| last.image);
    let request = ReadBlobRequest {
        name: image.expect("a picture was taken").blob,
        offset: 0,
    };
    let parts = the_box.user.agents(&the_box.id).read_blob(request).await;
    let mut parts = parts.expect("it is kept").into_inner();
    let mut file = Vec::new();
    while let Some(part) = parts.message().await.expect("all of it") {
        file.extend(part.data);
    }
    Picture::of_png(&file)
}

async fn begin(the_box: &TheBox, command: &str) {
    let line = format!("setsid {command} >/dev/null 2>&1 </dev/null &");
    the_box.sh(&line).await;
}

#[test]
fn a_desktop_is_ready_seen_and_back_after_its_display_was_killed() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "display").await;
        let told = ready(&the_box).await;
        assert_eq!(told.flavor(), Flavor::Light);
        assert!(told.image.starts_with("light-"), "{}", told.image);
        let mut events = the_box.events("", &["desktop/main"]);
        let begun: DesktopStarted =
            payload(&events.next_of("desktop.started").await, "desktop.started");
        assert!(!begun.wake_id.is_empty());
        let mut parts = started(&mut events).await;
        parts.sort();
        assert_eq!(parts, ["accessibility", "bus", "screen", "windows"]);

        let empty = the_box.picture().expect("the display answers");
        assert_eq!((empty.width, empty.height), (1280, 800));
        begin(&the_box, "xterm -bg '#c0ffee' -geometry 80x24+0+0").await;
        let shown = |picture: &Picture| picture.share(COLOUR) > 0.1;
        shows(&the_box, "a terminal is on the display", shown).await;

        the_box.sh("pkill -KILL -x Xvnc").await;
        let (failed, parts) = started_again(&mut events).await;
        let screen = failed.iter().find(|failed| failed.part == "screen");
        let screen = screen.expect("its end was noticed");
        assert_eq!((screen.code, screen.reason()), (9, Reason::Signalled));
        // What stood on the display came back with it, and what did not was left alone.
        assert!(failed.iter().all(|failed| failed.part != "bus"));
        assert_eq!(
            Vec::from_iter(parts),
            ["accessibility", "screen", "windows"]
        );
        ready(&the_box).await;
        begin(&the_box, "xterm -bg '#c0ffee'").await;
        shows(&the_box, "a terminal is on the display again", shown).await;
    });
}

#[test]
fn a_browser_keeps_its_sandbox_and_its_pages_over_a_sleep() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "browser").await;
        ready(&the_box).await;
        if the_box.sh("command -v chromium || true").await.is_empty() {
            println!("not tested: the image has no browser, as on Ubuntu");
            return;
        }
        the_box.sh(&format!("echo \"{PAGE}\" >~/page.html")).await;
        begin(&the_box, "browser /home/user/page.html").await;
        let page = |picture: &Picture| picture.share(COLOUR) > MUCH;
        shows(&the_box, "the page is on the display", page).await;
        // A renderer in a namespace of its own, which is the browser's doing, and under a filter more.
        let status = "cat /proc/$(pgrep -nf 'type=[r]enderer')/status";
        let status = the_box.sh(status).await;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.unwrap_or_default().split_whitespace().skip(1).count()
        };
        assert!(field("NSpid:") > 1, "{status}");
        assert!(status.contains("Seccomp_filters:\t2"), "{status}");
        let commands = the_box.processes_with("chromium");
        let unsafe_one = |command: &str| command.split(' ').any(|part| part == "--no-sandbox");
        assert!(!commands.iter().any(|process| unsafe_one(&process.command)));

        // The browser writes its pages down some seconds after they are opened.
        let kept = "until grep -qsa page.html ~/.config/cocoonbox-browser/Default/Sessions/*; \
                    do sleep 0.1; done";
        soon("the page is written down", the_box.sh(kept)).await;
        the_box.hibernate().await;
        let asleep = told(&the_box).await.desktop.unwrap_or_default();
        assert_eq!(asleep.state(), desktop::State::None);
        // What it showed last can be seen meanwhile.
        let last = last_picture(&the_box, &asleep).await;
        assert_eq!((last.width, last.height), (1280, 800));
        assert!(page(&last), "the page is in the last picture");
        the_box.wake().await;
        ready(&the_box).await;
        let begun = the_box.events("", &["desktop/main"]).all().await;
        let begun: Vec<DesktopStarted> = begun
            .expect("the log can be read")
            .iter()
            .filter_map(|event| payload_if(event, "desktop.started"))
            .collect();
        assert_eq!(begun.len(), 2, "one for each wake");
        assert_ne!(begun[0].wake_id, begun[1].wake_id);
        // Without an address: it shows what it showed.
        begin(&the_box, "browser").await;
        shows(&the_box, "the page is back", page).await;
    });
}

#[test]
fn an_agent_and_a_person_share_one_browser() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "shared").await;
        ready(&the_box).await;
        if the_box.sh("command -v chromium || true").await.is_empty() {
            println!("not tested: the image has no browser, as on Ubuntu");
            return;
        }
        let written = format!("echo \"{FORM}\" >~/form.html; echo \"{PAGE}\" >~/page.html");
        the_box.sh(&written).await;
        let turn = the_box.send("press it").await;
        turn.assert_done();
        assert_eq!(turn.text(), "Seen.");
        // On the display, in a sandbox, spoken to by nobody else.
        let page = |picture: &Picture| picture.share(COLOUR) > MUCH;
        shows(&the_box, "the agent's page is on the display", page).await;
        let commands = the_box.processes_with("--remote-debugging-pipe");
        assert!(
            !commands
                .iter()
                .any(|process| process.command.contains("--no-sandbox"))
        );
        let port = the_box.processes_with("--remote-debugging-port");
        assert!(port.is_empty(), "it listens on a port");

        // What a person opens comes to the same browser.
        begin(&the_box, "browser /home/user/page.html").await;
        let tabs = until("the agent sees the person's page", || async {
            let turn = the_box.send("which tabs").await;
            let text = turn.text();
            text.contains("page.html").then_some(text)
        })
        .await;
        assert!(
            tabs.contains("form.html") && tabs.contains("(a person's)"),
            "{tabs}"
        );

        // While a person drives, the agent looks on.
        the_box.take_control("l1", 0).await.expect("it is free");
        let held = the_box.send("again").await.text();
        assert!(
            held.contains("shared has control of this display"),
            "{held}"
        );
        the_box.hand_back("l1", "your turn").await;
        let told = until("the agent may act", || async {
            let text = the_box.send("again").await.text();
            (!text.contains("has control of")).then_some(text)
        })
        .await;
        assert!(told.contains("says: your turn"), "{told}");

        // One that is killed is in the log with the reason, and the next action starts another.
        the_box.sh("pkill -KILL -o -x chromium").await;
        let mut events = the_box.events("", &["desktop/main"]);
        let failed: DesktopPartFailed = payload(
            &events.next_of("desktop.part_failed").await,
            "desktop.part_failed",
        );
        assert_eq!(failed.part, "browser");
        assert!(failed.output.contains("signal 9"), "{}", failed.output);
        let turn = the_box.send("press it").await;
        assert!(!turn.text().is_empty());
        let started = the_box.processes_with("--remote-debugging-pipe");
        assert!(!started.is_empty(), "it runs again");
    });
}
