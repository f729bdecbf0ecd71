//! Screens and take-over, with a fake box: what reaches it, in which order, and what is left behind.

pub(crate) mod fake;
mod world;

use std::sync::atomic::Ordering;

use cocoonbox_proto::agent::v1::ReleaseControlRequest;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use fake::PAINT;
use world::{DEADLINE, Viewer, World};

const UPDATE: &[u8] = &[3, 1, 0, 0, 0, 0, 5, 0, 3, 32];
const CONTROL_DOWN: &[u8] = &[4, 1, 0, 0, 0, 0, 0xff, 0xe3];
const CONTROL_UP: &[u8] = &[4, 0, 0, 0, 0, 0, 0xff, 0xe3];
const A_DOWN: &[u8] = &[255, 0, 0, 1, 0, 0, 0, 65, 0, 0, 0, 30];
const A_UP: &[u8] = &[255, 0, 0, 0, 0, 0, 0, 65, 0, 0, 0, 30];
const BUTTON: &[u8] = &[5, 1, 2, 0, 1, 0];
const NO_BUTTON: &[u8] = &[5, 0, 2, 0, 1, 0];
const PASTE: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 2, b'h', b'i'];
const RESIZE: &[u8] = &[251, 0, 4, 0, 3, 0, 0, 0];
const POWER: &[u8] = &[250, 0, 1, 2];
const CLIPBOARD_ASKED: &[u8] = &[6, 0, 0, 0, 255, 255, 255, 252, 2, 0, 0, 1];

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_default()
}

#[tokio::test]
async fn who_only_looks_gives_no_input() {
    let world = World::new().await;
    let viewer = world.view("").await.unwrap();
    let input = [A_DOWN, BUTTON, PASTE, RESIZE, CONTROL_DOWN, POWER].concat();
    viewer
        .say(&[UPDATE, &input, CLIPBOARD_ASKED].concat())
        .await;
    viewer.say(UPDATE).await;
    let looking = [UPDATE, CLIPBOARD_ASKED, UPDATE].concat();
    assert_eq!(world.heard(looking.len()).await, looking);
}

#[tokio::test]
async fn the_holders_input_passes_but_never_the_power_switch() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let viewer = world.view("l1").await.unwrap();
    viewer
        .say(&[A_DOWN, A_UP, POWER, BUTTON, NO_BUTTON, PASTE, RESIZE].concat())
        .await;
    let passed = [A_DOWN, A_UP, BUTTON, NO_BUTTON, PASTE, RESIZE].concat();
    assert_eq!(world.heard(passed.len()).await, passed);
}

/// The bug: a viewer dies while Ctrl is held, and every key that the agent types is a shortcut.
#[tokio::test]
async fn control_held_when_the_viewer_dies_is_released_before_agents_may_act() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let viewer = world.view("l1").await.unwrap();
    let pressed = [CONTROL_DOWN, A_DOWN, BUTTON].concat();
    viewer.say(&pressed).await;
    world.heard(pressed.len()).await;
    // With its connection, as when the person's computer loses its network.
    drop(viewer);
    let all = [&pressed, A_UP, CONTROL_UP, NO_BUTTON].concat();
    assert_eq!(world.heard(all.len()).await, all);
    let events = world.logged(2).await;
    assert_eq!(events, ["control.taken", "control.released"]);
    let mut told = world.fake.told.subscribe();
    let is_free = |told: &Vec<(_, usize)>| told.len() >= 3;
    let told = timeout(DEADLINE, told.wait_for(is_free)).await;
    let told = told.expect("told in time").unwrap().clone();
    let (free, heard) = &told[2];
    assert_eq!((free.held.len(), *heard), (0, all.len()));
    assert!(world.show().await.holder.is_none());
}

#[tokio::test]
async fn a_lease_is_fenced_before_it_is_answered() {
    let world = World::new().await;
    let state = world.take("l1", false).await.unwrap();
    let told = world.fake.told.borrow().clone();
    let (held, _) = told.last().unwrap();
    assert_eq!(held.held, std::slice::from_ref(&state));
    assert_eq!(state.holder.unwrap().label, "ada (test)");
}

#[tokio::test]
async fn the_second_is_refused_with_who_and_until_when() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let refused = world.take("l2", false).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.reason, "CONTROL_HELD");
    assert_eq!(info.metadata["label"], "ada (test)");
    let message = refused.message();
    assert!(message.contains("until 00:01:00 UTC"), "{message}");
    let until_ms = world::START_US / 1_000 + 60_000;
    assert_eq!(info.metadata["until_ms"], until_ms.to_string());
    assert_eq!(reason(&world.view("l2").await.err().unwrap()), "LEASE_OVER");
}

#[tokio::test]
async fn who_is_stolen_from_only_looks_from_then_on() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let mut first = world.view("l1").await.unwrap();
    first.say(CONTROL_DOWN).await;
    world.heard(CONTROL_DOWN.len()).await;
    world.take("l2", true).await.unwrap();
    let second = world.view("l2").await.unwrap();
    // What the first sends is dropped, what the second sends passes; the first let go in between.
    first.say(&[A_DOWN, UPDATE].concat()).await;
    let until = [CONTROL_DOWN, CONTROL_UP, UPDATE].concat();
    assert_eq!(world.heard(until.len()).await, until);
    second.say(BUTTON).await;
    let all = [&until, BUTTON].concat();
    assert_eq!(world.heard(all.len()).await, all);
    while first.standing.last().is_none_or(|state| state.fence < 2) {
        first.look().await.unwrap();
    }
    // The end of the first viewer does not end the second's lease.
    drop(first);
    second.say(UPDATE).await;
    world.heard(all.len() + UPDATE.len()).await;
    assert_eq!(world.show().await.fence, 2);
    assert!(world.show().await.holder.is_some());
}

