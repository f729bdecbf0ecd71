//! Shares of what is gone, words that were erased, and everything that a guest is refused, at a real server.

use cocoonbox_commands::boxes::Command;
use cocoonbox_installation::{Tokens as _, tokens::SqliteTokens};
use cocoonbox_proto::control::v1::{
    CreateShareRequest, CreateUserRequest, DeleteUserRequest, EnsureRequest, EraseRequest,
    ListSharesRequest, LookRequest, Share, boxes_client::BoxesClient, erase_request::What,
    erasure_client::ErasureClient, shares_client::SharesClient,
};
use http::HeaderValue;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status, transport::Channel};

use super::{
    ended, refused,
    world::{World, by, with},
};
use crate::console::House;

impl House {
    pub(super) fn channel(&self) -> Channel {
        let tcp = tonic::transport::Endpoint::from_shared(self.origin()).unwrap();
        tcp.connect_lazy()
    }

    /// Makes a box, whose machine cannot be started, and a share of it.
    pub(super) async fn share(&self, token: &str) -> Share {
        let ensure = EnsureRequest {
            name: "main".into(),
            ..EnsureRequest::default()
        };
        let made = BoxesClient::new(self.channel())
            .ensure(by(token, ensure))
            .await;
        let asked = CreateShareRequest {
            box_id: made.unwrap().into_inner().id,
            label: "planted-needle".into(),
            ..CreateShareRequest::default()
        };
        let mut shares = SharesClient::new(self.channel());
        shares.create(by(token, asked)).await.unwrap().into_inner()
    }

    async fn look(&self, secret: &str) -> Result<(), Status> {
        let asked = with(secret, LookRequest {});
        let looked = SharesClient::new(self.channel()).look(asked).await;
        looked.map(drop)
    }
}

/// All methods that there are, as `/package.Service/Method`.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(cocoonbox_proto::DESCRIPTORS).unwrap();
    let mut methods = vec![
        "/grpc.health.v1.Health/Check".to_owned(),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned(),
        "/no.such.Service/Method".to_owned(),
    ];
    for file in &set.file {
        for service in &file.service {
            let of = format!("/{}.{}", file.package(), service.name());
            methods.extend(
                service
                    .method
                    .iter()
                    .map(|one| format!("{of}/{}", one.name())),
            );
        }
    }
    methods
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_refused_everything_but_to_look() {
    let house = House::new().await;
    let share = house.share(&house.token).await;
    house.look(&share.secret).await.unwrap();
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let open = [
        "/cocoonbox.control.v1.Shares/Look",
        "/cocoonbox.agent.v1.Session/Screen",
    ];
    let methods = methods();
    assert!(methods.len() > 70, "{methods:?}");
    for method in methods.iter().filter(|one| !open.contains(&one.as_str())) {
        // With the owner's own token as well: a secret takes away, and adds nothing.
        for token in [None, Some(&house.token)] {
            let mut asked = client
                .post(format!("{}{method}", house.origin()))
                .header("content-type", "application/grpc")
                .header("x-cocoonbox-share", &share.secret)
                .header("box_id", &share.box_id)
                .body(vec![0; 5]);
            if let Some(token) = token {
                asked = asked.bearer_auth(token);
            }
            let answer = asked.send().await.unwrap();
            let status = answer.headers().get("grpc-status").cloned();
            let denied = HeaderValue::from_static("7");
            assert_eq!(status, Some(denied), "{method} {answer:?}");
        }
    }
    // A secret is no token, and a token no secret.
    let list = |token: &str| by(token, ListSharesRequest::default());
    let mut shares = SharesClient::new(house.channel());
    let as_token = shares.list(list(&share.secret)).await;
    assert_eq!(
        refused(as_token),
        (Code::Unauthenticated, "TOKEN_INVALID".into())
    );
    assert_eq!(refused(house.look(&house.token).await), ended());
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_of_a_deleted_user_opens_nothing_and_leaves_nothing() {
    let mut house = House::new().await;
    let admins = house.token.clone();
    let asked = CreateUserRequest {
        name: "eve".into(),
        ..CreateUserRequest::default()
    };
    let eve = house
        .users
        .create(by(&admins, asked))
        .await
        .unwrap()
        .into_inner();
    let (of_eve, of_admin) = (house.share(&eve.token).await, house.share(&admins).await);
    house.look(&of_eve.secret).await.unwrap();
    let delete = DeleteUserRequest {
        user_id: eve.user.unwrap().id,
        confirm_name: "eve".into(),
        force: false,
    };
    let deleted = house.users.delete(by(&admins, delete)).await.unwrap();
    assert!(deleted.into_inner().deleted);
    assert_eq!(refused(house.look(&of_eve.secret).await), ended());
    house.look(&of_admin.secret).await.unwrap();
    let vault = house.data().join("vault.db");
    let vault = SqliteTokens::open_read_only(&vault).unwrap();
    let kept = vault.list("", 100).await.unwrap();
    assert_eq!(kept.iter().filter(|kept| kept.sealed.is_some()).count(), 1);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_that_is_erased_takes_nothing_with_it() {
    let house = House::new().await;
    let share = house.share(&house.token).await;
    house.look(&share.secret).await.unwrap();
    let erase = EraseRequest {
        what: Some(What::Stream(format!("share/{}", share.box_id))),
        ..EraseRequest::default()
    };
    let mut erasure = ErasureClient::new(house.channel());
    let erased = erasure.erase(by(&house.token, erase));
    let erased = erased.await.unwrap().into_inner().erased;
    let kinds: Vec<&str> = erased.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["share.created", "share.opened"]);
    let mut shares = SharesClient::new(house.channel());
    let listed = shares.list(by(&house.token, ListSharesRequest::default()));
    let listed = listed.await;
    let [listed] = &listed.unwrap().into_inner().shares[..] else {
        panic!("not one");
    };
    assert_eq!((listed.label.as_str(), &listed.secret), ("", &share.secret));
    assert_eq!(listed.opened, 1);
    house.look(&share.secret).await.unwrap();
    house.server.stop().await;
}

#[tokio::test]
async fn a_share_of_a_box_that_is_deleted_opens_nothing() {
    let world = World::new().await;
    let share = world.share().await;
    world.look(&share.secret).await.unwrap();
    let delete = Command::Delete {
        operation_id: "op2".into(),
    };
    world.box_is(&[delete]).await;
    assert_eq!(refused(world.look(&share.secret).await), ended());
    world.box_is(&[Command::Deleted]).await;
    assert_eq!(refused(world.look(&share.secret).await), ended());
}
