//! Listening sockets that process 1 makes and a process of the user's gets, by their names.
//!
//! They come as one message over a socket that the process finds as its standard output: there is room for any
//! number of them, and none is open in a process that has no business with it.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// More than there are parts that somebody can ask for.
const SOCKETS_MAX: usize = 16;
const NAMES_BYTES_MAX: usize = 1024;

/// Returns what the process has to find as its standard output.
pub(crate) fn give(sockets: &[(String, OwnedFd)]) -> io::Result<OwnedFd> {
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join("\n");
    if sockets.len() > SOCKETS_MAX || names.len() > NAMES_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, one)| one.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    // It waits in the socket, with what it carries, until it is taken; our end need not stay open for that.
    let (ours, theirs) = UnixStream::pair()?;
    let flags = SendFlags::NOSIGNAL;
    sendmsg(
        &ours,
        &[IoSlice::new(names.as_bytes())],
        &mut control,
        flags,
    )?;
    Ok(theirs.into())
}

/// Takes what was given.
pub fn take(from: &OwnedFd) -> io::Result<Vec<(String, UnixListener)>> {
    let mut names = [0; NAMES_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        from,
        &mut [IoSliceMut::new(&mut names)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    let names = String::from_utf8_lossy(&names[..received.bytes]);
    let names: Vec<&str> = names.split('\n').filter(|name| !name.is_empty()).collect();
    if names.len() != descriptors.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let named = names.into_iter().zip(descriptors);
    Ok(named
        .map(|(name, descriptor)| (name.to_owned(), descriptor.into()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_arrive_under_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["browser", "computer"];
        let bound = names.map(|name| {
            let listener = UnixListener::bind(folder.path().join(name)).expect("a socket");
            (name.to_owned(), OwnedFd::from(listener))
        });
        let taken = take(&give(&bound).expect("given")).expect("taken");
        drop(bound);
        for ((name, listener), expected) in taken.iter().zip(names) {
            assert_eq!(name, expected);
            UnixStream::connect(folder.path().join(name)).expect("it is listened on");
            listener.accept().expect("the one of this name");
        }
        assert_eq!(taken.len(), 2);
        assert!(take(&give(&[]).expect("given")).expect("taken").is_empty());
    }
}
