//! The way of a viewer's messages into a box, and what is pressed there.

use std::{io, time::Duration};

use bytes::{Buf as _, BytesMut};
use tokio::{io::AsyncWriteExt as _, net::tcp::OwnedWriteHalf, time::timeout};

use super::rfb::{Held, Message, What};

/// For a box to take the ups of what is pressed. One that does not is closed, and its server lets go then.
const LET_GO: Duration = Duration::from_secs(1);

/// Sends messages on, whole or not at all.
pub(super) struct Input {
    writer: OwnedWriteHalf,
    /// Kept here while the box is slow, so that whoever is called off in between can go on.
    unsent: BytesMut,
    held: Held,
}

impl Input {
    pub(super) fn new(writer: OwnedWriteHalf) -> Self {
        Self {
            writer,
            unsent: BytesMut::new(),
            held: Held::default(),
        }
    }

    /// Takes a message to be sent, if it may pass. Returns whether it does.
    pub(super) fn take(&mut self, message: &Message, is_admitted: bool) -> bool {
        let passes = message.what != What::Power && (is_admitted || !message.what.is_input());
        if passes {
            let before = self.held.note(message.what);
            self.unsent.extend_from_slice(&before);
            self.unsent.extend_from_slice(&message.bytes);
        }
        passes
    }

    /// Sends what was taken. Called off, it goes on where it was.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.unsent.has_remaining() {
            let count = self.writer.write(&self.unsent).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.unsent.advance(count);
        }
        Ok(())
    }

    /// Lets go of everything that is pressed.
    pub(super) async fn let_go(&mut self) {
        let ups = self.held.release();
        self.unsent.extend_from_slice(&ups);
        drop(timeout(LET_GO, self.flush()).await);
    }
}