#[tokio::test]
async fn one_viewer_drives_by_one_lease() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let _first = world.view("l1").await.unwrap();
    let second = world.view("l1").await.err().unwrap();
    assert_eq!(reason(&second), "LEASE_IN_USE");
}

#[tokio::test]
async fn without_input_a_lease_runs_out_and_with_input_it_does_not() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let viewer = world.view("l1").await.unwrap();
    world.clock_by(30);
    viewer.say(CONTROL_DOWN).await;
    assert_eq!(world.logged(2).await, ["control.taken", "control.renewed"]);
    world.clock_by(59);
    assert!(world.show().await.holder.is_some());
    world.clock_by(1);
    assert!(world.show().await.holder.is_none());
    let let_go = [CONTROL_DOWN, CONTROL_UP].concat();
    assert_eq!(world.heard(let_go.len()).await, let_go);
    assert_eq!(world.logged(3).await[2], "control.expired");
}

#[tokio::test]
async fn the_agent_is_told_what_the_person_says_at_the_end() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let release = ReleaseControlRequest {
        note: "logged in for you".into(),
        ..ReleaseControlRequest::default()
    };
    world.control().release(release).await.unwrap();
    let mut told = world.fake.told.subscribe();
    let is_told = |told: &Vec<(cocoonbox_proto::agent::v1::FenceState, usize)>| {
        let last = told.last().map(|(state, _)| state.handed_back.clone());
        last.is_some_and(|back| back.iter().any(|one| one.note == "logged in for you"))
    };
    timeout(DEADLINE, told.wait_for(is_told))
        .await
        .expect("told in time")
        .unwrap();
}

#[tokio::test]
async fn a_box_that_does_not_keep_still_is_not_taken_over() {
    let world = World::new().await;
    world.fake.is_still.store(false, Ordering::SeqCst);
    let refused = world.take("l1", false).await.unwrap_err();
    assert_eq!(reason(&refused), "BOX_UNREACHABLE");
    assert!(world.show().await.holder.is_none());
    let events = world.logged(2).await;
    assert_eq!(events, ["control.taken", "control.released"]);
}

#[tokio::test]
async fn another_process_goes_on_with_the_lease() {
    let mut world = World::new().await;
    world.take("l1", false).await.unwrap();
    let viewer = world.view("l1").await.unwrap();
    world.drive().await;
    assert_eq!(reason(&viewer.end().await), "BOX_LET_GO");
    let (state, _) = world.fake.told.borrow().last().unwrap().clone();
    assert_eq!(state.held.len(), 1);
    let viewer = world.view("l1").await.unwrap();
    viewer.say(BUTTON).await;
    assert_eq!(world.heard(BUTTON.len()).await, BUTTON);
}

#[tokio::test]
async fn what_is_no_rfb_ends_the_stream_with_a_reason() {
    let world = World::new().await;
    world.take("l1", false).await.unwrap();
    let viewer = world.view("l1").await.unwrap();
    viewer.say(&[A_DOWN, &[77, 0, 0]].concat()).await;
    let status = viewer.end().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason(&status), "RFB_MALFORMED");
    assert!(status.message().contains("message type 77"), "{status}");
    let let_go = [A_DOWN, A_UP].concat();
    assert_eq!(world.heard(let_go.len()).await, let_go);
}

#[tokio::test]
async fn a_display_that_is_not_there_is_said_not_to_be() {
    let world = World::new().await;
    let none = Viewer::open(world.connect(), 1, "").await.err().unwrap();
    assert_eq!(reason(&none), "NO_SCREEN");
    let none = Viewer::open(world.connect(), 8, "").await.err().unwrap();
    assert_eq!(none.code(), Code::InvalidArgument);
}

/// Nothing is kept for a viewer that does not read, and the others do not notice it.
#[tokio::test]
async fn a_slow_viewer_costs_nothing_but_itself() {
    /// Two sockets' buffers and what HTTP/2 lets go ahead of a reader.
    const AHEAD_BYTES: u64 = 24 << 20;
    let world = World::new().await;
    let slow = world.view("").await.unwrap();
    slow.say(PAINT).await;
    let mut painted = 0;
    // Soon no more of it goes anywhere, while another viewer looks at as much as it likes.
    for _ in 0..5 {
        let mut other = world.view("").await.unwrap();
        other.say(PAINT).await;
        while other.shown.len() < 32 << 20 {
            assert!(other.look().await.unwrap());
        }
        let seen = u64::try_from(other.shown.len()).unwrap();
        drop(other);
        let now = world.fake.painted.load(Ordering::SeqCst);
        // What the other has not seen is the slow one's, and what was on its way.
        if now - painted <= seen + AHEAD_BYTES {
            return;
        }
        painted = now;
    }
    panic!("what a viewer does not read goes somewhere");
}
