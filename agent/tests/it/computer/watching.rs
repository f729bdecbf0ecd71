//! What a person does is looked at: before, after, and what they wrote.

use cocoonbox_proto::toolhost::v1::ComputerWatchRequest;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{desk::Desk, elements::GTK3};

const PNG: &[u8] = b"\x89PNG\r\n";
const LATER: &str = r"
import gi
gi.require_version('Gtk', '3.0')
from gi.repository import Gtk
window = Gtk.Window(title='Later')
window.connect('destroy', Gtk.main_quit)
window.show_all()
Gtk.main()
";

#[tokio::test]
async fn windows_and_words_are_told_and_no_password() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    let field = desk.reference("\"Field\"").await;
    let secret = desk.reference("password").await;
    let (until, requests) = mpsc::channel::<ComputerWatchRequest>(1);
    let answers = desk.client().watch(ReceiverStream::new(requests)).await;
    let mut answers = answers.expect("it is watched").into_inner();
    let before = answers.message().await.expect("an answer").expect("a look");
    assert!(before.png.starts_with(PNG));
    let titles: Vec<_> = before.windows.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Three"]);
    assert!(before.windows[0].active && before.typed.is_empty());

    // Whose hands these are makes no difference here.
    let write = |place: &str, text: &str| json!({ "action": "type", "ref": place, "text": text });
    desk.act(write(&field, "hello wörld")).await;
    desk.act(write(&secret, "hunter2")).await;
    desk.holds("entry", "hello wörld").await;
    desk.python(LATER, "Later").await;
    drop(until);

    let after = answers.message().await.expect("an answer").expect("a look");
    assert!(after.png.starts_with(PNG) && after.png != before.png);
    let titles: Vec<_> = after.windows.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Later", "Three"], "the one in front first");
    let typed: Vec<_> = after
        .typed
        .iter()
        .map(|it| (it.name.as_str(), it.text.as_str()))
        .collect();
    assert_eq!(typed, [("Field", "hello wörld")]);
    assert!(answers.message().await.expect("an end").is_none());
}

#[tokio::test]
async fn one_who_goes_away_is_not_waited_for() {
    let Some(desk) = Desk::start().await else {
        return;
    };
    for _ in 0..3 {
        let (_until, requests) = mpsc::channel::<ComputerWatchRequest>(1);
        let answers = desk.client().watch(ReceiverStream::new(requests)).await;
        let mut answers = answers.expect("it is watched").into_inner();
        let before = answers.message().await.expect("an answer").expect("a look");
        assert!(before.windows.is_empty() && before.png.starts_with(PNG));
    }
    desk.look(json!({ "action": "windows" })).await;
}
