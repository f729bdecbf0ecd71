//! A server of pages, each by its path.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};

pub(super) struct Pages {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Pages {
    /// Shows these pages, by path. What a name cannot be in the text is filled in: `$OTHER` is this server as
    /// another site.
    pub(super) async fn serve(pages: &'static [(&'static str, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let service = service_fn(move |request| async move {
                        Ok::<_, Infallible>(answer(pages, addr, &request))
                    });
                    let connection = http1::Builder::new();
                    connection
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                        .ok();
                });
            }
        });
        Self { addr, task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.addr.port())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(
    pages: &[(&str, &str)],
    addr: SocketAddr,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let found = pages.iter().find(|(known, _)| *known == path);
    let Some((_, body)) = found else {
        let response = Response::builder().status(404).body(Full::from("nothing"));
        return response.expect("a response");
    };
    let body = body
        .replace("$OTHER", &format!("http://localhost:{}", addr.port()))
        .replace("$SELF", &format!("http://127.0.0.1:{}", addr.port()));
    let response = if path.starts_with("/download") {
        Response::builder()
            .header("content-type", "application/octet-stream")
            .header(
                "content-disposition",
                "attachment; filename=\"../../.ssh/authorized_keys\"",
            )
    } else {
        Response::builder().header("content-type", "text/html; charset=utf-8")
    };
    response.body(Full::from(body)).expect("a response")
}
