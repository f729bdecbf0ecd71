//! Every "no" of the door: a status, a reason for programs and a sentence for people.

use http::{HeaderValue, Response, StatusCode};

use super::body::{Body, text};
use super::target::BadTarget;

/// Says in one word why an answer is the door's own and not the destination's.
pub const REASON_HEADER: &str = "x-cocoonbox-reason";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "this is a forward proxy: set http_proxy and https_proxy to this address and ask for whole \
         URLs (`GET http://host/path`) or `CONNECT host:443`"
    )]
    OriginForm,
    #[error("`https` needs a tunnel: send `CONNECT host:443`")]
    UseConnect,
    #[error("only `http` URLs and CONNECT are served")]
    Scheme,
    #[error("the destination cannot be read: {0}")]
    BadTarget(#[from] BadTarget),
    #[error("the gateway speaks plain http on port 80: no CONNECT, no other port")]
    GatewayForm,
    #[error("web access is switched off on this installation")]
    Off,
    #[error("port {0} is not open to boxes: only 80 and 443 are")]
    Port(u16),
    #[error("`{0}` is or resolves to an address that is not on the public internet")]
    PrivateAddress(String),
    #[error("no such host: `{0}`")]
    NoSuchHost(String),
    #[error("`{0}` does not answer properly")]
    Unreachable(String),
    #[error("`{0}` did not answer in time")]
    Timeout(String),
    #[error(
        "this box has {0} connections open, which is all it may have: close some and try again"
    )]
    Busy(usize),
}

impl Refusal {
    /// Returns the word in [`REASON_HEADER`].
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::OriginForm => "EGRESS_PROXY_FORM",
            Self::UseConnect | Self::Scheme => "EGRESS_SCHEME",
            Self::BadTarget(_) => "EGRESS_BAD_TARGET",
            Self::GatewayForm => "GATEWAY_FORM",
            Self::Off => "EGRESS_OFF",
            Self::Port(_) => "EGRESS_PORT",
            Self::PrivateAddress(_) => "EGRESS_PRIVATE_ADDRESS",
            Self::NoSuchHost(_) => "EGRESS_NO_SUCH_HOST",
            Self::Unreachable(_) => "EGRESS_UNREACHABLE",
            Self::Timeout(_) => "EGRESS_TIMEOUT",
            Self::Busy(_) => "EGRESS_BUSY",
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::OriginForm | Self::UseConnect | Self::Scheme | Self::BadTarget(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::GatewayForm | Self::Off | Self::Port(_) | Self::PrivateAddress(_) => {
                StatusCode::FORBIDDEN
            }
            Self::NoSuchHost(_) | Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = text(self.status(), format!("cocoonbox: {self}\n"));
        let headers = response.headers_mut();
        headers.insert(REASON_HEADER, HeaderValue::from_static(self.reason()));
        if matches!(self, Self::Busy(_)) {
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
