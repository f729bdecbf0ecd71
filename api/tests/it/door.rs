//! The egress door, over real sockets.

mod bounds;
mod requests;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cocoonbox_api::door::{self, Channel, Dialer, DoorServices, Resolver, WebPolicy};
use cocoonbox_api::gateway::{Gateway, GatewayConfig, UsageSink};
use cocoonbox_proto::log::v1::UsageModelCalled;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Nothing here takes a second; a test that waits this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("deadline")
}

/// Every usage record, with the channel that it came by.
#[derive(Debug, Default)]
pub(crate) struct Records {
    seen: Mutex<Vec<(UsageModelCalled, Channel)>>,
    more: Notify,
}

#[async_trait]
impl UsageSink for Records {
    async fn record(&self, usage: UsageModelCalled, channel: &Channel) {
        self.seen.lock().unwrap().push((usage, channel.clone()));
        self.more.notify_waiters();
    }
}

impl Records {
    pub(crate) fn all(&self) -> Vec<(UsageModelCalled, Channel)> {
        self.seen.lock().unwrap().clone()
    }

    async fn at_least(&self, count: usize) {
        within(async {
            loop {
                let more = self.more.notified();
                if self.all().len() >= count {
                    return;
                }
                more.await;
            }
        })
        .await;
    }
}

/// One box's door on loopback.
pub(crate) struct TestDoor {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) records: Arc<Records>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

pub(crate) fn channel() -> Channel {
    Channel {
        user_id: "ada".into(),
        box_id: "box-1".into(),
        wake_id: "wake-1".into(),
    }
}

impl TestDoor {
    pub(crate) async fn open(
        models: GatewayConfig,
        web: WebPolicy,
        shape: impl FnOnce(DoorServices) -> DoorServices,
    ) -> Self {
        let records = Arc::new(Records::default());
        let gateway = Arc::new(Gateway::new(models, records.clone()).unwrap());
        let services = Arc::new(shape(DoorServices::new(gateway.clone(), web, Vec::new())));
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(door::serve(listener, channel(), services, stop.clone()));
        Self {
            address,
            gateway,
            records,
            stop,
            serving,
        }
    }

    async fn allowing(address: SocketAddr) -> Self {
        Self::open(GatewayConfig::default(), allow(address), |services| {
            services
        })
        .await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and returns all that comes back until the door closes.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }

