//! What a browser asks of a real server, and what other pages in it get.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use cocoonbox_api::{
    Config, Server,
    config::{File, Fleet},
    gateway::GatewayConfig,
};
use cocoonbox_proto::control::v1::{
    BootstrapRequest, IssueTokenRequest, ListBoxesResponse, User, users_client::UsersClient,
};
use futures::{SinkExt as _, StreamExt as _};
use prost::Message as _;
use reqwest::{Client, Response, StatusCode, header};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::{self, Message, client::IntoClientRequest as _};
use tonic::{Request, metadata::MetadataValue, transport::Channel};

const WAIT: Duration = Duration::from_secs(30);

/// A server with one user, and what they hold.
pub(crate) struct House {
    pub(crate) server: Server,
    pub(crate) users: UsersClient<Channel>,
    pub(crate) token: String,
    dir: TempDir,
}

impl House {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            fleet: Fleet::embedded(&data),
            image: dir.path().join("core.erofs"),
            agent: dir.path().join("agent"),
            file: File::default(),
            gateway: GatewayConfig::default(),
            models: None,
            data: data.clone(),
        };
        let server = Server::start(config).await.unwrap();
        let socket = format!("unix:{}", data.join("run/api.sock").display());
        let socket = tonic::transport::Endpoint::from_shared(socket).unwrap();
        let mut host = UsersClient::new(socket.connect().await.unwrap());
        let issued = host.bootstrap(BootstrapRequest::default()).await.unwrap();
        let tcp = format!("http://{}", server.listen);
        let tcp = tonic::transport::Endpoint::from_shared(tcp).unwrap();
        Self {
            users: UsersClient::new(tcp.connect().await.unwrap()),
            token: issued.into_inner().token,
            server,
            dir,
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.server.listen
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.at())
    }

    /// A link as `cocoonbox console` gets one.
    pub(crate) async fn link(&mut self) -> String {
        let mut request = Request::new(IssueTokenRequest {
            label: "link".to_owned(),
            sign_in: true,
        });
        let bearer: MetadataValue<_> = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        self.users
            .issue_token(request)
            .await
            .unwrap()
            .into_inner()
            .token
    }

    async fn sign_in(&self, link: &str) -> Response {
        let body = format!(r#"{{"link": "{link}", "label": "test"}}"#);
        let asked = Client::new()
            .post(format!("{}/console/session", self.origin()))
            .header(header::ORIGIN, self.origin())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        asked.send().await.unwrap()
    }

    /// Signs in, and returns the cookie.
    async fn cookie(&mut self) -> String {
        let link = self.link().await;
        let answer = self.sign_in(&link).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict;"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Opens `Boxes.Watch` in a `WebSocket`.
    async fn watch(&self, cookie: &str, origin: &str) -> Result<Socket, tungstenite::Error> {
        let method = "cocoonbox.control.v1.Boxes/Watch";
        self.call(method, cookie, origin).await
    }

    /// Calls a method with an empty message in a `WebSocket`.
    async fn call(
        &self,
        method: &str,
        cookie: &str,
        origin: &str,
    ) -> Result<Socket, tungstenite::Error> {
        let url = format!("ws://{}/console/call/{method}", self.at());
        let mut request = url.into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("origin", origin.parse().unwrap());
        headers.insert("cookie", cookie.parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await?;
        socket.send(Message::Binary(Vec::new().into())).await?;
        socket.send(Message::Text("end".into())).await?;
        Ok(socket)
    }
}

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// The next message that is not a sign of life.
async fn next(socket: &mut Socket) -> Message {
    loop {
        let message = tokio::time::timeout(WAIT, socket.next()).await;
        let message = message.expect("a message").expect("not the end").unwrap();
        if !message.is_ping() {
            return message;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_signs_in_once_and_opens_nothing_else() {
    let mut house = House::new().await;
    let link = house.link().await;
    let mut whoami = Request::new(cocoonbox_proto::control::v1::WhoAmIRequest {});
    let bearer: MetadataValue<_> = format!("Bearer {link}").parse().unwrap();
    whoami.metadata_mut().insert("authorization", bearer);
    let refused = house.users.who_am_i(whoami).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);

    let (one, two) = tokio::join!(house.sign_in(&link), house.sign_in(&link));
    let mut codes = [one.status(), two.status()];
    codes.sort_unstable();
    assert_eq!(codes, [StatusCode::OK, StatusCode::FORBIDDEN]);
    for other in [house.token.as_str(), "cbx_none", ""] {
        let answer = house.sign_in(other).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{other}");
    }
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cookie_counts_for_the_page_itself_only() {
    let mut house = House::new().await;
    let cookie = house.cookie().await;
    let whoami = |origin: String| {
        let url = format!("{}/cocoonbox.control.v1.Users/WhoAmI", house.origin());
        let asked = Client::new()
            .post(url)
            .header(header::ORIGIN, origin)
            .header(header::COOKIE, &cookie)
            .header(header::CONTENT_TYPE, "application/grpc-web+proto")
            .body(vec![0; 5]);
        async { asked.send().await.unwrap() }
    };
    let own = whoami(house.origin()).await.bytes().await.unwrap();
    let length = usize::from(own[4]);
    let user = User::decode(&own[5..5 + length]).unwrap();
    assert_eq!(user.name, "admin");
    let other = whoami("http://evil.example".to_owned()).await;
    assert_eq!(other.headers()["grpc-status"], "16");

    let refused = house.watch(&cookie, "http://evil.example").await;
    let tungstenite::Error::Http(refused) = refused.unwrap_err() else {
        panic!("not refused");
    };
    assert_eq!(refused.status(), 403);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_not_given_the_key_of_what_is_saved() {
    let mut house = House::new().await;
    let cookie = house.cookie().await;
    let method = "cocoonbox.control.v1.Capsule/ExportKey";
    let mut socket = house.call(method, &cookie, &house.origin()).await.unwrap();
    let refused = next(&mut socket).await;
    let refused: serde_json::Value = serde_json::from_str(refused.to_text().unwrap()).unwrap();
    assert_eq!(refused["code"], 7, "{refused}");
    let call = Client::new()
        .post(format!("{}/{method}", house.origin()))
        .header(header::ORIGIN, house.origin())
        .header(header::COOKIE, &cookie)
        .header(header::CONTENT_TYPE, "application/grpc-web+proto")
        .body(vec![0; 5]);
    let refused = call.send().await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], "7");
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_in_a_socket_until_its_session_ends() {
    let mut house = House::new().await;
    let cookie = house.cookie().await;
    let mut socket = house.watch(&cookie, &house.origin()).await.unwrap();
    let first = next(&mut socket).await;
    let list = ListBoxesResponse::decode(first.into_data()).unwrap();
    assert_eq!(list.boxes, []);
    let left = Client::new()
        .delete(format!("{}/console/session", house.origin()))
        .header(header::ORIGIN, house.origin())
        .header(header::COOKIE, &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(left.status(), StatusCode::NO_CONTENT);
    let ended = next(&mut socket).await;
    let ended: serde_json::Value = serde_json::from_str(ended.to_text().unwrap()).unwrap();
    assert_ne!(ended["code"], 0, "{ended}");
    let mut again = house.watch(&cookie, &house.origin()).await.unwrap();
    let refused = next(&mut again).await;
    let refused: serde_json::Value = serde_json::from_str(refused.to_text().unwrap()).unwrap();
    assert_eq!(refused["code"], 16, "{refused}");
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_has_a_strict_policy_and_hashed_files_stay() {
    let house = House::new().await;
    let page = reqwest::get(house.origin()).await.unwrap();
    assert_eq!(page.status(), StatusCode::OK, "built without the console");
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
    assert!(policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
    let none = reqwest::get(format!("{}/assets/../../etc/passwd", house.origin())).await;
    assert_ne!(none.unwrap().status(), StatusCode::OK);
    house.server.stop().await;
}
