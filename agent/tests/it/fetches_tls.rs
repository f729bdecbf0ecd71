//! Pages over https: a tunnel through the door, and the certificates that the box trusts.

use std::{net::SocketAddr, path::Path, process::Stdio};

use cocoonbox_proto::toolhost::v1::{FetchRequest, FileResponse};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::{certificates::certificates, execs::NO_MODEL, files::Host, world::World};

const HOST: &str = "secure.example";

const SITE: &str = r#"
import http.server, ssl, sys
class Site(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        body = b"over tls"
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.HTTPServer(("127.0.0.1", 0), Site)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

async fn site(folder: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new("python3")
        .args(["-c", SITE, "site.pem", "site.key"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a site");
    let stdout = child.stdout.take().expect("a pipe");
    let port = BufReader::new(stdout).lines().next_line().await;
    let port = port.expect("readable").expect("a port");
    let port: u16 = port.parse().expect("a number");
    (child, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// A door that knows tunnels, and one place that they lead to.
async fn tunnel(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.expect("a request"));
                }
                let asked = format!("CONNECT {HOST}:443 HTTP/1.1\r\n");
                assert!(head.starts_with(asked.as_bytes()), "{head:?}");
                let mut site = TcpStream::connect(to).await.expect("the site");
                let is_open = stream.write_all(b"HTTP/1.1 200 open\r\n\r\n").await;
                is_open.expect("an answer");
                copy_bidirectional(&mut stream, &mut site).await.ok();
            });
        }
    });
    address
}

async fn fetch(host: &mut Host) -> FileResponse {
    let request = FetchRequest {
        url: format!("https://{HOST}/"),
        offset: 0,
    };
    let answer = host.client.fetch(request).await;
    answer.expect("an answer").into_inner()
}

#[tokio::test]
async fn what_is_vouched_for_is_fetched_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path(), &format!("DNS:{HOST}"));
    let (_site, address) = site(folder.path()).await;
    let door = tunnel(address).await;

    let mut world = World::dark("anthropic", NO_MODEL).await;
    world.start_toolhost_trusting(&folder.path().join("authority.pem"), door);
    let mut host = Host::of(world).await;
    let page = fetch(&mut host).await;
    assert!(page.ok && page.text.ends_with("over tls"), "{}", page.text);

    let mut world = World::dark("anthropic", NO_MODEL).await;
    world.start_toolhost_behind(door);
    let mut host = Host::of(world).await;
    let refused = fetch(&mut host).await;
    assert!(
        !refused.ok && refused.text.contains("could not be fetched"),
        "{}",
        refused.text
    );
}
