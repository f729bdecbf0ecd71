//! The way to an api: address, channel, token, metadata.

use std::{fmt, path::Path, str::FromStr, time::Duration};

use cocoonbox_proto::{
    agent::v1::{
        agents_client::AgentsClient, control_client::ControlClient, session_client::SessionClient,
    },
    control::v1::{
        boxes_client::BoxesClient, budgets_client::BudgetsClient, capsule_client::CapsuleClient,
        checkpoints_client::CheckpointsClient, erasure_client::ErasureClient,
        routines_client::RoutinesClient, shares_client::SharesClient, users_client::UsersClient,
    },
};
use tonic::{
    Code, Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::{
    credentials::Secret,
    exit::Exit,
    failure::{Failure, chain},
};

/// Longer than any honest answer to a single call; `Send` to a box may include its wake.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone without a word is noticed after interval + time-out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// An append is 1 MiB; a page of a transcript may hold several.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A call that may be repeated is made this often, with growing pauses between.
const ATTEMPTS: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// A server may ask for more patience than a person at a prompt has.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Where an api answers: `http://HOST:PORT` or `unix:/path/to/socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    pub fn unix(path: &Path) -> Self {
        Self(format!("unix:{}", path.display()))
    }

    /// `HOST:PORT` for the api's `--listen`; `None` for a socket.
    pub fn host_port(&self) -> Option<&str> {
        self.0.strip_prefix("http://")
    }

    /// Whether what is sent stays on this host.
    pub fn is_local(&self) -> bool {
        self.host_port().is_none_or(|address| {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost"
                || host
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| ip.is_loopback())
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim_end_matches('/');
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.starts_with('/') {
                Ok(Self(format!("unix:{path}")))
            } else {
                Err("a socket's path must be absolute: unix:/path/to/api.sock".into())
            };
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(
                "an address is http://HOST:PORT or unix:/PATH (for TLS use a tunnel)".into(),
            );
        };
        let plain = !rest.is_empty()
            && !rest.contains(['/', '?', '#', '@'])
            && !rest.contains(char::is_whitespace);
        if plain {
            Ok(Self(format!("http://{rest}")))
        } else {
            Err(format!("`{text}` has no host or too much behind it"))
        }
    }
}

/// Adds who is calling and for which box to every call.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    authorization: Option<MetadataValue<Ascii>>,
    box_id: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(value) = &self.authorization {
            metadata.insert("authorization", value.clone());
        }
        if let Some(value) = &self.box_id {
            metadata.insert("box_id", value.clone());
        }
        Ok(request)
    }
}

pub type Wire = InterceptedService<Channel, Caller>;
pub type Session = SessionClient<Wire>;
pub type Control = ControlClient<Wire>;

/// A connection to one api, as one user.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    channel: Channel,
    caller: Caller,
}

impl Client {
    /// Connects; says how to start an api where none answers.
    pub async fn connect(address: &Address, token: Option<&Secret>) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(address.to_string())
            .map_err(|error| Failure::usage(format!("address `{address}`: {}", chain(&error))))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(|error| {
            // The outermost error says only that it is one of the transport.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), chain);
            Failure::new(
                Exit::Unavailable,
                format!("no api answers at {address} ({why})"),
            )
            .advise(
                "`cocoonbox up` starts one on this host; `--api` or COCOONBOX_API names another",
            )
        })?;
        let mut caller = Caller::default();
        if let Some(token) = token {
            let mut value: MetadataValue<Ascii> =
                format!("Bearer {}", token.expose()).parse().map_err(|_| {
                    Failure::new(Exit::Refused, "the token has characters that no token has")
                })?;
            value.set_sensitive(true);
            caller.authorization = Some(value);
        }
        Ok(Self {
            address: address.clone(),
            channel,
            caller,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The connection without a token, for calls of the operator.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn boxes(&self) -> BoxesClient<Wire> {
        BoxesClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn users(&self) -> UsersClient<Wire> {
        UsersClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn budgets(&self) -> BudgetsClient<Wire> {
        BudgetsClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn routines(&self) -> RoutinesClient<Wire> {
        RoutinesClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn shares(&self) -> SharesClient<Wire> {
        SharesClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn capsule(&self) -> CapsuleClient<Wire> {
        CapsuleClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn checkpoints(&self) -> CheckpointsClient<Wire> {
        CheckpointsClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn erasure(&self) -> ErasureClient<Wire> {
        ErasureClient::with_interceptor(self.channel.clone(), self.caller.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn control(&self, box_id: &str) -> Result<Control, Failure> {
        Ok(ControlClient::with_interceptor(
            self.channel.clone(),
            self.caller_for(box_id)?,
        ))
    }

    pub fn session(&self, box_id: &str) -> Result<Session, Failure> {
        Ok(
            SessionClient::with_interceptor(self.channel.clone(), self.caller_for(box_id)?)
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
        )
    }

    pub fn agents(&self, box_id: &str) -> Result<AgentsClient<Wire>, Failure> {
        Ok(
            AgentsClient::with_interceptor(self.channel.clone(), self.caller_for(box_id)?)
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
        )
    }

    /// Whether the api says that it serves.
    pub async fn is_healthy(&self) -> Result<bool, Failure> {
        let mut health = HealthClient::new(self.channel.clone());
        let answer = health
            .check(request(HealthCheckRequest {
                service: String::new(),
            }))
            .await?;
        Ok(answer.into_inner().status() == ServingStatus::Serving)
    }

    fn caller_for(&self, box_id: &str) -> Result<Caller, Failure> {
        let value = box_id.parse().map_err(|_| {
            Failure::usage(format!("`{}` is not a box id", box_id.escape_default()))
        })?;
        Ok(Caller {
            box_id: Some(value),
            ..self.caller.clone()
        })
    }
}

/// A single call with a deadline. Streams are made without: they live as long as they live.
pub fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

/// Makes a call that may be repeated (it reads, or carries its own id) until it is answered.
pub async fn repeat<T, F, Answer>(mut call: F) -> Result<T, Failure>
where
    F: FnMut() -> Answer,
    Answer: Future<Output = Result<Response<T>, Status>>,
{
    let mut pause = RETRY_PAUSE;
    let mut attempt = 1;
    loop {
        let status = match call().await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        if attempt == ATTEMPTS || !is_passing(&status) {
            return Err(status.into());
        }
        let asked = status
            .get_details_retry_info()
            .and_then(|info| info.retry_delay);
        tokio::time::sleep(asked.unwrap_or(pause).min(RETRY_PAUSE_MAX)).await;
        pause *= 2;
        attempt += 1;
    }
}

/// Whether the same call may be answered a moment later.
fn is_passing(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Aborted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_brought_to_one_form() {
        let parsed = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        assert_eq!(
            parsed("http://127.0.0.1:8750/"),
            Ok("http://127.0.0.1:8750".into())
        );
        assert_eq!(
            parsed("unix:///run/api.sock"),
            Ok("unix:/run/api.sock".into())
        );
        assert!(parsed("https://example.org").is_err());
        assert!(parsed("http://user:pass@host").is_err());
        assert!(parsed("unix:relative").is_err());
        assert!(parsed("http://").is_err());
    }

    #[test]
    fn only_loopback_is_local() {
        let local = |text: &str| text.parse::<Address>().is_ok_and(|a| a.is_local());
        assert!(local("http://127.0.0.1:8750"));
        assert!(local("http://[::1]:8750"));
        assert!(local("http://localhost:1"));
        assert!(local("unix:/a"));
        assert!(!local("http://10.0.0.1:8750"));
        assert!(!local("http://127.example.org:1"));
    }
}
