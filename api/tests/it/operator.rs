//! What the operator is told by a real server: metrics, the condition of the views, rebuilds.

use std::path::Path;

use axum::body::Bytes;
use cocoonbox_api::{
    Config, Server,
    config::{File, Fleet},
    gateway::GatewayConfig,
};
use cocoonbox_proto::control::v1::{
    AccountEventsRequest, BootstrapRequest, ConditionRequest, RebuildViewRequest,
    operator_client::OperatorClient, users_client::UsersClient,
};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixStream};
use tonic::{Code, Request, transport::Channel};

async fn server(dir: &TempDir) -> Server {
    let data = dir.path().join("data");
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        fleet: Fleet::embedded(&data),
        image: dir.path().join("core.erofs"),
        agent: dir.path().join("agent"),
        file: File {
            metrics: Some("127.0.0.1:0".parse().unwrap()),
            ..File::default()
        },
        gateway: GatewayConfig::default(),
        models: None,
        data,
    };
    Server::start(config).await.unwrap()
}

async fn over_socket(dir: &TempDir) -> Channel {
    let socket = dir.path().join("data/run/api.sock");
    let address = format!("unix:{}", socket.display());
    tonic::transport::Endpoint::from_shared(address)
        .unwrap()
        .connect()
        .await
        .unwrap()
}

async fn get(stream: impl Into<Either>, path: &str) -> (u16, String) {
    let (mut sender, connection) = match stream.into() {
        Either::Tcp(stream) => {
            let (sender, connection) = handshake(stream).await;
            (sender, tokio::spawn(connection))
        }
        Either::Unix(stream) => {
            let (sender, connection) = handshake(stream).await;
            (sender, tokio::spawn(connection))
        }
    };
    let request = hyper::Request::get(path)
        .header("host", "cocoonbox")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

enum Either {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<TcpStream> for Either {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<UnixStream> for Either {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

async fn handshake<S>(
    stream: S,
) -> (
    hyper::client::conn::http1::SendRequest<Empty<Bytes>>,
    impl Future<Output = ()> + Send + 'static,
)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    (sender, async move { drop(connection.await) })
}

/// The value of a metric, by its whole name with labels.
fn value(text: &str, name: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no `{name}` in\n{text}"));
    line.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_is_scraped_asked_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir).await;
    let channel = over_socket(&dir).await;
    let mut users = UsersClient::new(channel.clone());
    let boot = BootstrapRequest {
        name: "ann".to_owned(),
        label: "test".to_owned(),
    };
    let issued = users.bootstrap(boot).await.unwrap().into_inner();

    // A stream that is open while it is scraped.
    let tcp = Channel::from_shared(format!("http://{}", server.listen)).unwrap();
    let tcp = tcp.connect().await.unwrap();
    let mut call = Request::new(AccountEventsRequest::default());
    let bearer = format!("Bearer {}", issued.token);
    call.metadata_mut()
        .insert("authorization", bearer.parse().unwrap());
    let mut events = UsersClient::new(tcp.clone())
        .events(call)
        .await
        .unwrap()
        .into_inner();
    let mut seen = 0;
    while seen < 2 {
        seen += usize::from(events.message().await.unwrap().is_some());
    }

    // On the listener of their own and on the operator's socket, never on the public port.
    let own = TcpStream::connect(server.metrics.unwrap()).await.unwrap();
    let (status, text) = get(own, "/metrics").await;
    assert_eq!(status, 200);
    let unix = |dir: &TempDir| UnixStream::connect(dir.path().join("data/run/api.sock"));
    assert_eq!(get(unix(&dir).await.unwrap(), "/metrics").await.0, 200);
    let public = TcpStream::connect(server.listen).await.unwrap();
    let (status, refused) = get(public, "/metrics").await;
    assert_eq!(status, 415, "{refused}");
    let own = TcpStream::connect(server.metrics.unwrap()).await.unwrap();
    assert_eq!(get(own, "/").await.0, 404);

    assert!(value(&text, "cocoonbox_log_appends_total{outcome=\"committed\"}") >= 3.0);
    let count = value(&text, "cocoonbox_log_append_seconds_count");
    assert!(value(&text, "cocoonbox_log_append_seconds_bucket{le=\"+Inf\"}") >= count);
    assert!(count >= 3.0 && value(&text, "cocoonbox_log_append_events_sum") >= 3.0);
    assert!(value(&text, "cocoonbox_streams_open") >= 1.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    assert!(value(&text, "cocoonbox_checkpoints_alarm") < 0.1);
    assert!(value(&text, "cocoonbox_checkpoints_failing") < 0.1);
    // One process with a folder has neither a database nor leases.
    assert!(!text.contains("\ncocoonbox_store_") && !text.contains("\ncocoonbox_leases_"));
    assert!(value(&text, "cocoonbox_database_bytes{file=\"log.db\"}") > 0.0);
    for name in [
        "boxes",
        "operations",
        "transcript",
        "desktops",
        "snapshots",
        "audit",
        "usage",
    ] {
        let of = |metric: &str| {
            value(
                &text,
                &format!("cocoonbox_views_{metric}{{projection=\"{name}\"}}"),
            )
        };
        assert!(
            (of("answer") - 1.0).abs() < 0.1 && of("stopped_logs") < 0.1,
            "{name}"
        );
        assert!(of("lag_seconds") < 60.0, "{name}");
    }
    // No label names a user, a box or a log.
    let (user, log) = (issued.user.unwrap().id, issued.offset_key);
    assert!(!text.contains(&user) && !text.contains(&log[..16]));

    condition_and_rebuild(channel, tcp, &issued.token).await;
    server.stop().await;
    assert!(!Path::new(&dir.path().join("data/run/api.pid")).exists());
}

async fn condition_and_rebuild(socket: Channel, public: Channel, token: &str) {
    let mut operator = OperatorClient::new(socket);
    let condition = operator
        .condition(ConditionRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(condition.views.len(), 9);
    assert!(
        condition
            .views
            .iter()
            .all(|view| view.answers && view.stopped.is_empty())
    );
    assert!(
        condition
            .logs
            .iter()
            .any(|total| total.kind == "account" && total.events >= 2)
    );
    let newest = condition
        .logs
        .iter()
        .map(|total| total.newest_at_ms)
        .max()
        .unwrap();
    assert!(newest > 0 && newest <= condition.now_ms);
    let checkpoints = condition.checkpoints.unwrap();
    assert_eq!((checkpoints.fault, checkpoints.failed), (String::new(), 0));
    assert!(condition.database.is_none() && condition.leases.is_none());

    let call = RebuildViewRequest {
        name: "audit".to_owned(),
    };
    let mut told = operator.rebuild_view(call).await.unwrap().into_inner();
    let rebuilt = loop {
        let message = told.message().await.unwrap().unwrap();
        if let Some(rebuilt) = message.rebuilt {
            break rebuilt;
        }
    };
    assert!(
        rebuilt.compared && rebuilt.rows >= 2 && rebuilt.differing == 0,
        "{rebuilt:?}"
    );
    assert!(told.message().await.unwrap().is_none());
    let unknown = RebuildViewRequest {
        name: "nothing".to_owned(),
    };
    let refused = operator.rebuild_view(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);

    // An admin's token is not the operator.
    let mut call = Request::new(ConditionRequest {});
    let bearer = format!("Bearer {token}");
    call.metadata_mut()
        .insert("authorization", bearer.parse().unwrap());
    let refused = OperatorClient::new(public)
        .condition(call)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}
