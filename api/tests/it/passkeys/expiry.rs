//! Challenges and time: the console alone, over a clock that is set.

use std::sync::Arc;

use axum::{Router, body::Body};
use cocoonbox_api::{
    accounts::Accounts,
    console::{self, Console, Passkeys},
    passkeys::Places,
    shares::{self, Secrets, Shares},
    vault::Vault,
};
use cocoonbox_commands::user::CHALLENGE_LIFE_US;
use cocoonbox_events::{
    Clock as _, Ids as _, KeyStore, LogId, ManualClock, MemoryStore, SystemIds,
};
use cocoonbox_installation::tokens::SqliteTokens;
use cocoonbox_projections::Views;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use zeroize::Zeroizing;

use super::authenticator::{Authenticator, Lie};

const ORIGIN: &str = "https://box.example";

struct Page {
    console: Router,
    token: String,
    cookie: String,
}

impl Page {
    async fn post(&mut self, path: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::post(path)
            .header(header::HOST, "box.example")
            .header(header::ORIGIN, ORIGIN)
            .header(header::COOKIE, &self.cookie)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let answer = self.console.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let cookies = head.headers.get_all(header::SET_COOKIE).iter();
        for cookie in cookies.map(|cookie| cookie.to_str().unwrap()) {
            if cookie.starts_with("cocoonbox_passkey=") {
                cookie
                    .split(';')
                    .next()
                    .unwrap()
                    .clone_into(&mut self.cookie);
            }
        }
        let body = body.collect().await.unwrap().to_bytes();
        (
            head.status,
            serde_json::from_slice(&body).unwrap_or_default(),
        )
    }
}

#[tokio::test]
async fn a_challenge_that_is_answered_late_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_790_000_000_000_000));
    let store = Arc::new(MemoryStore::new(clock.clone(), Arc::new(SystemIds)));
    let tokens = SqliteTokens::open(&dir.path().join("vault.db")).unwrap();
    let tokens = Arc::new(tokens);
    let vault = Vault::new(tokens.clone(), Zeroizing::new([1; 32]));
    let accounts = Arc::new(Accounts::new(store.clone(), vault, Arc::new(SystemIds)));
    accounts.start(LogId(SystemIds.draw())).await.unwrap();
    let issued = accounts.bootstrap("ann", "test").await.unwrap();
    let keys = Arc::new(KeyStore::open(dir.path()).unwrap());
    let shares = Shares::new(shares::Parts {
        accounts: accounts.clone(),
        store,
        views: Views::open(&dir.path().join("views.db")).unwrap(),
        secrets: Secrets::new(tokens, Zeroizing::new([3; 32]), keys),
        ids: Arc::new(SystemIds),
        clock: clock.clone(),
    });
    let places = Places::new(&[ORIGIN.to_owned()], 8750).unwrap();
    let mut page = Page {
        console: console::routes(Console {
            accounts: accounts.clone(),
            shares: Arc::new(shares),
            clock: clock.clone(),
            passkeys: Arc::new(Passkeys::new(places, Zeroizing::new([2; 32]))),
            grpc: Router::new(),
            stop: CancellationToken::new(),
        }),
        token: issued.token.reveal(),
        cookie: String::new(),
    };
    let mut key = Authenticator::new();
    let asked = "/console/passkeys/registration";
    for (late_us, status) in [(1, StatusCode::FORBIDDEN), (0, StatusCode::OK)] {
        let (_, options) = page.post(asked, json!({})).await;
        assert_eq!(options["rp"]["id"], "box.example");
        let made = key.create(&options, ORIGIN, &Lie::default());
        clock.set(clock.now_us() + CHALLENGE_LIFE_US + late_us);
        let body = json!({"name": "key", "credential": made});
        let (got, body) = page.post("/console/passkeys", body).await;
        assert_eq!(got, status, "{body}");
    }
    for (late_us, status, why) in [
        (1, StatusCode::FORBIDDEN, json!("TOO_LATE")),
        (0, StatusCode::OK, Value::Null),
    ] {
        let (_, options) = page.post("/console/passkeys/assertion", json!({})).await;
        let signed = key.get(&options, ORIGIN, &Lie::default());
        clock.set(clock.now_us() + CHALLENGE_LIFE_US + late_us);
        let (got, body) = page
            .post("/console/passkeys/session", json!({"credential": signed}))
            .await;
        assert_eq!((got, &body["reason"]), (status, &why), "{body}");
    }
}
