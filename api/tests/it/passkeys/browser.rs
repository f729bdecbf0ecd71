//! A browser, as far as the api sees one.

use reqwest::{Client, Method, StatusCode, header};
use serde_json::{Value, json};

use super::authenticator::{Authenticator, Lie};
use crate::console::House;

/// A browser: what it keeps, and at which origin.
pub(super) struct Browser {
    pub(super) client: Client,
    pub(super) api: String,
    pub(super) origin: String,
    pub(super) session: String,
    pub(super) challenge: String,
}

/// What a browser was answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Browser {
    pub(super) fn new(house: &House) -> Self {
        let (api, port) = (house.origin(), house.at().port());
        Self {
            client: Client::new(),
            origin: format!("http://localhost:{port}"),
            api,
            session: String::new(),
            challenge: String::new(),
        }
    }

    pub(super) async fn ask(&mut self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let host = self.origin.strip_prefix("http://").unwrap();
        let kept = [self.session.as_str(), self.challenge.as_str()];
        let cookies = kept.map(|cookie| if cookie.is_empty() { "none=" } else { cookie });
        let cookies = cookies.join("; ");
        let mut asked = self
            .client
            .request(method, format!("{}{path}", self.api))
            .header(header::HOST, host)
            .header(header::ORIGIN, &self.origin)
            .header(header::COOKIE, cookies);
        if let Some(body) = body {
            let sort = "application/json";
            asked = asked
                .header(header::CONTENT_TYPE, sort)
                .body(body.to_string());
        }
        let answer = asked.send().await.unwrap();
        for cookie in answer.headers().get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.contains("; HttpOnly; SameSite=Strict;"), "{cookie}");
            let kept = cookie.split(';').next().unwrap().to_owned();
            match kept.split_once('=').unwrap().0 {
                "cocoonbox_session" => self.session = kept,
                "cocoonbox_passkey" => self.challenge = kept,
                other => panic!("{other}"),
            }
        }
        let status = answer.status();
        let text = answer.text().await.unwrap();
        Answer {
            status,
            body: serde_json::from_str(&text).unwrap_or_default(),
        }
    }

    pub(super) async fn post(&mut self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Signs in by a link.
    pub(super) async fn by_link(house: &mut House) -> Self {
        let mut browser = Self::new(house);
        let link = house.link().await;
        let answer = browser
            .post("/console/session", json!({"link": link}))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        browser
    }

    pub(super) async fn add(&mut self, authenticator: &mut Authenticator, lie: &Lie) -> Answer {
        let options = self.post("/console/passkeys/registration", json!({})).await;
        assert_eq!(options.status, StatusCode::OK, "{}", options.body);
        let made = authenticator.create(&options.body, &self.origin, lie);
        self.post(
            "/console/passkeys",
            json!({"name": "my key", "credential": made}),
        )
        .await
    }

    pub(super) async fn options(&mut self) -> Value {
        let options = self.post("/console/passkeys/assertion", json!({})).await;
        assert_eq!(options.status, StatusCode::OK, "{}", options.body);
        options.body
    }

    pub(super) async fn sign_in(&mut self, authenticator: &Authenticator, lie: &Lie) -> Answer {
        let options = self.options().await;
        let signed = authenticator.get(&options, &self.origin, lie);
        self.begin(&signed).await
    }

    pub(super) async fn begin(&mut self, signed: &Value) -> Answer {
        let body = json!({"label": "Test", "credential": signed});
        self.post("/console/passkeys/session", body).await
    }

    pub(super) async fn who(&mut self) -> Answer {
        self.ask(Method::GET, "/console/session", None).await
    }
}

impl Answer {
    pub(super) fn refused(&self, reason: &str) {
        let got = (self.status, self.body["reason"].as_str());
        assert_eq!(got, (StatusCode::FORBIDDEN, Some(reason)), "{}", self.body);
    }
}
