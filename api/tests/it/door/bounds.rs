//! Tunnels, and what a box may take: connections, time, memory.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cocoonbox_api::door::{DoorLimits, DoorServices, WebPolicy};
use cocoonbox_api::gateway::GatewayConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{TestDoor, allow, assert_refused, origin, read_all, read_until, within};

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
