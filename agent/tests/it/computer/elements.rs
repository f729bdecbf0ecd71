//! Acting by elements: found, told, used, refused, and never waited for too long.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::desk::{Desk, reference};

/// Says in files what happens to it: `$F/pressed`, `$F/entry`.
pub(crate) const GTK3: &str = r"
import gi, os
gi.require_version('Gtk', '3.0')
from gi.repository import Gtk, GLib
folder = os.environ['F']
def write(name, text):
    with open(f'{folder}/.{name}', 'w') as file: file.write(text)
    os.rename(f'{folder}/.{name}', f'{folder}/{name}')
window = Gtk.Window(title='Three')
window.set_default_size(420, 360)
rows = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
window.add(rows)
button = Gtk.Button(label='Press')
pressed = [0]
def press(_):
    pressed[0] += 1
    button.set_label(f'Pressed {pressed[0]}')
    write('pressed', str(pressed[0]))
button.connect('clicked', press)
entry = Gtk.Entry()
entry.get_accessible().set_name('Field')
entry.connect('changed', lambda _: write('entry', entry.get_text()))
secret = Gtk.Entry(visibility=False)
check = Gtk.CheckButton(label='Check')
check.connect('toggled', lambda _: write('check', str(check.get_active())))
scale = Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1)
scale.get_accessible().set_name('Volume')
scale.connect('value-changed', lambda _: write('scale', str(int(scale.get_value()))))
off = Gtk.Button(label='Off', sensitive=False)
ask = Gtk.Button(label='Ask')
def dialog(_):
    chooser = Gtk.FileChooserDialog(title='Choose', transient_for=window, modal=True, action=Gtk.FileChooserAction.OPEN)
    chooser.add_buttons('Never mind', Gtk.ResponseType.CANCEL, 'Take it', Gtk.ResponseType.OK)
    write('answer', str(int(chooser.run())))
    chooser.destroy()
ask.connect('clicked', dialog)
for one in [button, entry, secret, check, scale, off, ask]:
    rows.pack_start(one, False, False, 4)
window.connect('destroy', Gtk.main_quit)
window.show_all()
Gtk.main()
";

const GTK4: &str = r"
import gi, os
gi.require_version('Gtk', '4.0')
from gi.repository import Gtk
folder = os.environ['F']
def write(name, text):
    with open(f'{folder}/.{name}', 'w') as file: file.write(text)
    os.rename(f'{folder}/.{name}', f'{folder}/{name}')
def start(app):
    window = Gtk.ApplicationWindow(application=app, title='Four')
    window.set_default_size(400, 300)
    rows = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=30, margin_top=40, margin_start=60)
    button = Gtk.Button(label='Press four', halign=Gtk.Align.START)
    button.connect('clicked', lambda _: write('four', 'pressed'))
    rows.append(Gtk.Label(label='Above'))
    rows.append(button)
    window.set_child(rows)
    window.present()
app = Gtk.Application(application_id='test.four')
app.connect('activate', start)
app.run([])
";

