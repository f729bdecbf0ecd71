//! The egress door, over real sockets.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cocoonbox_api::door::{self, Channel, Dialer, DoorLimits, DoorServices, Resolver, WebPolicy};
use cocoonbox_api::gateway::{Gateway, GatewayConfig, UsageSink};
use cocoonbox_proto::log::v1::UsageModelCalled;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
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
        // The first test in the process wins; all install the same.
        drop(rustls::crypto::ring::default_provider().install_default());
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
        drop(rustls::crypto::ring::default_provider().install_default());
        let gateway = Arc::new(Gateway::new(GatewayConfig::default(), records).unwrap());
        let shape = |_| DoorServices::new(gateway, allow(api), vec![own]);
        let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), shape).await;
        let answer = door.get(&format!("http://{api}/")).await;
        assert_refused(&answer, 403, "EGRESS_PRIVATE_ADDRESS");
        door.shut().await;
    }
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
async fn a_request_is_readdressed_and_only_the_message_passes() {
    let (seen, mut requests) = mpsc::channel(1);
    let address = origin(move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut request = read_until(&mut stream, "\r\n\r\n").await;
            request.push_str(&read_until(&mut stream, "hello").await);
            seen.send(request).await.unwrap();
            let answer = "HTTP/1.1 201 Made\r\nset-cookie: a=b\r\nconnection: x-hop\r\nx-hop: 1\r\n\
                          proxy-authenticate: Basic\r\nx-cocoonbox-reason: LIE\r\n\
                          content-length: 2\r\n\r\nok";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let answer = door
        .ask(format!(
            "POST http://{address}/a?b=c HTTP/1.1\r\nhost: other.example\r\nproxy-authorization: x\r\n\
             proxy-connection: keep-alive\r\nx-hop: 1\r\nx-keep: 1\r\nauthorization: own\r\n\
             x-cocoonbox-user: root\r\nconnection: close, x-hop\r\ncontent-length: 5\r\n\r\nhello"
        ))
        .await;
    let request = within(requests.recv()).await.unwrap().to_ascii_lowercase();
    assert!(request.starts_with("post /a?b=c http/1.1\r\n"), "{request}");
    assert!(
        request.contains(&format!("\r\nhost: {address}\r\n")),
        "{request}"
    );
    for kept in ["x-keep: 1", "authorization: own", "content-length: 5"] {
        assert!(request.contains(&format!("\r\n{kept}\r\n")), "{request}");
    }
    for gone in [
        "proxy-",
        "x-hop",
        "x-cocoonbox",
        "other.example",
        "transfer-encoding",
    ] {
        assert!(!request.contains(gone), "{request}");
    }
    assert!(
        answer.starts_with("HTTP/1.1 201 ") && answer.ends_with("\r\n\r\nok"),
        "{answer}"
    );
    assert!(answer.contains("set-cookie: a=b"), "{answer}");
    for gone in ["x-hop", "proxy-", "LIE"] {
        assert!(!answer.contains(gone), "{answer}");
    }
    door.shut().await;
}

#[tokio::test]
async fn two_framings_never_become_two_requests() {
    let (seen, mut requests) = mpsc::channel(8);
    let address = origin(move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut request = read_until(&mut stream, "\r\n\r\n").await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            let _closed = stream.read_to_string(&mut request).await;
            seen.send(request).await.unwrap();
        }
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let hidden = format!("GET http://{address}/hidden HTTP/1.1\r\nhost: x\r\n\r\n");
    let smuggle = format!(
        "POST http://{address}/ HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n\
         0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    let mut stream = door.connect().await;
    stream.write_all(smuggle.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    read_all(&mut stream).await;
    door.shut().await;
    while let Ok(request) = requests.try_recv() {
        let request = request.to_ascii_lowercase();
        let both = request.contains("content-length") && request.contains("transfer-encoding");
        assert!(
            !both && request.matches("http/1.1").count() <= 1,
            "{request}"
        );
    }
}

#[tokio::test]
async fn an_answer_streams_and_a_cut_stays_a_cut() {
    let (go, gate) = oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    let address = origin(move |mut stream| {
        let gate = gate.lock().unwrap().take();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            if let Some(gate) = gate {
                gate.await.unwrap();
                stream.write_all(b"6\r\nsecond\r\n").await.unwrap();
            }
        }
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let mut stream = door.connect().await;
    let request = format!("GET http://{address}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, "first\r\n").await;
    go.send(()).unwrap();
    let rest = read_all(&mut stream).await;
    assert_eq!(
        rest, "6\r\nsecond\r\n",
        "no last chunk: the answer is not whole"
    );

    // An answer that HTTP/1.0 ends by closing is broken by a reset instead.
    let mut stream = door.connect().await;
    let request = format!("GET http://{address}/ HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = within(stream.read_to_end(&mut bytes)).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    door.shut().await;
}

async fn tunnel(door: &TestDoor, address: SocketAddr) -> TcpStream {
    let mut stream = door.connect().await;
    let request = format!("CONNECT {address} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        !head.contains("content-length") && !head.contains("transfer-encoding"),
        "{head}"
    );
    stream
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_half_closes() {
    let address = origin(|mut stream| async move {
        stream.write_all(b"hello ").await.unwrap();
        let mut all = Vec::new();
        // Answers only to what has an end: without the half-close this waits for ever.
        stream.read_to_end(&mut all).await.unwrap();
        stream
            .write_all(all.len().to_string().as_bytes())
            .await
            .unwrap();
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let mut stream = tunnel(&door, address).await;
    read_until(&mut stream, "hello ").await;
    let megabyte = vec![7_u8; 1 << 20];
    within(stream.write_all(&megabyte)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(read_all(&mut stream).await, (1 << 20).to_string());

    // Bytes that came together with the request are not lost.
    let mut stream = door.connect().await;
    let early = format!("CONNECT {address} HTTP/1.1\r\nhost: x\r\n\r\nearly");
    stream.write_all(early.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(read_all(&mut stream).await.ends_with("\r\n\r\nhello 5"));
    door.shut().await;
}

#[tokio::test]
async fn a_reset_passes_through_a_tunnel() {
    let address = origin(|mut stream| async move {
        stream.read_u8().await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let mut stream = tunnel(&door, address).await;
    stream.write_all(b"x").await.unwrap();
    let mut bytes = Vec::new();
    let read = within(stream.read_to_end(&mut bytes)).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    door.shut().await;
}

#[tokio::test]
async fn silence_ends_tunnels_requests_and_slow_heads() {
    let address = origin(|mut stream| async move {
        let _closed = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let limits = DoorLimits {
        idle: Duration::from_millis(150),
        header: Duration::from_millis(150),
        ..DoorLimits::default()
    };
    let shape = |services: DoorServices| services.with_limits(limits);
    let door = TestDoor::open(GatewayConfig::default(), allow(address), shape).await;
    let mut stream = tunnel(&door, address).await;
    assert_eq!(read_all(&mut stream).await, "");
    let answer = door.get(&format!("http://{address}/")).await;
    assert_refused(&answer, 504, "EGRESS_TIMEOUT");
    let answer = door
        .ask("GET http://example.com/ HTTP/1.1\r\nx-slow: ")
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408 "),
        "{answer}"
    );
    door.shut().await;
}

#[tokio::test]
async fn a_box_gets_its_share_of_connections_and_no_more() {
    let address = origin(|mut stream| async move {
        let _closed = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let limits = DoorLimits {
        connections: 2,
        ..DoorLimits::default()
    };
    let shape = |services: DoorServices| services.with_limits(limits);
    let door = TestDoor::open(GatewayConfig::default(), allow(address), shape).await;
    let first = tunnel(&door, address).await;
    let _second = tunnel(&door, address).await;
    let health = "http://gateway.cocoonbox/healthz";
    assert_refused(&door.get(health).await, 503, "EGRESS_BUSY");
    drop(first);
    within(async {
        while !door.get(health).await.starts_with("HTTP/1.1 200 ") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    door.shut().await;
}

#[tokio::test]
async fn heads_are_bounded() {
    let door = TestDoor::open(GatewayConfig::default(), WebPolicy::default(), |services| {
        services
    })
    .await;
    let long = "x".repeat(100 << 10);
    for head in [format!("x-long: {long}\r\n"), "a: b\r\n".repeat(200)] {
        let answer = door.ask(format!(
            "GET http://gateway.cocoonbox/healthz HTTP/1.1\r\nconnection: close\r\n{head}\r\n"
        ));
        let answer = answer.await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
    }
    assert!(
        door.get("http://gateway.cocoonbox/healthz")
            .await
            .ends_with("ok\n")
    );
    door.shut().await;
}

#[tokio::test]
async fn a_door_that_is_shut_leaves_nothing_open() {
    let address = origin(|mut stream| async move {
        let _closed = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let at = door.address;
    let mut tunnel = tunnel(&door, address).await;
    let mut idle = door.connect().await;
    door.shut().await;
    assert_eq!(read_all(&mut tunnel).await, "");
    assert_eq!(read_all(&mut idle).await, "");
    assert!(TcpStream::connect(at).await.is_err());
}

#[tokio::test]
async fn a_box_that_does_not_read_costs_a_buffer_and_no_more() {
    const OFFERED: usize = 64 << 20;
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let address = origin(move |mut stream| {
        let taken = count.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {OFFERED}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let piece = vec![0; 64 << 10];
            while stream.write_all(&piece).await.is_ok() {
                taken.fetch_add(piece.len(), Ordering::SeqCst);
            }
        }
    })
    .await;
    let door = TestDoor::allowing(address).await;
    let mut plain = door.connect().await;
    let request = format!("GET http://{address}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut tunnelled = tunnel(&door, address).await;
    tunnelled
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    // Until the origin has been stuck for a while. What the kernel's own buffers hold is a few MiB each.
    let mut before = 0;
    within(async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let taken = taken.load(Ordering::SeqCst);
            if taken > 0 && taken == before {
                return;
            }
            before = taken;
        }
    })
    .await;
    assert!(
        before < OFFERED,
        "{before} bytes went to someone who reads none"
    );
    // It was only waiting.
    let mut head = [0; 1 << 10];
    within(plain.read_exact(&mut head)).await.unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200 "));
    door.shut().await;
}
