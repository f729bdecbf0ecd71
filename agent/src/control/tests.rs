use cocoonbox_proto::agent::v1::ControlState;
use futures::FutureExt as _;

use super::*;

fn held(displays: &[u32]) -> FenceState {
    let state = |display: &u32| ControlState {
        display: *display,
        holder: Some(ControlHolder {
            user_id: "u1".into(),
            label: "ada".into(),
            until_ms: 9,
        }),
        fence: 1,
    };
    FenceState {
        version: 1,
        held: displays.iter().map(state).collect(),
        handed_back: Vec::new(),
    }
}

fn refused(displays: &Displays, display: u32) -> Refused {
    displays.enter(display).map(drop).unwrap_err()
}

#[tokio::test]
async fn nobody_acts_before_the_api_has_said_so_or_after_it_fell_silent() {
    let displays = Displays::default();
    assert_eq!(refused(&displays, 0), Refused::Unknown);
    let stream = displays.begin();
    assert_eq!(refused(&displays, 0), Refused::Unknown);
    displays.apply(stream, FenceState::default()).await;
    drop(displays.enter(0).unwrap());
    displays.end(stream);
    assert_eq!(refused(&displays, 0), Refused::Unknown);
}

#[tokio::test]
async fn a_held_display_is_refused_with_who_and_until_when_and_the_others_are_free() {
    let displays = Displays::default();
    let stream = displays.begin();
    displays.apply(stream, held(&[1])).await;
    let Refused::Held { label, until_ms } = refused(&displays, 1) else {
        panic!("not held");
    };
    assert_eq!((label.as_str(), until_ms), ("ada", 9));
    drop(displays.enter(0).unwrap());
}

#[tokio::test]
async fn who_takes_over_waits_for_the_action_and_the_action_hears_of_it() {
    let displays = Displays::default();
    let stream = displays.begin();
    displays.apply(stream, FenceState::default()).await;
    let (acting, other) = (displays.enter(0).unwrap(), displays.enter(1).unwrap());
    let mut taking = Box::pin(displays.apply(stream, held(&[0])));
    assert!((&mut taking).now_or_never().is_none(), "it did not wait");
    assert!(acting.revoked().now_or_never().is_some());
    assert!(other.revoked().now_or_never().is_none());
    assert!(displays.enter(0).is_err());
    drop(acting);
    taking.await;
    drop(other);
}

#[tokio::test]
async fn a_stream_that_was_replaced_says_nothing_any_more() {
    let displays = Displays::default();
    let old = displays.begin();
    let new = displays.begin();
    displays.apply(new, held(&[0])).await;
    displays.apply(old, FenceState::default()).await;
    assert!(matches!(refused(&displays, 0), Refused::Held { .. }));
    displays.end(old);
    assert!(matches!(refused(&displays, 0), Refused::Held { .. }));
}

#[tokio::test]
async fn the_agent_reads_how_the_display_was_left() {
    let displays = Displays::default();
    let stream = displays.begin();
    let left = HandBack {
        display: 0,
        fence: 1,
        label: "ada".into(),
        note: "logged in".into(),
    };
    let state = FenceState {
        handed_back: vec![left.clone()],
        ..FenceState::default()
    };
    displays.apply(stream, state).await;
    assert_eq!(displays.enter(0).unwrap().handed_back, Some(left));
    assert_eq!(displays.enter(1).unwrap().handed_back, None);
}

#[test]
fn a_note_is_for_those_who_were_refused_or_for_the_last_who_was_there() {
    let displays = Displays::default();
    assert!(displays.take_waiting(0).is_empty());
    displays.driven_by(0, "a");
    displays.driven_by(0, "b.1");
    let waiting = || Vec::from_iter(displays.take_waiting(0));
    assert_eq!(waiting(), ["b.1"]);
    displays.wanted_by(0, "a");
    displays.wanted_by(0, "c");
    displays.wanted_by(1, "d");
    assert_eq!(waiting(), ["a", "c"]);
    assert_eq!(waiting(), ["b.1"]);
}
