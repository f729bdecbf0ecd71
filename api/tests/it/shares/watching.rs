//! What a guest sees of a screen, what nobody hears of them, and what cuts them off.

use std::time::Duration;

use bytes::Bytes;
use cocoonbox_proto::{
    agent::v1::{
        ScreenRequest, ScreenResponse, ScreenStart, ShowControlRequest, TakeControlRequest,
        control_client::ControlClient, screen_request::Frame, screen_response,
        session_client::SessionClient,
    },
    control::v1::CreateShareRequest,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use super::{
    refused, regenerate, revoke,
    world::{BOX, DEADLINE, START_US, World, as_both, by, connect, with},
};
use crate::screen::fake::DESCRIBED;

const UPDATE: &[u8] = &[3, 1, 0, 0, 0, 0, 5, 0, 3, 32];
const A_DOWN: &[u8] = &[4, 1, 0, 0, 0, 0, 0, 65];
const BUTTON: &[u8] = &[5, 1, 2, 0, 1, 0];
const PASTE: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 2, b'h', b'i'];
const CLIPBOARD_ASKED: &[u8] = &[6, 0, 0, 0, 255, 255, 255, 252, 2, 0, 0, 1];
const RESIZE: &[u8] = &[251, 0, 4, 0, 3, 0, 0, 0];
const COPIED: &[u8] = b"\x03\x00\x00\x00\x00\x00\x00\x07hunter2";
const PICTURE: &[u8] = &[0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4];

/// A guest in front of a screen.
#[derive(Debug)]
pub(super) struct Watcher {
    frames: Streaming<ScreenResponse>,
    requests: mpsc::Sender<ScreenRequest>,
    shown: Vec<u8>,
    told_who_drives: bool,
}

/// Opens the screen of a share's box, naming a lease or none.
pub(super) async fn screen(
    channel: Channel,
    secret: &str,
    lease_id: &str,
) -> Result<Watcher, Status> {
    let (requests, sent) = mpsc::channel(16);
    let start = Frame::Start(ScreenStart {
        display: 0,
        lease_id: lease_id.into(),
    });
    let first = ScreenRequest { frame: Some(start) };
    requests.send(first).await.unwrap();
    let asked = with(secret, ReceiverStream::new(sent));
    let frames = SessionClient::new(channel).screen(asked).await?;
    let mut watcher = Watcher {
        frames: frames.into_inner(),
        requests,
        shown: Vec::new(),
        told_who_drives: false,
    };
    watcher.say(b"RFB 003.008\n\x01\x01").await;
    watcher.sees(DESCRIBED).await;
    Ok(watcher)
}

impl Watcher {
    async fn say(&self, bytes: &[u8]) {
        let frame = Frame::Rfb(Bytes::copy_from_slice(bytes));
        let request = ScreenRequest { frame: Some(frame) };
        self.requests.send(request).await.ok();
    }

