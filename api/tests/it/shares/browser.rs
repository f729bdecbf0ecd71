//! A guest's browser: the link's secret is exchanged for a cookie, which counts for the guest's page only.

use cocoonbox_proto::control::v1::{LookRequest, LookResponse};
use futures::{SinkExt as _, StreamExt as _};
use prost::Message as _;
use reqwest::{Client, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use crate::console::House;

async fn ask(house: &House, method: Method, path: &str, cookie: &str, origin: &str) -> Response {
    ask_with(house, method, path, cookie, origin, Value::Null).await
}

async fn ask_with(
    house: &House,
    method: Method,
    path: &str,
    cookie: &str,
    origin: &str,
    body: Value,
) -> Response {
    let asked = Client::new()
        .request(method, format!("{}{path}", house.origin()))
        .header(header::ORIGIN, origin)
        .header(header::COOKIE, cookie)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.to_string());
    asked.send().await.unwrap()
}

/// Exchanges a secret, and returns the whole cookie.
async fn begin(house: &House, secret: &str) -> Result<String, (StatusCode, Value)> {
    let body = json!({ "secret": secret });
    let path = "/share/session";
    let answer = ask_with(house, Method::POST, path, "", &house.origin(), body).await;
    let status = answer.status();
    let cookie = answer.headers().get(header::SET_COOKIE).cloned();
    let body: Value = answer.json().await.unwrap();
    match cookie {
        Some(cookie) => {
            assert_eq!(
                (status, &body["box_name"]),
                (StatusCode::OK, &json!("main"))
            );
            Ok(cookie.to_str().unwrap().to_owned())
        }
        None => Err((status, body["reason"].clone())),
    }
}

/// Makes a call in a `WebSocket` of the guest's page, and returns its messages and its status.
async fn call(house: &House, share_id: &str, method: &str, cookie: &str) -> (Vec<Vec<u8>>, i64) {
    let url = format!("ws://{}/share/{share_id}/call/{method}", house.at());
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("origin", house.origin().parse().unwrap());
    headers.insert("cookie", cookie.parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let asked = LookRequest {}.encode_to_vec();
    // A call that is refused may have ended by then.
    socket.send(Message::Binary(asked.into())).await.ok();
    socket.send(Message::Text("end".into())).await.ok();
    let mut messages = Vec::new();
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Binary(message) => messages.push(message.to_vec()),
            Message::Text(told) => {
                let told: Value = serde_json::from_str(&told).unwrap();
                return (messages, told["code"].as_i64().unwrap());
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_exchanged_for_a_cookie_of_its_own_kind() {
    let house = House::new().await;
    let share = house.share(&house.token).await;
    let own = house.origin();
    let cookie = begin(&house, &share.secret).await.unwrap();
    let expected = format!(
        "cocoonbox_share={}; Path=/share/{}; HttpOnly; SameSite=Strict",
        share.secret, share.id
    );
    assert_eq!(cookie, expected);
    let kept = cookie.split(';').next().unwrap();
    let session = format!("/share/{}/session", share.id);
    let answer = ask(&house, Method::GET, &session, kept, &own).await;
    let look: Value = answer.json().await.unwrap();
    assert_eq!(look["share_id"], json!(share.id));
    assert_eq!(look["label"], "planted-needle");
    // Another page has no use of it, and the guest's page none of the console.
    let foreign = ask(&house, Method::GET, &session, kept, "http://evil.example").await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    let console = ask(&house, Method::GET, "/console/session", kept, &own).await;
    assert_eq!(console.status(), StatusCode::UNAUTHORIZED);
    let none = ask(&house, Method::GET, &session, "", &own).await;
    assert_eq!(none.status(), StatusCode::FORBIDDEN);

    let method = "cocoonbox.control.v1.Shares/Look";
    let (messages, code) = call(&house, &share.id, method, kept).await;
    let look = LookResponse::decode(&*messages[0]).unwrap();
    assert_eq!((look.share_id, code), (share.id.clone(), 0));
    let forgotten = ask(&house, Method::DELETE, &session, kept, &own).await;
    let forgotten = forgotten.headers()[header::SET_COOKIE]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(forgotten.contains("=; Path=/share/") && forgotten.contains("Max-Age=0"));
    house.server.stop().await;
}

/// Whoever is signed in besides must not be taken for by the guest's page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guests_page_never_calls_as_whoever_is_signed_in() {
    let house = House::new().await;
    let share = house.share(&house.token).await;
    let cookie = begin(&house, &share.secret).await.unwrap();
    let shared = cookie.split(';').next().unwrap();
    let signed_in = format!("cocoonbox_session={}", house.token);
    let both = format!("{signed_in}; {shared}");
    let denied = 7;
    for cookie in [shared, &both, &signed_in] {
        let list = "cocoonbox.control.v1.Boxes/List";
        assert_eq!(call(&house, &share.id, list, cookie).await.1, denied);
    }
    let look = "cocoonbox.control.v1.Shares/Look";
    assert_eq!(call(&house, &share.id, look, &both).await.1, 0);
    assert_eq!(call(&house, &share.id, look, &signed_in).await.1, denied);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_opens_nothing_gives_no_session() {
    let house = House::new().await;
    let share = house.share(&house.token).await;
    for secret in ["", "cbs_none", &house.token, &share.id] {
        let refused = begin(&house, secret).await.unwrap_err();
        assert_eq!(refused, (StatusCode::FORBIDDEN, json!("SHARE_ENDED")));
    }
    house.server.stop().await;
}
