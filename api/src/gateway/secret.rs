//! A secret that neither a log line nor freed memory shows.

use std::fmt;

use zeroize::Zeroizing;

/// A key or token. `Debug` prints `***`; the memory is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(secret: String) -> Self {
        Self(Zeroizing::new(secret))
    }

    /// Returns the secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret::new("sk-very-secret".into());
        assert_eq!(format!("{:?}", Some(secret)), "Some(***)");
    }
}
