//! What toolhost and supervisor say to each other.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use cocoonbox_proto::toolhost::v1::RunStart;
use prost::Message;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Every word has this many bytes: a tag, a number, a flag.
pub(crate) const LEN: usize = 6;

/// Arguments and environment of a command; Linux itself takes about 2 MiB.
pub(crate) const START_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Standard input, output and error of a command.
pub(crate) type Stdio = [OwnedFd; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// To the supervisor: a signal for the command's process group.
    Signal(i32),
    /// To the supervisor: ask the whole tree to end, then kill it.
    Cancel,
    /// To the supervisor: kill the whole tree.
    Kill,
    /// From it: the command's process id.
    Started(i32),
    /// From it: the command did not start; so many bytes of text follow.
    NotStarted(i32),
    /// From it: the exit code, and whether descendants are left.
    Exited {
        code: i32,
        left: bool,
    },
    Signalled {
        signal: i32,
        left: bool,
    },
}

impl Word {
    pub(crate) fn encode(self) -> [u8; LEN] {
        let (tag, number, flag) = match self {
            Self::Signal(number) => (b's', number, false),
            Self::Cancel => (b'c', 0, false),
            Self::Kill => (b'k', 0, false),
            Self::Started(pid) => (b'p', pid, false),
            Self::NotStarted(len) => (b'n', len, false),
            Self::Exited { code, left } => (b'e', code, left),
            Self::Signalled { signal, left } => (b'g', signal, left),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [tag, a, b, c, d, u8::from(flag)]
    }

    pub(crate) fn decode(bytes: [u8; LEN]) -> Option<Self> {
        let [tag, a, b, c, d, flag] = bytes;
        let number = i32::from_le_bytes([a, b, c, d]);
        let left = flag != 0;
        Some(match tag {
            b's' => Self::Signal(number),
            b'c' => Self::Cancel,
            b'k' => Self::Kill,
            b'p' => Self::Started(number),
            b'n' => Self::NotStarted(number),
            b'e' => Self::Exited { code: number, left },
            b'g' => Self::Signalled {
                signal: number,
                left,
            },
            _ => return None,
        })
    }
}

/// Sends the first four bytes of a start, its length, with the descriptors. The message itself follows.
pub(crate) fn send_stdio(socket: impl AsFd, len: usize, stdio: &Stdio) -> io::Result<()> {
    let len = u32::try_from(len)
        .map_err(|_| io::ErrorKind::InvalidInput)?
        .to_le_bytes();
    let fds = [stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&len)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    if sent == len.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

pub(crate) fn receive_start(socket: &UnixStream) -> io::Result<(RunStart, Stdio)> {
    let mut len = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut len)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if got.bytes != len.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::with_capacity(3);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let stdio = Stdio::try_from(fds).map_err(|_| io::ErrorKind::InvalidData)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > START_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    let mut reader = socket;
    reader.read_exact(&mut bytes)?;
    let start = RunStart::decode(bytes.as_slice()).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((start, stdio))
}

pub(crate) fn send_text(mut socket: &UnixStream, text: &str) -> io::Result<()> {
    let len = i32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    socket.write_all(&Word::NotStarted(len).encode())?;
    socket.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_wire() {
        let words = [
            Word::Signal(15),
            Word::Cancel,
            Word::Kill,
            Word::Started(77),
            Word::NotStarted(12),
            Word::Exited {
                code: -1,
                left: true,
            },
            Word::Signalled {
                signal: 9,
                left: false,
            },
        ];
        for word in words {
            assert_eq!(Word::decode(word.encode()), Some(word));
        }
        assert_eq!(Word::decode([0; LEN]), None);
    }
}
