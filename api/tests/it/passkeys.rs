//! Passkeys, from a real server and an authenticator in software.

mod authenticator;
mod browser;
mod expiry;
mod gone;
mod lies;

use cocoonbox_proto::control::v1::{AuditRequest, ListPasskeysRequest, ListTokensRequest, Passkey};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tonic::{Request, metadata::MetadataValue};

use self::{
    authenticator::{Authenticator, Lie},
    browser::Browser,
};
use crate::console::House;

fn by<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer: MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

async fn passkeys(house: &mut House) -> Vec<Passkey> {
    let asked = by(&house.token, ListPasskeysRequest {});
    let answer = house.users.list_passkeys(asked).await.unwrap();
    answer.into_inner().passkeys
}

async fn kinds(house: &mut House) -> Vec<String> {
    let asked = AuditRequest {
        page_size: 1_000,
        ..AuditRequest::default()
    };
    // Views are a moment behind the log.
    let page = house.users.audit(by(&house.token, asked)).await.unwrap();
    let entries = page.into_inner().entries.into_iter();
    entries.map(|entry| entry.kind).collect()
}

/// Waits until the audit tells of this.
async fn audited(house: &mut House, kind: &str) {
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while !kinds(house).await.iter().any(|known| known == kind) {
        assert!(
            tokio::time::Instant::now() < until,
            "{kind} is not in the audit"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_is_added_and_signs_in() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let origins = browser.ask(Method::GET, "/console/passkeys", None).await;
    assert_eq!(origins.body, json!({"origins": [browser.origin]}));
    let mut key = Authenticator::new();
    let added = browser.add(&mut key, &Lie::default()).await;
    assert_eq!(added.status, StatusCode::OK, "{}", added.body);
    let [known] = &passkeys(&mut house).await[..] else {
        panic!("not one");
    };
    assert_eq!(added.body, json!({"passkey_id": known.id}));
    assert_eq!(
        (known.name.as_str(), known.host.as_str()),
        ("my key", "localhost")
    );
    assert!(known.added_at_ms > 0 && known.used_at_ms == 0);
    let again = browser.add(&mut key, &Lie::default()).await;
    again.refused("PASSKEY_KNOWN");
    let options = browser
        .post("/console/passkeys/registration", json!({}))
        .await;
    assert_eq!(options.body["excludeCredentials"][0]["type"], "public-key");

    let mut other = Browser::new(&house);
    assert_eq!(other.who().await.status, StatusCode::UNAUTHORIZED);
    for count in [0, 3, 4] {
        key.count = count;
        let signed = other.sign_in(&key, &Lie::default()).await;
        assert_eq!(signed.status, StatusCode::OK, "{}", signed.body);
        assert_eq!(signed.body["name"], "admin");
        assert_eq!(other.who().await.body["token_id"], signed.body["token_id"]);
    }
    assert!(passkeys(&mut house).await[0].used_at_ms > 0);
    let asked = by(&house.token, ListTokensRequest {});
    let tokens = house.users.list_tokens(asked).await.unwrap().into_inner();
    let sessions = tokens
        .tokens
        .iter()
        .filter(|token| token.label == "console, Test");
    assert_eq!(sessions.count(), 3);
    audited(&mut house, "user.passkey_added").await;
    audited(&mut house, "user.passkey_used").await;
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_challenge_is_answered_once_by_whom_it_was_made_for() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let mut key = Authenticator::new();
    browser.add(&mut key, &Lie::default()).await;

    let mut other = Browser::new(&house);
    let options = other.options().await;
    let kept = other.challenge.clone();
    let signed = key.get(&options, &other.origin, &Lie::default());
    // Another browser has no part in it, nor has one that is not asked any more.
    let mut thief = Browser::new(&house);
    thief.begin(&signed).await.refused("NOT_ASKED");
    thief.options().await;
    thief.begin(&signed).await.refused("PASSKEY_REFUSED");
    assert_eq!(other.begin(&signed).await.status, StatusCode::OK);
    other.begin(&signed).await.refused("NOT_ASKED");
    other.challenge.clone_from(&kept);
    other.begin(&signed).await.refused("NOT_ASKED");
    // At the same time only one of two gets in.
    let options = other.options().await;
    let signed = key.get(&options, &other.origin, &Lie::default());
    let mut twin = Browser::new(&house);
    twin.challenge.clone_from(&other.challenge);
    let (one, two) = tokio::join!(other.begin(&signed), twin.begin(&signed));
    let mut codes = [one.status, two.status];
    codes.sort_unstable();
    assert_eq!(codes, [StatusCode::OK, StatusCode::FORBIDDEN]);
    // What was asked of a session is no sign-in, and not another session's.
    let options = browser
        .post("/console/passkeys/registration", json!({}))
        .await
        .body;
    let made = Authenticator::new().create(&options, &browser.origin, &Lie::default());
    let body = json!({"name": "x", "credential": made});
    let mut second = Browser::by_link(&mut house).await;
    second.challenge.clone_from(&browser.challenge);
    second
        .post("/console/passkeys", body.clone())
        .await
        .refused("NOT_ASKED");
    let kept = browser.challenge.clone();
    assert_eq!(
        browser.post("/console/passkeys", body.clone()).await.status,
        StatusCode::OK
    );
    browser.challenge = kept;
    browser
        .post("/console/passkeys", body)
        .await
        .refused("NOT_ASKED");
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_goes_back_is_refused_and_told() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let mut key = Authenticator::new();
    key.count = 7;
    browser.add(&mut key, &Lie::default()).await;
    let mut other = Browser::new(&house);
    for count in [7, 3, 0] {
        key.count = count;
        other
            .sign_in(&key, &Lie::default())
            .await
            .refused("PASSKEY_COPIED");
    }
    assert_eq!(other.who().await.status, StatusCode::UNAUTHORIZED);
    audited(&mut house, "user.passkey_refused").await;
    assert_eq!(passkeys(&mut house).await[0].used_at_ms, 0);
    key.count = 8;
    assert_eq!(
        other.sign_in(&key, &Lie::default()).await.status,
        StatusCode::OK
    );
    house.server.stop().await;
}
