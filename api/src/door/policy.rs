//! What an installation allows its boxes on the web.

use super::target::{Host, Target};

/// The ports of the web. Others (mail, databases) are how a box would be made to attack someone.
const WEB_PORTS: [u16; 2] = [80, 443];

/// What boxes may reach besides the gateway.
#[derive(Clone, Debug)]
pub struct WebPolicy {
    /// Whether the public web may be reached at all.
    pub enabled: bool,
    /// Destinations (host, port) that may be reached although they are private, on another port, or
    /// the web is off. The operator decides and answers for them: every box of every user can reach
    /// them. The api's own addresses stay refused.
    pub allow: Vec<(String, u16)>,
}

impl Default for WebPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            allow: Vec::new(),
        }
    }
}

impl WebPolicy {
    /// Returns whether the operator named this very destination.
    pub(crate) fn names(&self, target: &Target) -> bool {
        self.allow.iter().any(|(host, port)| {
            *port == target.port && Host::parse(host).is_ok_and(|host| host == target.host)
        })
    }

    pub(crate) fn is_web_port(port: u16) -> bool {
        WEB_PORTS.contains(&port)
    }
}
