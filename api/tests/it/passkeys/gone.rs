//! What is somebody else's, and what was removed, deleted or erased.

use cocoonbox_proto::control::v1::{
    CreateUserRequest, DeleteUserRequest, EraseRequest, IssuedToken, RemovePasskeyRequest,
    erase_request::What, erasure_client::ErasureClient,
};
use reqwest::StatusCode;
use tonic::Code;

use super::{
    audited,
    authenticator::{Authenticator, Lie},
    browser::Browser,
    by, passkeys,
};
use crate::console::House;

async fn another(house: &mut House, name: &str) -> IssuedToken {
    let asked = CreateUserRequest {
        name: name.to_owned(),
        ..CreateUserRequest::default()
    };
    let made = house.users.create(by(&house.token, asked)).await.unwrap();
    made.into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_is_its_users_until_it_or_they_are_gone() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let mut key = Authenticator::new();
    browser.add(&mut key, &Lie::default()).await;
    let admins = house.token.clone();
    let eve = another(&mut house, "eve").await;
    house.token.clone_from(&eve.token);
    let mut of_eve = Browser::by_link(&mut house).await;
    let mut eves = Authenticator::new();
    assert_eq!(
        of_eve.add(&mut eves, &Lie::default()).await.status,
        StatusCode::OK
    );
    let eves_id = passkeys(&mut house).await[0].id.clone();
    house.token.clone_from(&admins);
    let id = passkeys(&mut house).await[0].id.clone();

    // Eve reaches nothing of it, whatever she names.
    let stolen = RemovePasskeyRequest {
        passkey_id: id.clone(),
    };
    let refused = house.users.remove_passkey(by(&eve.token, stolen)).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    let mut other = Browser::new(&house);
    let as_admin = Lie {
        user: Some(key.user.clone()),
        ..Lie::default()
    };
    other
        .sign_in(&eves, &as_admin)
        .await
        .refused("NO_SUCH_PASSKEY");
    let as_his = Lie {
        id: Some(key.id.clone()),
        ..as_admin
    };
    other
        .sign_in(&eves, &as_his)
        .await
        .refused("PASSKEY_REFUSED");
    // The same id under another user is another passkey.
    let mut twin = Authenticator::new();
    twin.id.clone_from(&key.id);
    assert_eq!(
        of_eve.add(&mut twin, &Lie::default()).await.status,
        StatusCode::OK
    );
    let signed = other.sign_in(&twin, &Lie::default()).await;
    assert_eq!(signed.body["name"], "eve");

    // Removed, it signs nobody in; the session that it began goes on.
    let signed = other.sign_in(&key, &Lie::default()).await;
    assert_eq!(signed.body["name"], "admin");
    let remove = RemovePasskeyRequest { passkey_id: id };
    house
        .users
        .remove_passkey(by(&admins, remove))
        .await
        .unwrap();
    assert_eq!(passkeys(&mut house).await, []);
    assert_eq!(other.who().await.status, StatusCode::OK);
    other
        .sign_in(&key, &Lie::default())
        .await
        .refused("NO_SUCH_PASSKEY");
    audited(&mut house, "user.passkey_removed").await;

    // Nor does one of a user who was deleted.
    assert_eq!(
        other.sign_in(&eves, &Lie::default()).await.status,
        StatusCode::OK
    );
    let delete = DeleteUserRequest {
        user_id: eve.user.unwrap().id,
        confirm_name: "eve".to_owned(),
        force: false,
    };
    let deleted = house.users.delete(by(&admins, delete)).await.unwrap();
    assert!(deleted.into_inner().deleted);
    assert_eq!(other.who().await.status, StatusCode::UNAUTHORIZED);
    other
        .sign_in(&eves, &Lie::default())
        .await
        .refused("NO_SUCH_PASSKEY");
    let gone = RemovePasskeyRequest {
        passkey_id: eves_id,
    };
    let gone = house.users.remove_passkey(by(&eve.token, gone)).await;
    assert_eq!(gone.unwrap_err().code(), Code::Unauthenticated);
    house.server.stop().await;
}

/// Names are content: without them a passkey and a token are what they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_erased_takes_nothing_with_it() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let mut key = Authenticator::new();
    browser.add(&mut key, &Lie::default()).await;
    let who = browser.who().await.body;
    let erase = EraseRequest {
        what: Some(What::Stream(format!(
            "user/{}",
            who["user_id"].as_str().unwrap()
        ))),
        ..EraseRequest::default()
    };
    let tcp = tonic::transport::Endpoint::from_shared(house.origin()).unwrap();
    let mut erasure = ErasureClient::new(tcp.connect().await.unwrap());
    let erased = erasure
        .erase(by(&house.token, erase))
        .await
        .unwrap()
        .into_inner();
    let mut kinds: Vec<&str> = erased
        .erased
        .iter()
        .map(|event| event.kind.as_str())
        .collect();
    kinds.dedup();
    assert_eq!(kinds, ["user.token_issued", "user.passkey_added"]);
    let [known] = &passkeys(&mut house).await[..] else {
        panic!("not one");
    };
    assert_eq!(known.name, "");
    assert!(known.added_at_ms > 0);
    assert_eq!(browser.who().await.status, StatusCode::OK);
    let mut other = Browser::new(&house);
    assert_eq!(
        other.sign_in(&key, &Lie::default()).await.status,
        StatusCode::OK
    );
    house.server.stop().await;
}
