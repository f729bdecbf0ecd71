//! Shares: who makes them, whom they let in, to what, and until when.

mod browser;
mod gone;
mod watching;
mod world;

use cocoonbox_events::{Payload, ShareEvent};
use cocoonbox_proto::control::v1::{
    CreateShareRequest, ListSharesRequest, LookRequest, RegenerateShareRequest, RevokeShareRequest,
    Share, ShareState, State,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use self::world::{BOX, START_US, World, as_both, by};

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_default()
}

/// Code and reason of what must have been refused.
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("it is not refused");
    (status.code(), reason(&status))
}

fn ended() -> (Code, String) {
    (Code::PermissionDenied, "SHARE_ENDED".to_owned())
}

async fn list(world: &World, ended_too: bool) -> Vec<Share> {
    let asked = ListSharesRequest {
        ended_too,
        ..ListSharesRequest::default()
    };
    let listed = world.shares().list(by(&world.ada.token, asked)).await;
    listed.unwrap().into_inner().shares
}

fn the_share(share: &Share) -> RevokeShareRequest {
    RevokeShareRequest {
        share_id: share.id.clone(),
        box_id: share.box_id.clone(),
    }
}

async fn revoke(world: &World, share: &Share) {
    let asked = by(&world.ada.token, the_share(share));
    world.shares().revoke(asked).await.unwrap();
}

async fn regenerate(world: &World, share: &Share) -> Share {
    let asked = RegenerateShareRequest {
        share_id: share.id.clone(),
        box_id: share.box_id.clone(),
        command_id: String::new(),
    };
    let made = world.shares().regenerate(by(&world.ada.token, asked)).await;
    made.unwrap().into_inner()
}

#[tokio::test]
async fn a_share_is_made_seen_again_given_another_secret_and_ended() {
    let world = World::new().await;
    let command_id = "00000000-0000-4000-8000-000000000001";
    let asked = || CreateShareRequest {
        command_id: command_id.into(),
        ..CreateShareRequest::default()
    };
    let share = world.create(asked()).await.unwrap();
    assert!(share.secret.starts_with("cbs_"), "{share:?}");
    assert!(!format!("{share:?}").contains(&share.secret));
    // Asked for again because no answer came, it is the same one with the same link.
    let again = world.create(asked()).await.unwrap();
    assert_eq!((&again.id, &again.secret), (&share.id, &share.secret));
    let [listed] = &list(&world, false).await[..] else {
        panic!("not one");
    };
    assert_eq!(listed.secret, share.secret);
    assert_eq!((listed.state(), listed.opened), (ShareState::Live, 0));
    assert_eq!(listed.created_at_ms, START_US / 1_000);
    let looked = world.look(&share.secret).await.unwrap();
    assert_eq!(
        (looked.box_name.as_str(), looked.label.as_str()),
        ("main", "for the team")
    );
    assert_eq!(
        (looked.box_id.as_str(), looked.state()),
        (BOX, State::Running)
    );

    let fresh = regenerate(&world, &share).await;
    assert_eq!(fresh.id, share.id);
    assert_ne!(fresh.secret, share.secret);
    assert_eq!(refused(world.look(&share.secret).await), ended());
    world.look(&fresh.secret).await.unwrap();
    for secret in [&share.secret, &fresh.secret] {
        assert!(!world.lies_open(secret));
    }
    revoke(&world, &share).await;
    // Twice is once.
    revoke(&world, &share).await;
    assert_eq!(refused(world.look(&fresh.secret).await), ended());
    assert_eq!(list(&world, false).await, []);
    let [gone] = &list(&world, true).await[..] else {
        panic!("not one");
    };
    assert_eq!(
        (gone.state(), gone.secret.as_str()),
        (ShareState::Revoked, "")
    );
    assert_eq!(gone.opened, 1);
    let kinds = world.logged().await;
    let kinds: Vec<&str> = kinds.iter().map(|one| one.kind().name()).collect();
    assert_eq!(
        kinds,
        [
            "share.created",
            "share.opened",
            "share.regenerated",
            "share.revoked"
        ]
    );
    // The command of long ago, again, brings nothing back.
    let late = world.create(asked()).await.unwrap();
    assert_eq!(
        (late.state(), late.secret.as_str()),
        (ShareState::Revoked, "")
    );
}

