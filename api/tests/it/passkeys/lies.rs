//! Browsers and authenticators that say something else than they were asked.

use reqwest::StatusCode;
use serde_json::json;

use super::{
    authenticator::{Authenticator, Lie},
    browser::Browser,
    passkeys,
};
use crate::console::House;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_browser_was_not_asked_signs_nobody_in() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let mut key = Authenticator::new();
    browser.add(&mut key, &Lie::default()).await;
    let mut other = Browser::new(&house);
    let lie = Lie::default;
    let port = house.at().port();
    let lies = [
        (
            "another origin",
            Lie {
                origin: Some("https://evil.example".into()),
                ..lie()
            },
        ),
        (
            "another port",
            Lie {
                origin: Some(format!("http://localhost:{}", port ^ 1)),
                ..lie()
            },
        ),
        (
            "another host name",
            Lie {
                host: Some("evil.example"),
                ..lie()
            },
        ),
        (
            "a frame",
            Lie {
                cross_origin: true,
                ..lie()
            },
        ),
        (
            "another ceremony",
            Lie {
                sort: Some("webauthn.create"),
                ..lie()
            },
        ),
        (
            "another challenge",
            Lie {
                challenge: Some(json!("AAAA")),
                ..lie()
            },
        ),
        ("nobody there", Lie { flags: 1, ..lie() }),
        ("nobody known", Lie { flags: 4, ..lie() }),
        ("copied, and never may be", Lie { flags: 16, ..lie() }),
        ("may be copied since", Lie { flags: 8, ..lie() }),
        ("more than it says", Lie { flags: 64, ..lie() }),
        (
            "another key",
            Lie {
                forged: true,
                ..lie()
            },
        ),
    ];
    for (what, lie) in lies {
        let answer = other.sign_in(&key, &lie).await;
        assert_eq!(
            answer.body["reason"], "PASSKEY_REFUSED",
            "{what}: {}",
            answer.body
        );
        assert_eq!(other.who().await.status, StatusCode::UNAUTHORIZED, "{what}");
    }
    for lie in [
        Lie {
            id: Some(b"unknown".to_vec()),
            ..lie()
        },
        Lie {
            user: Some(b"u0123456789ab".to_vec()),
            ..lie()
        },
        Lie {
            user: Some(Vec::new()),
            ..lie()
        },
        Lie {
            user: Some(b"a/b \xff".to_vec()),
            ..lie()
        },
    ] {
        other.sign_in(&key, &lie).await.refused("NO_SUCH_PASSKEY");
    }
    // Nothing of this was used up, and nothing counted.
    assert_eq!(other.sign_in(&key, &lie()).await.status, StatusCode::OK);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_made_otherwise_is_not_added() {
    let mut house = House::new().await;
    let mut browser = Browser::by_link(&mut house).await;
    let lie = Lie::default;
    let lies = [
        (
            "another origin",
            Lie {
                origin: Some("https://evil.example".into()),
                ..lie()
            },
        ),
        (
            "another host name",
            Lie {
                host: Some("evil.example"),
                ..lie()
            },
        ),
        (
            "a frame",
            Lie {
                cross_origin: true,
                ..lie()
            },
        ),
        (
            "another ceremony",
            Lie {
                sort: Some("webauthn.get"),
                ..lie()
            },
        ),
        (
            "another challenge",
            Lie {
                challenge: Some(json!("AAAA")),
                ..lie()
            },
        ),
        ("nobody there", Lie { flags: 1, ..lie() }),
        ("nobody known", Lie { flags: 4, ..lie() }),
        ("no passkey in it", Lie { flags: 64, ..lie() }),
        (
            "told about",
            Lie {
                attestation: true,
                ..lie()
            },
        ),
        (
            "another id",
            Lie {
                id: Some(b"other".to_vec()),
                ..lie()
            },
        ),
    ];
    for (what, lie) in lies {
        let answer = browser.add(&mut Authenticator::new(), &lie).await;
        assert_eq!(
            answer.body["reason"], "PASSKEY_REFUSED",
            "{what}: {}",
            answer.body
        );
    }
    let mut nobody = Browser::new(&house);
    for path in ["/console/passkeys/registration", "/console/passkeys"] {
        let body = json!({"name": "x", "credential": {"rawId": "", "response": {"clientDataJSON": "", "attestationObject": ""}}});
        assert_eq!(
            nobody.post(path, body).await.status,
            StatusCode::UNAUTHORIZED
        );
    }
    let garbage = browser
        .post("/console/passkeys", json!({"name": "x", "credential": 1}))
        .await;
    assert!(garbage.status.is_client_error());
    // At an address there are none, and it is said where there are.
    browser.origin = house.origin();
    let answer = browser
        .post("/console/passkeys/registration", json!({}))
        .await;
    answer.refused("NO_PASSKEYS_HERE");
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("http://localhost:{}", house.at().port())),
        "{message}"
    );
    assert_eq!(passkeys(&mut house).await, []);
    house.server.stop().await;
}
