//! Agents at the screen of a box: what is given to a helper that works there is done there.

mod displays;

use cocoonbox_e2e::{
    Installation, Setup, Shared, TheBox, events::payload, programs::need_image, run,
    screen::Viewer, until,
};
use cocoonbox_proto::{
    control::v1::{Desktop, EnsureRequest, Flavor, GetBoxRequest, desktop},
    log::v1::{AgentPromptReceived, AgentToolCalled, DesktopHandedBack, DesktopWindow},
};

static SHARED: Shared = Shared::new(|| Setup::scripted(CONVERSATION));

/// What a keyboard of any one country cannot write.
const TEXT: &str = r"Привет 你好 é ß İ 👩‍👩‍👧 {}[]\|@€";

/// The main agent says what it wants done, and a helper does it at the screen.
const CONVERSATION: &str = r#"
[[conversation]]
when = "have it written"
[[conversation.step]]
tools = [{ name = "task", args = { description = "write", role = "computer", prompt = "WRITE it into the terminal" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "WRITE"
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "snapshot" } }]
[[conversation.step]]
expect = "\"Terminal\""
tools = [{ name = "computer", args = { action = "type", text = 'Привет 你好 é ß İ 👩‍👩‍👧 {}[]\|@€', enter = true } }]
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "screenshot" } }]
[[conversation.step]]
expect_images = 1
text = "It is written."
[[conversation]]
when = "fill the page"
[[conversation.step]]
tools = [{ name = "task", args = { description = "fill", role = "computer", prompt = "FILL the field of the page" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "FILL"
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 640, y = 500 } }]
[[conversation.step]]
tools = [{ name = "computer", args = { action = "type", text = 'Привет 你好 é ß İ 👩‍👩‍👧 {}[]\|@€' } }]
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "wait", text = "holds" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "stay at it"
[[conversation.step]]
tools = [{ name = "task", args = { description = "stay", role = "computer", prompt = "STAY there" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "STAY"
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "wait", text = "Go on", timeout_ms = 60000 } }]
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
expect_images = 2
text = "{last}"
[[conversation]]
when = "yourself"
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "have it clicked"
[[conversation.step]]
tools = [{ name = "task", args = { description = "click", role = "computer", prompt = "CLICK there" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "CLICK"
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "the first"
[[conversation.step]]
tools = [{ name = "task", args = { description = "first", role = "computer", prompt = "SHARED" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "SHARED"
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "touch ~/first; echo $DISPLAY; until [ -e ~/done ]; do sleep 0.1; done" } }]
[[conversation.step]]
expect = ":1"
tools = [{ name = "computer", args = { action = "click", x = 20, y = 20 } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "the second"
[[conversation.step]]
tools = [{ name = "task", args = { description = "second", role = "computer", prompt = "OWN" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "OWN"
[[conversation.step]]
tools = [{ name = "shell", args = { background = true, command = "xterm -title Own -e sh -c 'head -n 1 >~/part; mv ~/part ~/own; exec sleep 1000'" } }]
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "wait", text = "Own", timeout_ms = 30000 } }]
[[conversation.step]]
expect = "you have one of your own"
tools = [{ name = "computer", args = { action = "type", text = "only here", enter = true } }]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "echo $DISPLAY; until [ -e ~/taken ]; do sleep 0.1; done" } }]
[[conversation.step]]
expect = ":11"
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
expect = "second has control of this display"
tools = [{ name = "shell", args = { command = "touch ~/refused; until [ -e ~/free ]; do sleep 0.1; done" } }]
[[conversation.step]]
tools = [{ name = "computer", args = { action = "click", x = 10, y = 10 } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "the third"
[[conversation.step]]
tools = [{ name = "task", args = { description = "third", role = "computer", prompt = "BRIEF" } }]
[[conversation.step]]
text = "{last}"
[[conversation]]
when = "BRIEF"
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "windows" } }]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "touch ~/there; until [ -e ~/held ]; do sleep 0.1; done" } }]
[[conversation.step]]
text = "Brief."
[[conversation]]
when = "three more"
[[conversation.step]]
tools = [
  { name = "task", args = { description = "a", role = "computer", prompt = "HOLD" } },
  { name = "task", args = { description = "b", role = "computer", prompt = "HOLD" } },
  { name = "task", args = { description = "c", role = "computer", prompt = "HOLD" } },
]
[[conversation.step]]
text = "Three."
[[conversation]]
when = "HOLD"
[[conversation.step]]
tools = [{ name = "computer_look", args = { action = "windows" } }]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "until [ -e ~/free ]; do sleep 0.1; done" } }]
[[conversation.step]]
text = "Held."
[[conversation]]
[[conversation.step]]
text = "Hello."
"#;

/// A page that is all field, and says in its title what it holds.
const PAGE: &str = "<!doctype html><title>empty</title><body style='margin:0'><textarea \
    style='width:100vw;height:100vh' oninput='document.title=\\\"holds \\\"+this.value'></textarea>";

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
    let the_box = TheBox::of(installation, &user, id);
    until("the desktop is ready", || async {
        let told = the_box.user.boxes().get(reference(&the_box)).await;
        let told = told.expect("the box is there").into_inner();
        let state = told.desktop.as_ref().map(Desktop::state);
        (state == Some(desktop::State::Ready)).then_some(())
    })
    .await;
    the_box
}

fn reference(the_box: &TheBox) -> GetBoxRequest {
    GetBoxRequest {
        box_id: the_box.id.clone(),
        ..GetBoxRequest::default()
    }
}

