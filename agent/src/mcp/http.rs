//! A server elsewhere, over Streamable HTTP and through the door.

use std::{collections::BTreeMap, net::SocketAddr, sync::OnceLock, time::Duration};

use http::{HeaderName, HeaderValue};
use reqwest::{Client, Proxy, Url, redirect::Policy};
use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};

use super::stdio::MESSAGE_BYTES_MAX;

const CONNECT_MAX: Duration = Duration::from_secs(15);
/// Of an error's text.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// The way out, made when the first server needs it.
#[derive(Debug)]
pub(super) struct Outside {
    door: SocketAddr,
    client: OnceLock<Result<Client, String>>,
}

impl Outside {
    pub(super) fn new(door: SocketAddr) -> Self {
        let client = OnceLock::new();
        Self { door, client }
    }

    pub(super) fn transport(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
    ) -> Result<StreamableHttpClientTransport<Client>, String> {
        let client = self.client.get_or_init(|| client(self.door)).clone()?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.max_json_response_size = MESSAGE_BYTES_MAX;
        config.max_sse_event_size = MESSAGE_BYTES_MAX;
        config.max_error_response_size = ERROR_BYTES_MAX;
        for (name, value) in headers {
            let bad = || format!("the header `{name}` is not one");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let value = HeaderValue::from_str(value).map_err(|_| bad())?;
            config.custom_headers.insert(key, value);
        }
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }
}

fn client(door: SocketAddr) -> Result<Client, String> {
    // Another one that is installed already is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let door = format!("http://{door}");
    let proxy = Proxy::custom(move |url| (!is_in_the_box(url)).then(|| door.clone()));
    Client::builder()
        .proxy(proxy)
        .connect_timeout(CONNECT_MAX)
        // Where the user sends us is where we go, and nowhere that a server sends us.
        .redirect(Policy::none())
        .build()
        .map_err(|error| format!("no way out: {error}"))
}

/// A server that runs in the box itself is not behind the door.
fn is_in_the_box(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}