#[tokio::test]
async fn elements_are_told_and_used() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    desk.reference("\"Press\"").await;
    let shown = desk.snapshot().await;
    assert!(
        shown.contains("[active]") && shown.contains("- frame \"Three\""),
        "{shown}"
    );
    assert!(shown.contains("\"Press\" [ref=e"), "{shown}");

    let press = reference(&shown, "\"Press\"");
    let told = desk.act(json!({ "action": "click", "ref": press })).await;
    assert!(
        told.contains("clicked e") && told.contains("\"Pressed 1\""),
        "{told}"
    );
    desk.holds("pressed", "1").await;
    // It was something else when the agent saw it.
    let told = desk
        .look(json!({ "action": "snapshot", "find": "Pressed" }))
        .await;
    assert_eq!(
        reference(&told, "Pressed 1"),
        press,
        "the same element keeps its ref"
    );

    let field = desk.reference("\"Field\"").await;
    let told = desk
        .act(json!({ "action": "set", "ref": field, "text": "a\tb €" }))
        .await;
    assert!(told.contains("it holds that"), "{told}");
    desk.holds("entry", "a\tb €").await;
    let volume = desk.reference("\"Volume\"").await;
    desk.act(json!({ "action": "set", "ref": volume, "text": "42" }))
        .await;
    desk.holds("scale", "42").await;
    let check = desk.reference("\"Check\"").await;
    let told = desk.act(json!({ "action": "click", "ref": check })).await;
    assert!(told.contains("[checked]"), "{told}");
    desk.holds("check", "True").await;

    // Where a hand does not reach, it does what it is for all the same.
    desk.run("xterm", &["-title", "Over", "-geometry", "220x70+0+0"]);
    desk.window("Over").await;
    let told = desk.act(json!({ "action": "click", "ref": press })).await;
    assert!(told.contains("was clicked by its own action"), "{told}");
    desk.holds("pressed", "2").await;

    let three = desk.window("Three").await;
    desk.act(json!({ "action": "window", "window": three }))
        .await;
    let off = desk.reference("\"Off\"").await;
    let told = desk.refused(json!({ "action": "click", "ref": off })).await;
    assert!(told.contains("is disabled"), "{told}");
    for (reference, said) in [("e9999", "was never given out"), ("button", "is no ref")] {
        let told = desk
            .refused(json!({ "action": "click", "ref": reference }))
            .await;
        assert!(told.contains(said), "{told}");
    }
    let told = desk
        .refused(json!({ "action": "click", "x": 5_000, "y": 5 }))
        .await;
    assert!(told.contains("outside of the picture"), "{told}");
}

#[tokio::test]
async fn what_is_gone_or_another_is_refused_and_passwords_are_not_told() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    let program = desk.python(GTK3, "Three").await;
    desk.reference("\"Press\"").await;
    let shown = desk.snapshot().await;
    let press = reference(&shown, "\"Press\"");
    let password = reference(&shown, "- password text");
    desk.act(json!({ "action": "type", "ref": password, "text": "geheim" }))
        .await;
    assert!(!desk.snapshot().await.contains("geheim"));
    // Pressed by somebody else meanwhile.
    let (x, y) = desk.middle("\"Press\"").await;
    let outside = desk.path("clicked");
    let told = desk.act(json!({ "action": "click", "x": x, "y": y })).await;
    assert!(told.contains("Pressed 1") && !outside.exists(), "{told}");
    desk.holds("pressed", "1").await;
    // The agent was told of the change, so the ref is what it takes it for.
    desk.act(json!({ "action": "click", "ref": press })).await;
    desk.holds("pressed", "2").await;
    kill_process(program, Signal::KILL).expect("it runs");
    let told = desk
        .refused(json!({ "action": "click", "ref": press }))
        .await;
    assert!(told.contains("is not there any more"), "{told}");
}

#[tokio::test]
async fn a_modal_dialog_and_a_program_that_hangs_do_not_hang_the_tree() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    let program = desk.python(GTK3, "Three").await;
    let ask = desk.reference("\"Ask\"").await;
    desk.act(json!({ "action": "click", "ref": ask })).await;
    desk.window("Choose").await;
    let cancel = desk.reference("\"Never mind\"").await;
    desk.act(json!({ "action": "click", "ref": cancel })).await;
    desk.holds("answer", "-6").await;

    kill_process(program, Signal::STOP).expect("it runs");
    let shown = desk.snapshot().await;
    assert!(
        shown.contains("does not tell its elements: the program does not answer"),
        "{shown}"
    );
    let told = desk.refused(json!({ "action": "click", "ref": ask })).await;
    assert!(told.contains("does not answer within"), "{told}");
    kill_process(program, Signal::CONT).expect("it is stopped");
    assert!(desk.snapshot().await.contains("\"Ask\""));
}

#[tokio::test]
async fn places_of_a_program_that_does_not_know_them_are_right() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    // A window manager may leave the keyboard where it was when GTK 4 was slow to show itself; a click needs none.
    desk.program(GTK4, "Four").await;
    // Somewhere else than in the corner, where anybody would be right.
    let (x, y) = desk.middle("\"Press four\"").await;
    let told = desk.act(json!({ "action": "click", "x": x, "y": y })).await;
    assert!(told.contains("clicked"), "{told}");
    desk.holds("four", "pressed").await;
}
