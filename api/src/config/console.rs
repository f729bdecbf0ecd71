//! Where people open the console.

use serde::Deserialize;

use super::ConfigError;
use crate::passkeys::Places;

/// The page in a browser.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// `https://HOST` or `https://HOST:PORT` as browsers have it, beside `http://localhost` at the port that is listened
    /// on. Passkeys are good there.
    pub origins: Vec<String>,
}

impl Console {
    /// Where passkeys are good, if we listen at this port.
    pub fn places(&self, port: u16) -> Result<Places, ConfigError> {
        Ok(Places::new(&self.origins, port)?)
    }
}
