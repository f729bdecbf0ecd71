//! Who may call: decided by the uid that the kernel vouches for.

use tokio::net::UnixStream;

/// The uids that are answered.
#[derive(Clone, Debug)]
pub struct Peers(Vec<u32>);

impl Peers {
    /// The loop's uid, root's and our own.
    pub fn new(agent_uid: u32) -> Self {
        Self(vec![agent_uid, 0, rustix::process::getuid().as_raw()])
    }

    pub(crate) fn admits(&self, stream: &UnixStream) -> bool {
        match stream.peer_cred() {
            Ok(peer) if self.0.contains(&peer.uid()) => true,
            Ok(peer) => {
                tracing::warn!(uid = peer.uid(), "caller refused");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "caller without credentials refused");
                false
            }
        }
    }
}
