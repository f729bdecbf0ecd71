//! Which vendors there are.

use super::secret::Secret;

/// The models an installation has. A vendor that is absent is answered for with `MODEL_NOT_CONFIGURED`.
#[derive(Clone, Debug, Default)]
pub struct GatewayConfig {
    pub anthropic: Option<Vendor>,
    pub openai: Option<Vendor>,
}

/// A vendor, or any server that speaks its wire.
#[derive(Clone, Debug)]
pub struct Vendor {
    /// `https://api.anthropic.com`: what comes before `/v1/…`. A `/v1` at the end is let pass. It is the
    /// operator's word: it may be `http://` and it may be a private address.
    pub base_url: String,
    /// Sent as `x-api-key` or `Authorization: Bearer`; not sent if empty.
    pub key: Secret,
}

/// Why a gateway cannot be made of a configuration. None of it passes with time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("base url of `{vendor}` is not an http or https url without user, query and fragment")]
    BaseUrl { vendor: &'static str },
    #[error("key of `{vendor}` has characters that no header can carry")]
    Key { vendor: &'static str },
    #[error("https to the model vendors cannot be set up, most likely for want of CA certificates")]
    Client(#[source] reqwest::Error),
}

impl Error {
    /// Returns whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        false
    }
}
