//! The terminal of a command: our end is one descriptor for both directions.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use cocoonbox_proto::toolhost::v1::WindowSize;
use rustix::{
    fs::OFlags,
    io::Errno,
    process::{Pid, Signal},
    pty::OpenptFlags,
    termios::{InputModes, OptionalActions, Winsize},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

use crate::supervise::word::Stdio;

/// What a terminal is where nobody says: wide enough that few lines wrap.
const ROWS: u16 = 40;
const COLS: u16 = 120;

/// Our end. A clone is the same terminal; one task may read and one may write at a time.
#[derive(Clone, Debug)]
pub(crate) struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    /// Makes a terminal and the three descriptors of its command.
    pub(crate) fn open(size: WindowSize) -> io::Result<(Self, Stdio)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&ours)?;
        rustix::pty::unlockpt(&ours)?;
        // Asked of the descriptor and not by name: the box may have another /dev/pts mounted.
        let its = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
        let mut modes = rustix::termios::tcgetattr(&its)?;
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&its, OptionalActions::Now, &modes)?;
        let blocking = rustix::fs::fcntl_getfl(&ours)?;
        rustix::fs::fcntl_setfl(&ours, blocking | OFlags::NONBLOCK)?;
        let stdio = [its.try_clone()?, its.try_clone()?, its];
        // SAFETY: an owned descriptor stays open, and the same, until the registration is dropped with it.
        #[expect(
            unsafe_code,
            reason = "tokio has no safe way to wait for a descriptor that it did not open"
        )]
        let ours = unsafe { AsyncFd::register(ours) }?;
        let terminal = Self(Arc::new(ours));
        terminal.resize(size)?;
        Ok((terminal, stdio))
    }

    pub(crate) fn resize(&self, size: WindowSize) -> io::Result<()> {
        let cells = |asked: u32, usual: u16| match u16::try_from(asked) {
            Ok(0) => usual,
            Ok(cells) => cells,
            Err(_) => u16::MAX,
        };
        let size = Winsize {
            ws_row: cells(size.rows, ROWS),
            ws_col: cells(size.cols, COLS),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(self.0.get_ref(), size)?)
    }

    /// Sends a signal to whatever is in the foreground; false if nothing is.
    pub(crate) fn signal(&self, number: i32) -> bool {
        let group = rustix::termios::tcgetpgrp(self.0.get_ref());
        match (group, Signal::from_named_raw(number)) {
            (Ok(group), Some(signal)) if group != Pid::INIT => {
                rustix::process::kill_process_group(group, signal).is_ok()
            }
            _ => false,
        }
    }
}

impl AsyncRead for Terminal {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            match guard.try_io(|ours| Ok(rustix::io::read(ours.get_ref(), room)?)) {
                Ok(Ok(got)) => {
                    buffer.advance(got);
                    return Poll::Ready(Ok(()));
                }
                // Nobody has the other end open any more, and all of it is read.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            match guard.try_io(|ours| Ok(rustix::io::write(ours.get_ref(), bytes)?)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