#[tokio::test]
async fn what_cannot_be_is_told_as_what_it_is() {
    let world = World::new().await;
    let expiring = |at_us: i64| CreateShareRequest {
        expires_at_ms: Some(at_us / 1_000),
        ..CreateShareRequest::default()
    };
    let year = 400 * 24 * 60 * 60 * 1_000_000;
    for bad in [START_US, START_US + year] {
        let (code, _) = refused(world.create(expiring(bad)).await);
        assert_eq!(code, Code::InvalidArgument);
    }
    let nobody = CreateShareRequest {
        for_user: "nobody".into(),
        ..CreateShareRequest::default()
    };
    let nobody = refused(world.create(nobody).await);
    assert_eq!(nobody, (Code::NotFound, "NO_SUCH_USER".into()));
    for _ in 0..20 {
        world.share().await;
    }
    let more = refused(world.create(CreateShareRequest::default()).await);
    assert_eq!(more, (Code::ResourceExhausted, "TOO_MANY_SHARES".into()));
    assert_eq!(list(&world, true).await.len(), 20);
    // What was refused has left no secret behind.
    let kept = world.installation.tokens.list("", 100).await.unwrap();
    let secrets = kept.iter().filter(|kept| kept.sealed.is_some());
    assert_eq!(secrets.count(), 20);
}

#[tokio::test]
async fn whose_box_it_is_not_has_no_part_in_its_shares() {
    let world = World::new().await;
    let share = world.share().await;
    let bob = world.user("bob").await;
    let no_box = (Code::NotFound, "NO_SUCH_BOX".to_owned());
    let create = CreateShareRequest {
        box_id: BOX.into(),
        label: "mine".into(),
        ..CreateShareRequest::default()
    };
    let created = world.shares().create(by(&bob.token, create)).await;
    assert_eq!(refused(created), no_box);
    let of_box = ListSharesRequest {
        box_id: BOX.into(),
        ..ListSharesRequest::default()
    };
    let listed = world.shares().list(by(&bob.token, of_box)).await;
    assert_eq!(refused(listed), no_box);
    let all = ListSharesRequest::default();
    let listed = world.shares().list(by(&bob.token, all)).await.unwrap();
    assert_eq!(listed.into_inner().shares, []);
    let another = RegenerateShareRequest {
        share_id: share.id.clone(),
        box_id: BOX.into(),
        ..RegenerateShareRequest::default()
    };
    let changed = world.shares().regenerate(by(&bob.token, another)).await;
    assert_eq!(refused(changed), no_box);
    let mut shares = world.shares();
    let revoked = shares.revoke(by(&bob.token, the_share(&share))).await;
    assert_eq!(refused(revoked), no_box);
    world.look(&share.secret).await.unwrap();
    // Nor has a secret with what only owners do, nor an owner's token with what is a guest's.
    let (code, why) = refused(world.look("cbs_none").await);
    assert_eq!((code, why), ended());
    let token = refused(world.look(&world.ada.token).await);
    assert_eq!(token, ended());
    let owner = shares.look(by(&world.ada.token, LookRequest {})).await;
    let owner = refused(owner);
    assert_eq!(owner, (Code::PermissionDenied, "SHARE_REQUIRED".into()));
}

