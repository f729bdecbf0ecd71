//! What passes of a request and its answer.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};

use super::{TestDoor, origin, read_all, read_until, within};

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
