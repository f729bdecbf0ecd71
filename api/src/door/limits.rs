//! What one box may hold open, and for how long.

use std::time::Duration;

/// A hostile box can only exhaust its own share. The defaults carry a browser with many tabs.
#[derive(Clone, Debug)]
pub struct DoorLimits {
    /// Connections of one box to its door, tunnels included; beyond it the answer is 503.
    pub connections: usize,
    /// Names of one box being resolved at a time; the others wait.
    pub lookups: usize,
    /// From the first try to a connected socket, over all addresses of a name.
    pub connect: Duration,
    /// For one name to resolve.
    pub lookup: Duration,
    /// A destination through which no byte went either way for this long is cut off.
    pub idle: Duration,
    /// For a request's head to arrive, and for the next one on a kept connection.
    pub header: Duration,
    /// A connection of the box on which no byte went either way for this long is cut off. Longer than
    /// a model thinks before it answers a call that is not streamed.
    pub connection_idle: Duration,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            lookups: 8,
            connect: Duration::from_secs(10),
            lookup: Duration::from_secs(5),
            idle: Duration::from_mins(2),
            header: Duration::from_secs(20),
            connection_idle: Duration::from_mins(15),
        }
    }
}