    async fn get(&self, url: &str) -> String {
        self.ask(format!(
            "GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))
        .await
    }

    pub(crate) async fn shut(self) {
        self.stop.cancel();
        within(self.serving).await.unwrap();
    }

    /// Shuts the door and returns every record: no further one can come.
    pub(crate) async fn final_records(self, count: usize) -> Vec<(UsageModelCalled, Channel)> {
        self.records.at_least(count).await;
        let (gateway, records) = (self.gateway.clone(), self.records.clone());
        self.shut().await;
        within(gateway.drained()).await;
        records.all()
    }
}

fn allow(address: SocketAddr) -> WebPolicy {
    WebPolicy {
        allow: vec![(address.ip().to_string(), address.port())],
        ..WebPolicy::default()
    }
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is the door's way to close on a request it did not read.
    let _read = within(stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until what was read ends with `end`.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    within(async {
        while !bytes.ends_with(end.as_bytes()) {
            let byte = stream.read_u8().await;
            bytes.push(byte.unwrap_or_else(|error| {
                panic!("{error} after {}", String::from_utf8_lossy(&bytes))
            }));
        }
    })
    .await;
    String::from_utf8(bytes).unwrap()
}

/// A server made of one function per connection.
pub(crate) async fn origin<F, Fut>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Resolves from a list; the last answer stays.
#[derive(Default)]
struct Answers {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Answers {
    fn of(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self {
            answers: Mutex::new(answers.iter().map(parse).collect()),
            asked: Mutex::default(),
        })
    }
}

#[async_trait]
impl Resolver for Answers {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let next = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        next.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// Notes what it is asked for and connects somewhere else.
struct Elsewhere {
    dialed: Mutex<Vec<SocketAddr>>,
    to: SocketAddr,
}

#[async_trait]
impl Dialer for Elsewhere {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialed.lock().unwrap().push(address);
        TcpStream::connect(self.to).await
    }
}

#[track_caller]
fn assert_refused(answer: &str, status: u16, reason: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(
        head.contains(&format!("x-cocoonbox-reason: {reason}\r\n")),
        "{answer}"
    );
    assert!(body.starts_with("cocoonbox: "), "{answer}");
}

async fn serve_text(mut stream: TcpStream, text: &'static str) {
    read_until(&mut stream, "\r\n\r\n").await;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_spelling() {
    let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), |services| {
        services
    })
    .await;
    for (url, reason) in [
        ("http://127.0.0.1/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://127.1/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://2130706433/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://0x7f000001/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://0177.0.0.1/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://127.0.0.1./", "EGRESS_PRIVATE_ADDRESS"),
        ("http://0/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://[::1]/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://[::]/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://[::ffff:7f00:1]/", "EGRESS_PRIVATE_ADDRESS"),
        (
            "http://[::ffff:169.254.169.254]/latest",
            "EGRESS_PRIVATE_ADDRESS",
        ),
        ("http://[64:ff9b::a00:1]/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://[fe80::1]/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://169.254.169.254/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://10.1.2.3:443/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://localhost/", "EGRESS_PRIVATE_ADDRESS"),
        ("http://LocalHost./", "EGRESS_PRIVATE_ADDRESS"),
        ("http://127.0.0.1:22/", "EGRESS_PORT"),
        ("http://1.1.1.1:25/", "EGRESS_PORT"),
    ] {
        assert_refused(&door.get(url).await, 403, reason);
    }
    assert_refused(
        &door.get("http://good@127.0.0.1/").await,
        400,
        "EGRESS_BAD_TARGET",
    );
    assert_refused(
        &door.get("http://1.2.3.256/").await,
        400,
        "EGRESS_BAD_TARGET",
    );
    // These are not URLs, or not hosts: whoever notices first.
    for host in [
        "a..b",
        "127%2e0.0.1",
        "\u{ff11}27.0.0.1",
        "[::1",
        "[fe80::1%25lo]",
        "127.0.0.1:x",
    ] {
        let answer = door.get(&format!("http://{host}/")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
    }
    for authority in ["127.0.0.1:443", "[::1]:443", "0x7f.1:443"] {
        let answer = door.ask(format!(
            "CONNECT {authority} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ));
        assert_refused(&answer.await, 403, "EGRESS_PRIVATE_ADDRESS");
    }
    door.shut().await;
}

#[tokio::test]
async fn what_is_not_a_proxy_request_is_explained() {
    let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), |services| {
        services
    })
    .await;
    let answer = door.get("/").await;
    assert_refused(&answer, 400, "EGRESS_PROXY_FORM");
    assert!(answer.contains("http_proxy"), "{answer}");
    assert_refused(
        &door.get("https://example.com/").await,
        400,
        "EGRESS_SCHEME",
    );
    assert_refused(&door.get("ftp://example.com/").await, 400, "EGRESS_SCHEME");
    assert_refused(
        &door.get("http://x.cocoonbox/").await,
        502,
        "EGRESS_NO_SUCH_HOST",
    );
    assert_refused(
        &door.get("http://gateway.cocoonbox:8080/healthz").await,
        403,
        "GATEWAY_FORM",
    );
    let connect = "CONNECT gateway.cocoonbox:443 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_refused(&door.ask(connect).await, 403, "GATEWAY_FORM");
    let answer = door.get("http://gateway.cocoonbox/healthz").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok\n"),
        "{answer}"
    );
    door.shut().await;
}

#[tokio::test]
async fn the_web_can_be_switched_off_but_for_what_the_operator_names() {
    let address = origin(|stream| serve_text(stream, "inside")).await;
    let web = WebPolicy {
        enabled: false,
        ..allow(address)
    };
    let door = TestDoor::open(GatewayConfig::default(), web, |services| services).await;
    assert_refused(&door.get("http://example.com/").await, 403, "EGRESS_OFF");
    assert!(
        door.get(&format!("http://{address}/"))
            .await
            .ends_with("inside")
    );
    door.shut().await;
}

#[tokio::test]
async fn one_private_answer_among_public_ones_is_enough() {
    let answers: &[&[&str]] = &[
        &["1.1.1.1", "10.0.0.1"],
        &["2606:4700::1111", "::1"],
        &["127.0.0.1"],
        &["::ffff:192.168.0.1"],
        &[],
    ];
    let resolver = Answers::of(answers);
    let dialer = Arc::new(Elsewhere {
        dialed: Mutex::default(),
        to: LOOPBACK,
    });
    let shape = |services: DoorServices| {
        services
            .with_resolver(resolver.clone())
            .with_dialer(dialer.clone())
    };
    let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), shape).await;
    for _ in 0..4 {
        let answer = door.get("http://both.example/").await;
        assert_refused(&answer, 403, "EGRESS_PRIVATE_ADDRESS");
    }
    assert_refused(
        &door.get("http://both.example/").await,
        502,
        "EGRESS_NO_SUCH_HOST",
    );
    assert!(dialer.dialed.lock().unwrap().is_empty());
    door.shut().await;
}

#[tokio::test]
async fn a_name_that_changes_its_answer_gains_nothing() {
    let secret = origin(|stream| serve_text(stream, "secret")).await;
    let resolver = Answers::of(&[&["1.1.1.1"], &["127.0.0.1"]]);
    let dialer = Arc::new(Elsewhere {
        dialed: Mutex::default(),
        to: secret,
    });
    let shape = |services: DoorServices| {
        services
            .with_resolver(resolver.clone())
            .with_dialer(dialer.clone())
    };
    let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), shape).await;
    // The socket ends up on loopback although a public address was dialed: the peer is looked at again.
    let answer = door.get("http://rebind.example/").await;
    assert_refused(&answer, 403, "EGRESS_PRIVATE_ADDRESS");
    assert!(!answer.contains("secret"));
    // Asked once, and what was checked is what was dialed.
    assert_eq!(*resolver.asked.lock().unwrap(), ["rebind.example"]);
    assert_eq!(
        *dialer.dialed.lock().unwrap(),
        ["1.1.1.1:80".parse().unwrap()]
    );
    assert_refused(
        &door.get("http://rebind.example/").await,
        403,
        "EGRESS_PRIVATE_ADDRESS",
    );
    assert_eq!(
        dialer.dialed.lock().unwrap().len(),
        1,
        "the second answer was never dialed"
    );
    door.shut().await;
}

#[tokio::test]
async fn the_apis_own_addresses_are_refused_even_if_named() {
    let api = origin(|stream| serve_text(stream, "api")).await;
    for own in [api, SocketAddr::from(([0, 0, 0, 0], api.port()))] {
        let records: Arc<Records> = Arc::default();
        let gateway = Arc::new(Gateway::new(GatewayConfig::default(), records).unwrap());
        let shape = |_| DoorServices::new(gateway, allow(api), vec![own]);
        let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), shape).await;
        let answer = door.get(&format!("http://{api}/")).await;
        assert_refused(&answer, 403, "EGRESS_PRIVATE_ADDRESS");
        door.shut().await;
    }
}