    async fn look(&mut self) -> Result<bool, Status> {
        let frame = timeout(DEADLINE, self.frames.message()).await;
        match frame.expect("a frame in time")?.and_then(|one| one.frame) {
            Some(screen_response::Frame::Rfb(bytes)) => self.shown.extend(bytes),
            Some(screen_response::Frame::Control(_)) => self.told_who_drives = true,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Looks until it has seen this last.
    async fn sees(&mut self, last: &[u8]) {
        while !self.shown.ends_with(last) {
            assert!(self.look().await.unwrap(), "it ended");
        }
    }

    /// Looks until it is cut off, and returns how long that took.
    async fn cut_off(mut self) -> Duration {
        let since = tokio::time::Instant::now();
        loop {
            match self.look().await {
                Ok(true) => {}
                Ok(false) => panic!("it ended as if all were seen"),
                Err(_) => return since.elapsed(),
            }
        }
    }
}

#[tokio::test]
async fn a_guest_sees_pictures_and_nothing_of_theirs_reaches_the_box() {
    let world = World::new().await;
    let share = world.share().await;
    *world.fake.says.lock().unwrap() = [COPIED, PICTURE].concat();
    // Somebody drives meanwhile: a guest neither hears who nor gets their lease by naming it.
    let mut control = ControlClient::new(world.connect());
    let take = TakeControlRequest {
        lease_id: "l1".into(),
        ..TakeControlRequest::default()
    };
    let mut take = by(&world.ada.token, take);
    take.metadata_mut().insert("box_id", BOX.parse().unwrap());
    control.take(take).await.unwrap();
    let mut guest = screen(world.connect(), &share.secret, "l1").await.unwrap();
    let input = [A_DOWN, BUTTON, PASTE, CLIPBOARD_ASKED, RESIZE].concat();
    guest.say(&[&input, UPDATE, &input, UPDATE].concat()).await;
    guest.sees(PICTURE).await;
    let shown = String::from_utf8_lossy(&guest.shown).into_owned();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!guest.told_who_drives);
    let mut heard = world.fake.heard.subscribe();
    let looking = [UPDATE, UPDATE].concat();
    let heard = heard.wait_for(|heard| heard.len() >= looking.len());
    assert_eq!(*heard.await.unwrap(), looking);
}

#[tokio::test]
async fn a_guest_has_nothing_to_do_with_control_nor_with_other_boxes() {
    let world = World::new().await;
    let share = world.share().await;
    let only_look = (Code::PermissionDenied, "GUESTS_ONLY_LOOK".to_owned());
    let mut control = ControlClient::new(world.connect());
    let shown = control.show(with(&share.secret, ShowControlRequest { display: 0 }));
    assert_eq!(refused(shown.await), only_look);
    // Also for the owner: who brings a secret is a guest.
    let asked = as_both(
        &share.secret,
        &world.ada.token,
        ShowControlRequest { display: 0 },
    );
    assert_eq!(refused(control.show(asked).await), only_look);
    let mut asked = with(&share.secret, tokio_stream::empty());
    asked.metadata_mut().insert("box_id", "b2".parse().unwrap());
    let other = SessionClient::new(world.connect()).screen(asked).await;
    assert_eq!(refused(other), only_look);
}

#[tokio::test]
async fn the_end_of_a_share_cuts_its_guests_off_and_no_others() {
    let world = World::new().await;
    let (one, other) = (world.share().await, world.share().await);
    let watch = async |secret: &str| screen(world.connect(), secret, "").await.unwrap();
    let mut stays = watch(&other.secret).await;
    let first = watch(&one.secret).await;
    let one = regenerate(&world, &one).await;
    first.cut_off().await;
    let second = watch(&one.secret).await;
    revoke(&world, &one).await;
    second.cut_off().await;
    let gone = screen(world.connect(), &one.secret, "").await;
    assert_eq!(refused(gone.map(drop)), super::ended());
    *world.fake.says.lock().unwrap() = PICTURE.to_vec();
    stays.say(UPDATE).await;
    stays.sees(PICTURE).await;
}

#[tokio::test]
async fn a_guest_cut_off_when_the_time_is_over() {
    let world = World::new().await;
    let asked = CreateShareRequest {
        expires_at_ms: Some(START_US / 1_000 + 700),
        ..CreateShareRequest::default()
    };
    let share = world.create(asked).await.unwrap();
    let guest = screen(world.connect(), &share.secret, "").await.unwrap();
    let lasted = guest.cut_off().await;
    assert!(lasted < DEADLINE / 2, "{lasted:?}");
}

#[tokio::test]
async fn a_guest_of_another_process_cut_off_too() {
    let world = World::new().await;
    let elsewhere = world.another().await;
    for ends in [true, false] {
        let share = world.share().await;
        let guest = screen(connect(&elsewhere), &share.secret, "");
        let guest = guest.await.unwrap();
        if ends {
            revoke(&world, &share).await;
        } else {
            regenerate(&world, &share).await;
        }
        guest.cut_off().await;
    }
}

#[tokio::test]
async fn a_guest_who_is_signed_out_cut_off() {
    let world = World::new().await;
    let bob = world.user("bob").await;
    let asked = CreateShareRequest {
        for_user: bob.id.clone(),
        ..CreateShareRequest::default()
    };
    let share = world.create(asked).await.unwrap();
    let (requests, sent) = mpsc::channel(1);
    let start = Frame::Start(ScreenStart::default());
    let first = ScreenRequest { frame: Some(start) };
    requests.send(first).await.unwrap();
    let asked = as_both(&share.secret, &bob.token, ReceiverStream::new(sent));
    let frames = SessionClient::new(world.connect()).screen(asked).await;
    let guest = Watcher {
        frames: frames.unwrap().into_inner(),
        requests,
        shown: Vec::new(),
        told_who_drives: false,
    };
    let account = world.accounts.account(&bob.id).await.unwrap();
    let token_id = account.state.tokens.keys().next().unwrap().clone();
    let host = cocoonbox_api::auth::Caller::Host;
    let revoking = world.accounts.revoke(&bob.id, &token_id, &host);
    revoking.await.unwrap();
    guest.cut_off().await;
}

#[tokio::test]
async fn guests_never_take_the_owners_place() {
    let world = World::new().await;
    let share = world.share().await;
    let mut guests = Vec::new();
    let full = loop {
        match screen(world.connect(), &share.secret, "").await {
            Ok(guest) => guests.push(guest),
            Err(status) => break status,
        }
    };
    assert_eq!(super::reason(&full), "TOO_MANY_VIEWERS");
    assert_eq!(guests.len(), 16);
    let handle = world.desks.get(BOX).unwrap();
    assert!(handle.place(false).is_ok() && handle.place(true).is_err());
}
