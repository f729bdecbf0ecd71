//! Whether somebody wants a part that does not run: a connection that nobody has taken.

use std::{io, os::unix::net::UnixListener, process::Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;

/// The socket of a part, which is open whether or not the part runs, so that nobody who connects is turned away.
#[derive(Debug)]
pub(super) struct Demand(AsyncFd<UnixListener>);

impl Demand {
    /// To be called on a runtime.
    #[expect(
        unsafe_code,
        reason = "tokio asks for a word that the descriptor stays open and the same"
    )]
    pub(super) fn new(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // SAFETY: a listener of the standard library owns its descriptor, which is what it always gives, until
        // it is dropped together with this.
        let listener = unsafe { AsyncFd::register(listener)? };
        Ok(Self(listener))
    }

    /// Resolves when somebody waits to be answered.
    pub(super) async fn comes(&self) {
        loop {
            let Ok(mut ready) = self.0.readable().await else {
                // The runtime ends.
                return std::future::pending().await;
            };
            // What is remembered may be a caller that the part has answered long ago.
            let mut looked = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
            if poll(&mut looked, Some(&Timespec::default())).is_ok_and(|found| found > 0) {
                return;
            }
            ready.clear_ready();
        }
    }

    /// Turns away all who wait to be answered.
    pub(super) fn refuse(&self) {
        while self.0.get_ref().accept().is_ok() {}
    }

    /// The socket as the part's standard input.
    pub(super) fn socket(&self) -> io::Result<Stdio> {
        Ok(std::os::fd::OwnedFd::from(self.0.get_ref().try_clone()?).into())
    }
}
