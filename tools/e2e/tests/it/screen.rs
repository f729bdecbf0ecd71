//! Take-over in a real box: through the edge, the box's network and the agent that is told.

use cocoonbox_e2e::{
    Events, Installation, Setup, Shared, TheBox, events::payload_if, exec::start, reason, run,
    screen::Viewer, until::until,
};
use cocoonbox_proto::{
    agent::v1::ShowControlRequest,
    control::v1::{CreateShareRequest, RevokeShareRequest},
    log::v1::{ControlReleased, ControlTaken, control_released::Reason},
};
use tonic::Status;

static SHARED: Shared = Shared::new(Setup::plain);

const DISPLAY: &str = include_str!("screen.py");
const UPDATE: &[u8] = &[3, 1, 0, 0, 0, 0, 5, 0, 3, 32];
const A_DOWN: &[u8] = &[4, 1, 0, 0, 0, 0, 0, 65];
const A_UP: &[u8] = &[4, 0, 0, 0, 0, 0, 0, 65];

/// Looks at the display, up to where it is described.
async fn open(the_box: &TheBox, lease_id: &str) -> Result<Viewer, Status> {
    Viewer::open(the_box, lease_id, |shown| shown.ends_with(b"described")).await
}

async fn with_display(installation: &Installation, name: &str) -> TheBox {
    let user = installation.user(name).await;
    let the_box = TheBox::up(installation, &user, "main").await;
    // It goes on without us.
    let display = the_box.exec_stream(start(&["python3", "-c", DISPLAY]));
    drop(display.await.expect("a command can be run"));
    until("the display answers", || async {
        open(&the_box, "").await.ok()
    })
    .await;
    the_box
}

async fn is_free(the_box: &TheBox) -> Option<()> {
    let mut control = the_box.user.control(&the_box.id);
    let state = control.show(ShowControlRequest { display: 0 }).await;
    let state = state.expect("it can be shown").into_inner();
    state.holder.is_none().then_some(())
}

async fn heard(the_box: &TheBox, expected: &[u8]) {
    let expected = hex::encode(expected);
    until("the display has heard it", || async {
        let heard = the_box.sh("od -An -v -tx1 /workspace/heard").await;
        let heard: String = heard.split_whitespace().collect();
        assert!(expected.starts_with(&heard), "{heard} is not of {expected}");
        (heard == expected).then_some(())
    })
    .await;
}

#[test]
fn a_display_is_looked_at_taken_over_and_handed_back() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = with_display(&installation, "screen").await;
        let looking = open(&the_box, "").await.expect("it is shown");
        looking.say(&[A_DOWN, UPDATE].concat()).await;
        heard(&the_box, UPDATE).await;
        let state = the_box.take_control("l1", 0).await.expect("it is free");
        assert_eq!(state.holder.expect("a holder").label, "screen");
        let refused = the_box.take_control("l2", 0).await.unwrap_err();
        assert_eq!(reason(&refused), "CONTROL_HELD");
        let driving = open(&the_box, "l1").await.expect("it is shown");
        driving.say(A_DOWN).await;
        heard(&the_box, &[UPDATE, A_DOWN].concat()).await;
        drop(driving);
        heard(&the_box, &[UPDATE, A_DOWN, A_UP].concat()).await;
        until("the lease has ended", || is_free(&the_box)).await;
        let log = Events::of_account(&the_box.user, "", &["control/"]);
        let events = log.all().await.expect("the log can be read");
        let taken: ControlTaken = payload_if(&events[0], "control.taken").expect("taken");
        assert_eq!((taken.fence, taken.lease_id.as_str()), (1, "l1"));
        let released: ControlReleased = payload_if(&events[1], "control.released").expect("over");
        assert_eq!(released.reason(), Reason::Gone);
        // A box that stops takes its viewers with it.
        the_box.hibernate().await;
        let status = looking.end().await;
        assert!(
            ["BOX_LET_GO", "SCREEN_GONE"].contains(&reason(&status).as_str()),
            "{status:?}"
        );
        let asleep = the_box.take_control("l3", 0).await.unwrap_err();
        assert_eq!(reason(&asleep), "BOX_NOT_RUNNING");
    });
}

#[test]
fn a_guest_looks_by_a_link_until_it_is_ended_and_wakes_nothing() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = with_display(&installation, "shared").await;
        let share = || async {
            let asked = CreateShareRequest {
                box_id: the_box.id.clone(),
                label: "for the team".into(),
                ..CreateShareRequest::default()
            };
            let made = the_box.user.shares().create(asked).await;
            made.expect("a share is made").into_inner()
        };
        let look = |secret: String| {
            let channel = installation.channel();
            async move {
                Viewer::of_guest(channel, &secret, |shown| shown.ends_with(b"described")).await
            }
        };
        let (one, other) = (share().await, share().await);
        let guest = look(one.secret.clone()).await.expect("it is shown");
        guest.say(&[A_DOWN, UPDATE].concat()).await;
        heard(&the_box, UPDATE).await;
        let revoke = RevokeShareRequest {
            share_id: one.id,
            box_id: the_box.id.clone(),
        };
        the_box.user.shares().revoke(revoke).await.expect("ended");
        // It is cut off, not told.
        guest.end().await;
        let refused = look(one.secret).await.err().expect("it opens nothing");
        assert_eq!(reason(&refused), "SHARE_ENDED");
        let guest = look(other.secret.clone()).await.expect("it is shown");
        the_box.hibernate().await;
        guest.end().await;
        let asleep = look(other.secret).await.err().expect("it sleeps");
        assert_eq!(reason(&asleep), "BOX_NOT_RUNNING");
        let log = Events::of_account(&the_box.user, "", &["share/"]);
        let events = log.all().await.expect("the log can be read");
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        let expected = [
            "share.created",
            "share.created",
            "share.opened",
            "share.revoked",
            "share.opened",
        ];
        assert_eq!(kinds, expected);
    });
}

#[test]
fn a_lease_without_input_ends_by_itself_and_outlives_a_killed_api() {
    run(async {
        let installation = Setup::plain().start().await;
        let user = installation.user("idle").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.take_control("l1", 5_000).await.expect("it is free");
        installation.kill9();
        installation.restart().await;
        let mut log = Events::of_account(&user, "", &["control/"]);
        assert_eq!(log.next().await.kind, "control.taken");
        assert_eq!(log.next().await.kind, "control.expired");
        until("it is free", || is_free(&the_box)).await;
        the_box.take_control("l2", 0).await.expect("it is free");
    });
}