async fn begin(the_box: &TheBox, command: &str) {
    let line = format!("setsid {command} >/dev/null 2>&1 </dev/null &");
    the_box.sh(&line).await;
}

/// Waits until the window manager has a window: before that nobody is told of it.
async fn has_window(the_box: &TheBox, title: &str) {
    let look = format!(
        "for id in $(xprop -root _NET_CLIENT_LIST | grep -o '0x[0-9a-f]*'); do \
         xprop -id $id _NET_WM_NAME WM_NAME; done | grep -q '\"{title}'"
    );
    let look = format!("until {look}; do sleep 0.1; done");
    until::soon("its window is there", the_box.sh(&look)).await;
}

#[test]
fn a_helper_at_the_screen_writes_into_a_terminal_exactly() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "writer").await;
        begin(
            &the_box,
            "xterm -title Terminal -e sh -c 'head -n 1 >~/part; mv ~/part ~/typed'",
        )
        .await;
        has_window(&the_box, "Terminal").await;
        let turn = the_box.send("have it written").await;
        turn.assert_done();
        assert!(turn.text().ends_with("It is written."), "{}", turn.text());
        let typed = "until [ -e ~/typed ]; do sleep 0.1; done; cat ~/typed";
        let typed = until::soon("it is typed", the_box.sh(typed)).await;
        assert_eq!(typed.trim_end_matches('\n'), TEXT);

        // An agent that talks to a person says what it wants done, and has no hands itself.
        // The scripted model says so when it is not offered what it is to call.
        let told = the_box.send("yourself").await.text();
        assert!(told.contains("wants the tool `computer`, but"), "{told}");

        // While a person drives, nobody else does.
        the_box.take_control("l1", 0).await.expect("it is free");
        let held = the_box.send("have it clicked").await.text();
        assert!(
            held.contains("writer has control of this display"),
            "{held}"
        );
        // A note wakes the conversation whose helper was refused.
        the_box.hand_back("l1", "it is all yours").await;
        let mut events = the_box.events("", &["agent/main"]);
        loop {
            let event = events.next_of("agent.prompt_received").await;
            let prompt: AgentPromptReceived = payload(&event, "agent.prompt_received");
            if prompt.text.ends_with("with this note: it is all yours") {
                break;
            }
        }
        events.next_of("agent.turn_ended").await;

        // One that is killed leaves nothing, and the next call starts another.
        the_box
            .sh("pkill -KILL -f '[c]omputer --socket-on-stdin'")
            .await;
        let told = until("it acts again", || async {
            let told = the_box.send("have it clicked").await.text();
            told.contains("clicked (10,10)").then_some(told)
        })
        .await;
        assert!(!told.is_empty());
    });
}

#[test]
fn an_agent_is_told_what_a_person_left_behind() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "leaver").await;
        let mut events = the_box.events("", &["agent/", "desktop/"]);
        let person = async {
            loop {
                let event = events.next_of("agent.tool_called").await;
                let call: AgentToolCalled = payload(&event, "agent.tool_called");
                if call.name == "computer_look" {
                    break;
                }
            }
            the_box.take_control("l1", 0).await.expect("it is free");
            begin(&the_box, "xterm -title Letter").await;
            has_window(&the_box, "Letter").await;
            the_box.hand_back("l1", "the letter is open").await;
            let event = events.next_of("desktop.handed_back").await;
            begin(&the_box, "xterm -title 'Go on'").await;
            payload::<DesktopHandedBack>(&event, "desktop.handed_back")
        };
        let (turn, left) = tokio::join!(the_box.send("stay at it"), person);
        turn.assert_done();
        let told = turn.text();
        assert!(
            told.contains("leaver had control of this display before and says: the letter is open"),
            "{told}"
        );
        assert!(
            told.contains("[what is typed goes to \"Letter\"]"),
            "{told}"
        );
        let titles = |windows: &[DesktopWindow]| {
            let titles = windows.iter().map(|window| window.title.clone());
            titles.collect::<Vec<_>>()
        };
        assert_eq!(titles(&left.windows_after), ["Letter"]);
        assert!(left.before.is_some() && left.after.is_some());

        // One that was not here before sees how it is by looking.
        let told = the_box.send("have it clicked").await.text();
        assert!(
            told.contains("[what is typed goes to \"Letter\"]"),
            "{told}"
        );
        assert!(!told.contains("[pictures"), "{told}");
    });
}

#[test]
fn a_helper_at_the_screen_fills_a_page() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "filler").await;
        if the_box.sh("command -v chromium || true").await.is_empty() {
            println!("not tested: the image has no browser, as on Ubuntu");
            return;
        }
        the_box.sh(&format!("echo \"{PAGE}\" >~/page.html")).await;
        begin(&the_box, "browser /home/user/page.html").await;
        has_window(&the_box, "empty").await;
        let told = the_box.send("fill the page").await.text();
        assert!(
            told.contains(&format!("holds {}", TEXT.replace('\\', r"\\"))),
            "{told}"
        );

        // A person writes on, with hands of their own; what they wrote is told to who comes next.
        the_box.take_control("l1", 0).await.expect("it is free");
        // The handshake, and how large the display is.
        let person = Viewer::open(&the_box, "l1", |shown| shown.len() >= 42).await;
        let person = person.expect("it is shown");
        person.click(640, 500).await;
        person.type_in("by hand").await;
        has_window(&the_box, "holds .*by hand").await;
        the_box.hand_back("l1", "").await;
        let told = the_box.send("have it clicked").await.text();
        assert!(told.contains("[typed into entry"), "{told}");
        assert!(told.contains("by hand\"]"), "{told}");
    });
}
