//! Texts arrive exactly as they were given.

use serde_json::json;

use super::{desk::Desk, elements::GTK3};

const TEXT: &str = r"Привет 你好 é ß İ 👩‍👩‍👧 {}[]\|@€ aA1!~";

#[tokio::test]
async fn a_terminal_gets_what_was_written() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    // Raw, so that nothing in the terminal edits it; ended by what no text of a test has.
    let script = "stty -icanon -echo; touch $F/reads; head -n 2 >$F/part; mv $F/part $F/typed";
    desk.run("xterm", &["-title", "Terminal", "-e", "sh", "-c", script]);
    desk.window("Terminal").await;
    desk.active("Terminal").await;
    crate::world::eventually("it reads", || desk.path("reads").exists()).await;
    let shown = desk.snapshot().await;
    assert!(shown.contains("does not tell its elements"), "{shown}");
    let written = format!("{TEXT}\ta\tb\n");
    desk.act(json!({ "action": "type", "text": written, "enter": true }))
        .await;
    desk.holds("typed", &format!("{written}\n")).await;
}

#[tokio::test]
async fn a_field_gets_what_was_written_whatever_the_keyboard_is() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    let field = desk.reference("\"Field\"").await;
    let told = desk
        .act(json!({ "action": "type", "ref": field, "text": TEXT }))
        .await;
    assert!(told.contains("it holds that"), "{told}");
    desk.holds("entry", TEXT).await;
    // The person has another layout by now.
    let status = std::process::Command::new("setxkbmap")
        .args(["-display", &desk.display(), "ru"])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("not tested: layouts, there is no setxkbmap");
        return;
    }
    desk.act(json!({ "action": "key", "keys": "ctrl+a" })).await;
    desk.act(json!({ "action": "type", "text": TEXT })).await;
    desk.holds("entry", TEXT).await;
    // More different characters than keys can be lent at one time.
    let many: String = ('Ā'..='ǿ').collect();
    desk.act(json!({ "action": "key", "keys": "ctrl+a" })).await;
    desk.act(json!({ "action": "type", "text": many })).await;
    desk.holds("entry", &many).await;
}
