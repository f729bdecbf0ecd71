//! A door without rules: takes the gateway's absolute addresses and asks the model server.

use std::{convert::Infallible, net::SocketAddr};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Method, Request, Response, body::Incoming, client::conn::http1 as client,
    server::conn::http1 as server, service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

type Answer = Response<http_body_util::combinators::BoxBody<bytes::Bytes, hyper::Error>>;

pub(crate) struct Door {
    pub(crate) addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Door {
    pub(crate) async fn to(model: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(async move {
                    let service = service_fn(move |request| forward(model, request));
                    server::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades()
                        .await
                        .ok();
                });
            }
        });
        Self { addr, task }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Servers elsewhere, to tests: `port-N.test`, or `port-N.anything.test`, is this machine's port N.
fn elsewhere(request: &Request<Incoming>) -> Option<SocketAddr> {
    let host = request.uri().host()?.strip_prefix("port-")?;
    let (port, rest) = host.split_once('.')?;
    let is_test = rest.rsplit('.').next() == Some("test");
    let port = port.parse::<u16>().ok().filter(|_| is_test)?;
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

async fn forward(model: SocketAddr, mut request: Request<Incoming>) -> Result<Answer, Infallible> {
    if let Some(to) = elsewhere(&request) {
        if request.method() == Method::CONNECT {
            tokio::spawn(tunnel(to, request));
            return Ok(Response::new(
                Empty::new().map_err(|never| match never {}).boxed(),
            ));
        }
        *request.uri_mut() = request.uri().path().parse().expect("a path");
        return pass(to, request).await;
    }
    assert_eq!(
        request.uri().host(),
        Some("gateway.cocoonbox"),
        "absolute form"
    );
    assert!(request.headers().contains_key("x-cocoonbox-call"));
    let path = request.uri().path().to_owned();
    let path = path
        .trim_start_matches("/anthropic")
        .trim_start_matches("/openai");
    *request.uri_mut() = path.parse().expect("a path");
    request
        .headers_mut()
        .insert("x-api-key", "k".parse().expect("a value"));
    request
        .headers_mut()
        .insert("authorization", "Bearer k".parse().expect("a value"));
    pass(model, request).await
}

async fn tunnel(to: SocketAddr, request: Request<Incoming>) {
    let client = hyper::upgrade::on(request).await.expect("a tunnel");
    let mut server = TcpStream::connect(to).await.expect("the server");
    copy_bidirectional(&mut TokioIo::new(client), &mut server)
        .await
        .ok();
}

async fn pass(to: SocketAddr, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let stream = TcpStream::connect(to).await.expect("the model");
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.expect("http");
    tokio::spawn(connection);
    match sender.send_request(request).await {
        Ok(response) => Ok(response.map(BodyExt::boxed)),
        Err(error) => panic!("the model did not answer: {error}"),
    }
}
