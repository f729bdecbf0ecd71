//! Pointer and keyboard: the person's are left alone, and nothing stays down.

use rustix::process::{Signal, kill_process};
use serde_json::json;
use x11rb::{
    connection::Connection as _,
    protocol::{
        xinput::ConnectionExt as _,
        xproto::{ConnectionExt as _, KeyButMask},
    },
    rust_connection::RustConnection,
};

use super::{desk::Desk, elements::GTK3};
use crate::world::eventually;

/// What a person's viewer would see.
struct Person {
    connection: RustConnection,
    root: u32,
}

impl Person {
    fn at(desk: &Desk) -> Self {
        let (connection, screen) =
            RustConnection::connect(Some(&desk.display())).expect("a display");
        let root = connection.setup().roots[screen].root;
        connection
            .xinput_xi_query_version(2, 0)
            .expect("sent")
            .reply()
            .expect("input");
        Self { connection, root }
    }

    fn pointer(&self) -> (i16, i16, KeyButMask) {
        let pointer = self
            .connection
            .query_pointer(self.root)
            .expect("sent")
            .reply()
            .expect("a pointer");
        (pointer.root_x, pointer.root_y, pointer.mask)
    }

    /// Modifiers and buttons that are down on the agents' devices; none if they have none.
    fn agents(&self) -> Option<(u32, bool)> {
        let devices = self
            .connection
            .xinput_xi_query_device(0_u16)
            .expect("sent")
            .reply()
            .expect("devices");
        let own = devices
            .infos
            .iter()
            .find(|info| info.name == b"cocoonbox pointer")?;
        let state = self
            .connection
            .xinput_xi_query_pointer(self.root, own.deviceid)
            .expect("sent");
        let state = state.reply().ok()?;
        Some((state.mods.base, state.buttons.iter().any(|bits| *bits != 0)))
    }
}

#[tokio::test]
async fn the_persons_pointer_stays_where_it_is() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    desk.run("xterm", &["-title", "Mine", "-geometry", "30x8-0-0"]);
    desk.window("Mine").await;
    let person = Person::at(&desk);
    let before = person.pointer();
    let three = desk.window("Three").await;
    let shown = desk
        .look(json!({ "action": "snapshot", "window": three }))
        .await;
    assert!(shown.contains("\"Field\""), "{shown}");
    let field = super::desk::reference(&shown, "\"Field\"");
    desk.act(json!({ "action": "type", "ref": field, "text": "in the background" }))
        .await;
    desk.holds("entry", "in the background").await;
    assert_eq!(person.pointer(), before);
}

#[tokio::test]
async fn what_is_seen_is_what_is_hit() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    let (x, y) = desk.middle("\"Press\"").await;
    for (count, button) in ["1", "2"].into_iter().zip(["left", "left"]) {
        let told = desk
            .act(json!({ "action": "click", "x": x, "y": y, "button": button }))
            .await;
        assert!(told.contains("what is seen has changed in"), "{told}");
        desk.holds("pressed", count).await;
    }
    let told = desk.act(json!({ "action": "move", "x": x, "y": y })).await;
    assert_eq!(
        told,
        format!("[the pointer is at ({x},{y})]"),
        "nothing to wait for"
    );
    let whole = desk.picture(json!({ "action": "screenshot" })).await;
    let size = imagesize::blob_size(&whole).expect("a picture");
    assert_eq!((size.width, size.height), (1280, 800));
    let part = desk
        .picture(json!({ "action": "screenshot", "area": [x - 50, y - 20, 100, 40] }))
        .await;
    let size = imagesize::blob_size(&part).expect("a picture");
    assert_eq!((size.width, size.height), (400, 160));

    // The slider from its middle to its right end, and by the wheel.
    let volume = desk.reference("\"Volume\"").await;
    desk.act(json!({ "action": "set", "ref": volume, "text": "50" }))
        .await;
    let (x, y) = desk.middle("\"Volume\"").await;
    desk.act(json!({ "action": "drag", "x": x, "y": y + 10, "to_x": x + 400, "to_y": y + 10 }))
        .await;
    desk.holds("scale", "100").await;
    let told = desk
        .act(json!({ "action": "scroll", "ref": volume, "down": 3 }))
        .await;
    assert!(told.contains("what is seen has changed in"), "{told}");

    // A display of another size has other places.
    let status = std::process::Command::new("xrandr")
        .args(["-display", &desk.display(), "-s", "1024x768"])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("not tested: sizes, there is no xrandr");
        return;
    }
    let told = desk
        .refused(json!({ "action": "click", "x": x, "y": y }))
        .await;
    assert!(told.contains("has changed its size"), "{told}");
    let whole = desk.picture(json!({ "action": "screenshot" })).await;
    let size = imagesize::blob_size(&whole).expect("a picture");
    assert_eq!((size.width, size.height), (1024, 768));
    desk.act(json!({ "action": "click", "x": 1_000, "y": 10 }))
        .await;
}

#[tokio::test]
async fn nothing_stays_down_whoever_dies() {
    let Some(mut desk) = Desk::start().await else {
        return;
    };
    desk.python(GTK3, "Three").await;
    let person = Person::at(&desk);
    const CONTROL: u32 = 4;
    let long = json!({ "action": "scroll", "x": 600, "y": 600, "down": 100, "hold": "ctrl" });
    let is_held = || {
        person
            .agents()
            .is_some_and(|(modifiers, _)| modifiers & CONTROL != 0)
    };

    // The caller goes away, as when a person takes over.
    let mut acting = Box::pin(desk.act(long.clone()));
    let mut held = false;
    for _ in 0..2_000 {
        tokio::select! {
            told = &mut acting => panic!("it ended before it was seen: {told}"),
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {}
        }
        held = is_held();
        if held {
            break;
        }
    }
    assert!(held, "control was never down");
    drop(acting);
    eventually("control is up", || person.agents() == Some((0, false))).await;

    // The holder is killed.
    let mut acting = Box::pin(desk.act(long));
    loop {
        tokio::select! {
            told = &mut acting => panic!("it ended before it was seen: {told}"),
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {}
        }
        if is_held() {
            break;
        }
    }
    kill_process(desk.holder(), Signal::KILL).expect("it runs");
    drop(acting);
    desk.put_away();
    assert_eq!(person.agents(), None);
    let keys = person
        .connection
        .query_keymap()
        .expect("sent")
        .reply()
        .expect("keys")
        .keys;
    assert_eq!(keys, [0; 32]);
    assert_eq!(person.pointer().2, KeyButMask::from(0_u16));
}