#[tokio::test]
async fn a_share_for_one_user_needs_that_user() {
    let world = World::new().await;
    let (bob, eve) = (world.user("bob").await, world.user("eve").await);
    let asked = CreateShareRequest {
        for_user: "bob".into(),
        ..CreateShareRequest::default()
    };
    let share = world.create(asked).await.unwrap();
    assert_eq!(
        (&share.for_user, share.for_user_name.as_str()),
        (&bob.id, "bob")
    );
    let alone = refused(world.look(&share.secret).await);
    assert_eq!(alone, (Code::Unauthenticated, "SHARE_NEEDS_SIGN_IN".into()));
    let look = |token: &str| {
        let asked = as_both(&share.secret, token, LookRequest {});
        let mut shares = world.shares();
        async move { shares.look(asked).await }
    };
    assert_eq!(
        refused(look(&eve.token).await),
        (Code::PermissionDenied, "SHARE_FOR_ANOTHER".into())
    );
    assert_eq!(refused(look("cbx_none").await), alone);
    look(&bob.token).await.unwrap();
    let events = world.logged().await;
    let Some(Payload::Share(ShareEvent::Opened(opened))) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!((&opened.user_id, opened.label.as_str()), (&bob.id, "bob"));
    let listed = list(&world, false).await;
    assert_eq!(listed[0].openings[0].label, "bob");
}

#[tokio::test]
async fn a_share_ends_when_its_time_is_over_and_that_is_written_down_when_noticed() {
    let world = World::new().await;
    let asked = || CreateShareRequest {
        expires_at_ms: Some(START_US / 1_000 + 60_000),
        ..CreateShareRequest::default()
    };
    let (share, unseen) = (
        world.create(asked()).await.unwrap(),
        world.create(asked()).await.unwrap(),
    );
    world.clock_by(59);
    let looked = world.look(&share.secret).await.unwrap();
    assert_eq!(looked.expires_at_ms, START_US / 1_000 + 60_000);
    world.clock_by(1);
    assert_eq!(refused(world.look(&share.secret).await), ended());
    let kinds = world.logged().await;
    let expired = kinds
        .iter()
        .filter(|one| one.kind().name() == "share.expired");
    assert_eq!(expired.count(), 2);
    for share in list(&world, true).await {
        assert_eq!(share.state(), ShareState::Expired);
        assert_eq!(share.secret, "");
    }
    let late = RegenerateShareRequest {
        share_id: unseen.id.clone(),
        box_id: BOX.into(),
        ..RegenerateShareRequest::default()
    };
    let late = world.shares().regenerate(by(&world.ada.token, late)).await;
    assert_eq!(
        refused(late),
        (Code::FailedPrecondition, "SHARE_ENDED".into())
    );
    let kept = world.installation.tokens.list("", 100).await.unwrap();
    assert!(kept.iter().all(|kept| kept.sealed.is_none()));
}

#[tokio::test]
async fn guests_are_written_down_when_they_come_and_not_each_time_they_look() {
    let world = World::new().await;
    let share = world.share().await;
    for _ in 0..50 {
        world.look(&share.secret).await.unwrap();
        world.clock_by(20);
    }
    let opened = |shares: &[Share]| shares[0].opened;
    assert_eq!(opened(&list(&world, false).await), 1);
    // Gone for a while, and here again.
    world.clock_by(601);
    world.look(&share.secret).await.unwrap();
    let listed = list(&world, false).await;
    assert_eq!((opened(&listed), listed[0].openings.len()), (2, 2));
    assert!(listed[0].openings[0].at_ms > listed[0].openings[1].at_ms);
}

#[tokio::test]
async fn a_box_that_sleeps_is_looked_at_and_not_woken() {
    let world = World::new().await;
    let share = world.share().await;
    world.sleep().await;
    let looked = world.look(&share.secret).await.unwrap();
    assert_eq!(looked.state(), State::Hibernated);
    let screen = watching::screen(world.connect(), &share.secret, "").await;
    assert_eq!(
        refused(screen.map(drop)),
        (Code::FailedPrecondition, "BOX_NOT_RUNNING".into())
    );
    let looked = world.look(&share.secret).await.unwrap();
    assert_eq!(looked.state(), State::Hibernated);
}
